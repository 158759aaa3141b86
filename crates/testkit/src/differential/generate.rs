//! Random dialogues from a seed.
//!
//! A dialogue is an *episode*: it begins with an empty server and new connections, so that it can
//! be replayed alone, which makes shrinking possible. Half of all draws are uniform over the
//! command table, so that no command is rare; the other half stays with the data types, where the
//! depth is.

use super::compare::Policy;
use super::grammar::{Grammar, Line, Node};
use super::{scripts, slots};
use crate::rng::Rng;

/// Connections 0 and 1 get exactly one reply per command; the others may get any number.
pub(super) const ORDINARY: usize = 2;
/// Connections of an episode with several clients.
pub(super) const CONNECTIONS: usize = 4;

/// Percentage of episodes with several connections.
const MULTI_PERCENT: usize = 20;
/// Percentage of commands that are damaged on purpose.
const MUTATION_PERCENT: usize = 14;

/// One command of an episode.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) connection: usize,
    pub(super) args: Vec<Vec<u8>>,
    pub(super) policy: Policy,
}

/// A dialogue that starts with an empty server.
#[derive(Debug, Clone)]
pub(super) struct Episode {
    pub(super) steps: Vec<Step>,
    /// Whether connections other than 0 take part.
    pub(super) multi: bool,
}

/// Draws episodes.
pub(super) struct Generator {
    grammar: Grammar,
    rng: Rng,
    /// Whether the command that is being built contains another one that must stay as it is.
    carries_fixed: bool,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Self { grammar: Grammar::load(), rng: Rng::new(seed), carries_fixed: false }
    }

    /// Returns every command that is drawn.
    pub(super) fn names(&self) -> &[String] {
        &self.grammar.names
    }

    pub(super) fn episode(&mut self) -> Episode {
        let multi = self.rng.chance(MULTI_PERCENT);
        let wanted = 40 + self.rng.below(100);
        let mut steps = Vec::with_capacity(wanted + 8);
        while steps.len() < wanted {
            let connection = if multi { self.rng.below(CONNECTIONS) } else { 0 };
            if connection < ORDINARY && self.rng.chance(3) {
                self.transaction(connection, &mut steps);
            } else {
                self.unit(connection, multi, &mut steps);
            }
        }
        Episode { steps, multi }
    }

    /// Draws MULTI, a few commands, EXEC.
    fn transaction(&mut self, connection: usize, steps: &mut Vec<Step>) {
        let mut push = |words: &[&str]| {
            let args = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            steps.push(Step { connection, args, policy: Policy::Exact });
        };
        if self.rng.chance(30) {
            push(&["WATCH", slots::any_key(&mut self.rng)]);
        }
        push(&["MULTI"]);
        for _ in 0..1 + self.rng.below(5) {
            let line = self.line();
            // After a command that ends the block, a blocking one would really block.
            let ends = matches!(&line.nodes[0], Node::Word(w) if w == "EXEC" || w == "DISCARD");
            let drains = line.flags.drain && !line.flags.blocking;
            if !line.flags.plain && !line.flags.destroy && !drains && !ends {
                let args = self.command(&line);
                steps.push(Step { connection, args, policy: line.policy });
            }
        }
        let end = if self.rng.chance(90) { b"EXEC".to_vec() } else { b"DISCARD".to_vec() };
        steps.push(Step { connection, args: vec![end], policy: Policy::Exact });
    }

    /// Draws one command from the table, with the commands that must surround it.
    fn unit(&mut self, connection: usize, multi: bool, steps: &mut Vec<Step>) {
        let line = self.line();
        let drains = connection >= ORDINARY;
        // Commands that answer once may go to any connection, but random ones and those that change
        // the protocol stay on connections with one reply per command.
        let connection = match (line.flags.drain, drains) {
            (false, true) if line.policy != Policy::Exact || line.flags.plain => 0,
            (true, false) if multi => ORDINARY + self.rng.below(CONNECTIONS - ORDINARY),
            _ => connection,
        };
        let mut push = |args: Vec<Vec<u8>>, policy| steps.push(Step { connection, args, policy });
        let args = self.command(&line);
        if line.flags.drain && connection < ORDINARY {
            if line.flags.blocking {
                push(vec![b"MULTI".to_vec()], Policy::Exact);
                push(args, line.policy);
                push(vec![b"EXEC".to_vec()], Policy::Exact);
            } else if args[0] != b"QUIT" {
                // Alone it has a wrong number of arguments, or one reply.
                push(args[..1].to_vec(), Policy::Exact);
            }
            return;
        }
        let key = args.get(1).cloned();
        if line.policy == Policy::Pick {
            let (words, policy): (&[&str], Policy) = match args[0].as_slice() {
                b"HRANDFIELD" => (&["HGETALL"], Policy::Pairs),
                b"ZRANDMEMBER" => (&["ZRANGE", "0", "-1", "WITHSCORES"], Policy::Exact),
                b"RANDOMKEY" => (&["KEYS", "*"], Policy::Unordered),
                _ => (&["SMEMBERS"], Policy::Unordered),
            };
            let mut read: Vec<Vec<u8>> = words.iter().map(|w| w.as_bytes().to_vec()).collect();
            if let Some(key) = &key {
                read.insert(1, key.clone());
            }
            push(read, policy);
        }
        push(args, line.policy);
        if let (true, Some(key)) = (line.flags.destroy, key) {
            push(vec![b"DEL".to_vec(), key], Policy::Exact);
        }
    }

    fn line(&mut self) -> Line {
        let name = if self.rng.chance(50) {
            self.rng.pick(&self.grammar.names)
        } else {
            let section = self.rng.pick(&self.grammar.sections);
            self.rng.pick(section)
        };
        self.rng.pick(&self.grammar.commands[name]).clone()
    }

    /// Returns the words of a command, sometimes damaged.
    fn command(&mut self, line: &Line) -> Vec<Vec<u8>> {
        let mut args = Vec::new();
        let outer = std::mem::replace(&mut self.carries_fixed, false);
        self.expand(&line.nodes, &mut args);
        let fixed = line.flags.fixed || self.carries_fixed;
        self.carries_fixed = outer;
        if !fixed && self.rng.chance(MUTATION_PERCENT) {
            self.mutate(&mut args);
        }
        args
    }

    fn expand(&mut self, nodes: &[Node], out: &mut Vec<Vec<u8>>) {
        for node in nodes {
            match node {
                Node::Word(word) => out.push(word.as_bytes().to_vec()),
                Node::Slot(slot) => self.slot(slot, out),
                Node::Optional(inner) => {
                    if self.rng.chance(35) {
                        self.expand(inner, out);
                    }
                }
                Node::OneOf(choices) => {
                    let choice = self.rng.below(choices.len());
                    self.expand(&choices[choice], out);
                }
                Node::Repeated(inner) => {
                    for _ in 0..1 + self.rng.below(3) {
                        self.expand(inner, out);
                    }
                }
            }
        }
    }

    fn slot(&mut self, slot: &str, out: &mut Vec<Vec<u8>>) {
        match slot {
            "script" => self.script(out),
            "body" => out.push(scripts::body(&mut self.rng)),
            "library" => out.push(scripts::library(&mut self.rng)),
            "anycommand" => {
                let nested = self.nested();
                out.extend(nested);
            }
            _ => slots::fill(slot, &mut self.rng, out),
        }
    }

    /// Adds a body with keys and arguments, or one that runs a command.
    fn script(&mut self, out: &mut Vec<Vec<u8>>) {
        if self.rng.chance(40) {
            out.push(scripts::body(&mut self.rng));
            slots::fill("nkeys:key", &mut self.rng, out);
            slots::fill("val", &mut self.rng, out);
            return;
        }
        out.push(self.rng.pick(&scripts::CALLERS).as_bytes().to_vec());
        out.push(b"0".to_vec());
        let nested = self.nested();
        out.extend(nested);
    }

    /// Returns a command whose reply is identical on both servers.
    fn nested(&mut self) -> Vec<Vec<u8>> {
        loop {
            let line = self.line();
            let flags = line.flags;
            let uses_scripts = matches!(&line.nodes[0], Node::Word(w) if w.starts_with("EVAL"));
            let drains = flags.drain && !flags.blocking;
            if line.policy == Policy::Exact && !flags.plain && !drains && !uses_scripts {
                let args = self.command(&line);
                self.carries_fixed = flags.fixed;
                return args;
            }
        }
    }

    fn mutate(&mut self, args: &mut Vec<Vec<u8>>) {
        let strange = self.rng.pick(&slots::STRANGE).to_vec();
        let last = args.len() - 1;
        let at = if last == 0 { 0 } else { 1 + self.rng.below(last) };
        match self.rng.below(7) {
            0 if last > 0 => drop(args.pop()),
            1 if last > 0 => drop(args.remove(at)),
            2 => args.push(strange),
            3 | 4 if last > 0 => args[at] = strange,
            5 if last > 0 => args.insert(at, args[at].clone()),
            6 if last > 1 => args.swap(at, last),
            _ => {
                for word in args {
                    if word.iter().all(u8::is_ascii_uppercase) {
                        word.make_ascii_lowercase();
                    }
                }
            }
        }
    }
}
