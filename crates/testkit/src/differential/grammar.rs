//! Reads `commands.txt`: the commands, the shape of their arguments, and how their replies are
//! compared.

use std::collections::BTreeMap;

use super::compare::Policy;

/// One line of the table.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) policy: Policy,
    pub(super) flags: Flags,
    pub(super) nodes: Vec<Node>,
}

/// What is special about a line; see the head of `commands.txt`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) fixed: bool,
    pub(super) drain: bool,
    pub(super) blocking: bool,
    pub(super) destroy: bool,
    pub(super) plain: bool,
}

/// A piece of an argument list.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Word(String),
    Slot(String),
    Optional(Vec<Node>),
    OneOf(Vec<Vec<Node>>),
    Repeated(Vec<Node>),
}

/// The whole table.
#[derive(Debug, Clone)]
pub(super) struct Grammar {
    /// The lines of each command, by its name in upper case.
    pub(super) commands: BTreeMap<String, Vec<Line>>,
    pub(super) names: Vec<String>,
    /// The commands of each section that works on data.
    pub(super) sections: Vec<Vec<String>>,
}

impl Grammar {
    /// Reads the table; it is part of this crate, so a mistake in it is a broken invariant.
    pub(super) fn load() -> Self {
        let mut commands: BTreeMap<String, Vec<Line>> = BTreeMap::new();
        let mut sections: Vec<Vec<String>> = Vec::new();
        let source = include_str!("commands.txt");
        for line in source.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if line.starts_with('[') {
                sections.push(Vec::new());
                continue;
            }
            let (name, line) = parse_line(line);
            let section = sections.last_mut().expect("commands.txt begins with a section");
            if !section.contains(&name) {
                section.push(name.clone());
            }
            commands.entry(name).or_default().push(line);
        }
        // The last section is about the server, not about data.
        sections.pop();
        Self { names: commands.keys().cloned().collect(), commands, sections }
    }
}

fn parse_line(source: &str) -> (String, Line) {
    let mut words = source.splitn(2, ' ');
    let policy = words.next().and_then(Policy::named);
    let policy = policy.unwrap_or_else(|| panic!("commands.txt: no policy in {source}"));
    let mut rest = words.next().unwrap_or_default();
    let mut flags = Flags::default();
    while let Some(tail) = rest.strip_prefix('+') {
        let (flag, tail) = tail.split_once(' ').expect("commands.txt: a flag before a command");
        match flag {
            "fixed" => flags.fixed = true,
            "drain" => flags.drain = true,
            "blocking" => (flags.drain, flags.blocking) = (true, true),
            "destroy" => flags.destroy = true,
            "plain" => flags.plain = true,
            other => panic!("commands.txt: unknown flag {other}"),
        }
        rest = tail;
    }
    let mut parser = Parser { rest };
    let nodes = parser.sequence();
    assert!(parser.rest.is_empty(), "commands.txt: cannot read {source}");
    let Some(Node::Word(name)) = nodes.first() else {
        panic!("commands.txt: no command in {source}")
    };
    (name.clone(), Line { policy, flags, nodes })
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    /// Reads until the end or a closing bracket.
    fn sequence(&mut self) -> Vec<Node> {
        let mut nodes = Vec::new();
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.as_bytes().first() {
                None | Some(b']' | b')' | b'}' | b'|') => return nodes,
                Some(b'[') => nodes.push(Node::Optional(self.bracketed(']'))),
                Some(b'{') => nodes.push(Node::Repeated(self.bracketed('}'))),
                Some(b'(') => nodes.push(self.alternatives()),
                Some(_) => nodes.push(self.word()),
            }
        }
    }

    fn bracketed(&mut self, close: char) -> Vec<Node> {
        self.rest = &self.rest[1..];
        let nodes = self.sequence();
        self.rest = self.rest.strip_prefix(close).expect("commands.txt: brackets match");
        nodes
    }

    fn alternatives(&mut self) -> Node {
        let mut choices = Vec::new();
        loop {
            // The opening bracket, or the bar before the next choice.
            self.rest = &self.rest[1..];
            choices.push(self.sequence());
            if let Some(tail) = self.rest.strip_prefix(')') {
                self.rest = tail;
                return Node::OneOf(choices);
            }
        }
    }

    fn word(&mut self) -> Node {
        // `>` and `h1->f1` are words; only `<` opens a slot.
        if let Some(tail) = self.rest.strip_prefix('<') {
            let (name, tail) = tail.split_once('>').expect("commands.txt: slots are closed");
            self.rest = tail;
            return Node::Slot(name.to_owned());
        }
        let ends = |c: char| matches!(c, ' ' | ']' | ')' | '}' | '|');
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, tail) = self.rest.split_at(end);
        self.rest = tail;
        Node::Word(word.to_owned())
    }
}
