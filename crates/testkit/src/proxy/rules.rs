//! The proxy's rules: what it does to which command.
//!
//! Rules are checked in the order in which they were added; the first that matches decides. Random
//! choices come from one seeded generator.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::rng::Rng;

/// A command as the client sent it, its name first.
pub type Command = Vec<Vec<u8>>;

type Test = Arc<dyn Fn(&[Vec<u8>]) -> bool + Send + Sync>;

/// Selects the commands of a rule. Default: every command.
#[derive(Clone)]
pub struct On {
    name: Option<String>,
    prefix: Option<Vec<u8>>,
    test: Option<Test>,
    skip: u64,
    times: u64,
    probability: f64,
}

impl On {
    /// Selects every command.
    #[must_use]
    pub fn any() -> Self {
        let always = u64::MAX;
        Self { name: None, prefix: None, test: None, skip: 0, times: always, probability: 1.0 }
    }

    /// Selects commands with this name, in either case; a second word names a subcommand, as in
    /// `CLIENT TRACKING`.
    #[must_use]
    pub fn command(name: &str) -> Self {
        Self { name: Some(name.to_ascii_uppercase()), ..Self::any() }
    }

    /// Selects only commands with an argument that starts with this prefix: a key at any position,
    /// or a channel.
    #[must_use]
    pub fn key_prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.prefix = Some(prefix.as_ref().to_vec());
        self
    }

    /// Selects only commands for which `test` returns `true`; it gets the name and the arguments.
    #[must_use]
    pub fn when(mut self, test: impl Fn(&[Vec<u8>]) -> bool + Send + Sync + 'static) -> Self {
        self.test = Some(Arc::new(test));
        self
    }

    /// Selects only the `n`-th match from now on, counted from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.skip = n.saturating_sub(1);
        self.times = 1;
        self
    }

    /// Selects only the next match.
    #[must_use]
    pub fn once(self) -> Self {
        self.nth(1)
    }

    /// Selects at most this many matches.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Selects each match with this probability, between 0 and 1.
    #[must_use]
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    fn matches(&self, command: &[Vec<u8>]) -> bool {
        let name_fits = self.name.as_deref().is_none_or(|name| is_named(command, name));
        let prefix_fits = self.prefix.as_deref().is_none_or(|prefix| {
            command.iter().skip(1).any(|argument| argument.starts_with(prefix))
        });
        name_fits && prefix_fits && self.test.as_ref().is_none_or(|test| test(command))
    }

    /// Returns `true` if the rule applies to this match.
    fn takes(&mut self, rng: &mut Rng) -> bool {
        if self.times == 0 {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.probability < 1.0 && unit(rng) >= self.probability {
            return false;
        }
        if self.times != u64::MAX {
            self.times -= 1;
        }
        true
    }
}

impl fmt::Debug for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, prefix, test, skip, times, probability } = self;
        f.debug_struct("On")
            .field("name", name)
            .field("prefix", prefix)
            .field("test", &test.is_some())
            .field("skip", skip)
            .field("times", times)
            .field("probability", probability)
            .finish()
    }
}

fn is_named(command: &[Vec<u8>], name: &str) -> bool {
    let mut words = name.split(' ');
    let fits = |at: usize, word: &str| {
        command.get(at).is_some_and(|own| own.eq_ignore_ascii_case(word.as_bytes()))
    };
    (0..).zip(&mut words).all(|(at, word)| fits(at, word))
}

/// Returns a number in [0, 1).
fn unit(rng: &mut Rng) -> f64 {
    // The upper 53 bits are as many as an f64 holds.
    (rng.next() >> 11) as f64 / (1u64 << 53) as f64
}

/// What happens to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// It and its reply are forwarded.
    Pass,
    /// It is executed; its reply is lost with the connection.
    LoseReply,
    /// It never arrives, and the connection is reset.
    LoseRequest,
    /// It never arrives, and is answered with these bytes.
    Answer(Vec<u8>),
    /// It arrives when this rule is removed.
    HoldRequest(RuleId),
    /// It is executed; its reply arrives when this rule is removed.
    HoldReply(RuleId),
}

/// Identifies a rule, to remove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleId(u64);

/// Counts commands that reached the server.
#[derive(Debug, Clone)]
pub struct Watch(Arc<AtomicU64>);

impl Watch {
    /// Returns the count so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// What happens to the bytes of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Flow {
    /// They are forwarded.
    #[default]
    Open,
    /// They wait.
    Stalled,
    /// They are dropped.
    Swallowed,
}

/// Pushes to drop.
#[derive(Debug, Clone)]
pub(super) struct PushLoss {
    pub(super) prefix: Vec<u8>,
    pub(super) probability: f64,
    pub(super) times: u64,
}

/// Everything that can be changed while the proxy runs.
#[derive(Debug)]
pub(super) struct Rules {
    faults: Vec<(RuleId, On, Fate)>,
    watches: Vec<(On, Watch)>,
    next_id: u64,
    pub(super) push_loss: Option<PushLoss>,
    pub(super) flow: [Flow; 2],
    pub(super) delay: [Duration; 2],
    pub(super) passed: BTreeMap<String, u64>,
    pub(super) lost_pushes: u64,
    rng: Rng,
}

impl Rules {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            faults: Vec::new(),
            watches: Vec::new(),
            next_id: 0,
            push_loss: None,
            flow: [Flow::Open; 2],
            delay: [Duration::ZERO; 2],
            passed: BTreeMap::new(),
            lost_pushes: 0,
            rng: Rng::new(seed),
        }
    }

    pub(super) fn reseed(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
    }

    pub(super) fn add(&mut self, on: On, fate: Fate) -> RuleId {
        let id = RuleId(self.next_id);
        self.next_id += 1;
        self.faults.push((id, on, fate));
        id
    }

    /// Adds a rule whose fate names the rule itself.
    pub(super) fn add_named(&mut self, on: On, fate: impl FnOnce(RuleId) -> Fate) -> RuleId {
        self.add(on, fate(RuleId(self.next_id)))
    }

    pub(super) fn has(&self, id: RuleId) -> bool {
        self.faults.iter().any(|(own, ..)| *own == id)
    }

    pub(super) fn remove(&mut self, id: RuleId) {
        self.faults.retain(|(own, ..)| *own != id);
    }

    pub(super) fn watch(&mut self, on: On) -> Watch {
        let watch = Watch(Arc::default());
        self.watches.push((on, watch.clone()));
        watch
    }

    /// Removes every fault; watches and counts stay.
    pub(super) fn heal(&mut self) {
        self.faults.clear();
        self.push_loss = None;
        self.flow = [Flow::Open; 2];
        self.delay = [Duration::ZERO; 2];
    }

    /// Decides about `command`, and counts it if it is forwarded.
    pub(super) fn judge(&mut self, command: &[Vec<u8>]) -> Fate {
        let Self { faults, rng, .. } = self;
        let hit = faults
            .iter_mut()
            .find_map(|(_, on, fate)| (on.matches(command) && on.takes(rng)).then(|| fate.clone()));
        let fate = hit.unwrap_or(Fate::Pass);
        if !matches!(fate, Fate::LoseRequest | Fate::Answer(_)) {
            let name = command.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
            let name = String::from_utf8_lossy(&name).into_owned();
            *self.passed.entry(name).or_default() += 1;
            for (on, watch) in &self.watches {
                if on.matches(command) {
                    watch.0.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
        fate
    }

    /// Returns `true` if a push on `channel` is dropped.
    pub(super) fn loses_push(&mut self, channel: &[u8]) -> bool {
        let Some(loss) = &mut self.push_loss else { return false };
        let lost = loss.times > 0
            && channel.starts_with(&loss.prefix)
            && (loss.probability >= 1.0 || unit(&mut self.rng) < loss.probability);
        if lost {
            self.lost_pushes += 1;
            if loss.times != u64::MAX {
                loss.times -= 1;
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::{Fate, On, Rules};

    fn command(text: &str) -> Vec<Vec<u8>> {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn name_prefix_and_turn_choose() {
        let mut rules = Rules::new(1);
        rules.add(On::command("del").key_prefix("a:").nth(2), Fate::LoseReply);
        rules.add(On::command("CLIENT TRACKING"), Fate::LoseRequest);
        let watch = rules.watch(On::command("DEL"));
        assert_eq!(rules.judge(&command("DEL b:1")), Fate::Pass);
        assert_eq!(rules.judge(&command("DEL b:1 a:1")), Fate::Pass);
        assert_eq!(rules.judge(&command("Del a:2")), Fate::LoseReply);
        assert_eq!(rules.judge(&command("DEL a:3")), Fate::Pass);
        assert_eq!(rules.judge(&command("CLIENT ID")), Fate::Pass);
        assert_eq!(rules.judge(&command("client tracking on")), Fate::LoseRequest);
        assert_eq!((watch.count(), rules.passed["DEL"], rules.passed["CLIENT"]), (4, 4, 1));
    }

    #[test]
    fn the_same_seed_gives_the_same_chances() {
        let drawn = |seed| -> Vec<bool> {
            let mut rules = Rules::new(seed);
            rules.add(On::any().probability(0.3), Fate::LoseReply);
            (0..1000).map(|_| rules.judge(&command("GET k")) != Fate::Pass).collect()
        };
        assert_eq!(drawn(5), drawn(5));
        assert_ne!(drawn(5), drawn(6));
        let lost = drawn(5).iter().filter(|lost| **lost).count();
        assert!((200..400).contains(&lost), "{lost}");
    }
}
