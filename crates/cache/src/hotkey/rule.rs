//! What makes a key hot, and what follows from it: rules by prefix, the longest one that matches.

use std::time::Duration;

use seawall_client::{
    error::{Error, Result},
    key::{KeyBuffer, KeyPart},
};
use seawall_resilience::{Rate, TokenBucket};

/// The shortest and the longest window.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(60);
/// The most reads that a rule may ask for in a window.
const MOST_READS: u64 = 1 << 40;

/// When a key is hot, and what its cache does then.
///
/// ```
/// use std::time::Duration;
/// use seawall::{guard::{Rate, TokenBucket}, hotkey::HotRule};
///
/// // 5,000 reads a second in all processes together; each process then asks Redis or the source
/// // for this key at most 50 times a second.
/// let rule = HotRule::new(5_000, Duration::from_secs(1)).limit(Rate::per_second(50));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a rule does nothing until a cache has it"]
pub struct HotRule {
    pub(super) threshold: u64,
    pub(super) window: Duration,
    pub(super) cool_for: Duration,
    pub(super) limit: Option<Rate>,
    pub(super) copies_at: Option<u64>,
}

impl HotRule {
    /// Hot with this many reads within `window`, in all processes together.
    pub fn new(threshold: u64, window: Duration) -> Self {
        HotRule {
            threshold,
            window,
            cool_for: window.saturating_mul(3),
            limit: None,
            copies_at: None,
        }
    }

    /// Sets how long a key stays hot after it was last read half as often as the threshold. Default:
    /// three windows.
    pub fn cool_for(mut self, time: Duration) -> Self {
        self.cool_for = time;
        self
    }

    /// How often each process may ask Redis or the source for a key while it is hot. Beyond that a
    /// read gets the copy past its lifetime, or
    /// [`CacheError::Shed`](crate::CacheError::Shed).
    pub fn limit(mut self, rate: Rate) -> Self {
        self.limit = Some(rate);
        self
    }

    /// With this many reads within the window, reads from Redis are spread over the copies that
    /// [`CacheBuilder::copies`](crate::CacheBuilder::copies) asks for.
    pub fn copies_at(mut self, threshold: u64) -> Self {
        self.copies_at = Some(threshold);
        self
    }

    fn check(&self) -> Result<()> {
        let refuse = |sentence: String| Err(Error::Invalid(format!("hot rule: {sentence}")));
        if self.threshold == 0 || self.threshold > MOST_READS {
            return refuse(format!("a threshold of {} reads makes no sense", self.threshold));
        }
        if self.window < SHORTEST || self.window > LONGEST {
            return refuse(format!(
                "window is {:?}, it must be between {SHORTEST:?} and {LONGEST:?}",
                self.window
            ));
        }
        if self.cool_for < self.window || self.cool_for > LONGEST * 60 {
            return refuse(format!(
                "cool_for is {:?}, it must be between the window ({:?}) and an hour",
                self.cool_for, self.window
            ));
        }
        if let Some(rate) = self.limit {
            let built = TokenBucket::builder("hot key", rate).build();
            built.map_err(|error| Error::Invalid(format!("hot rule: {error}")))?;
        }
        match self.copies_at {
            Some(reads) if reads < self.threshold => refuse(format!(
                "copies_at ({reads}) is below the threshold ({}): only hot keys have copies",
                self.threshold
            )),
            _ => Ok(()),
        }
    }
}

impl Default for HotRule {
    /// A thousand reads within a second.
    fn default() -> Self {
        HotRule::new(1_000, Duration::from_secs(1))
    }
}

/// The rules of one cache.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use seawall::{Seawall, cache::Cache, hotkey::{HotRule, HotRules}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let second = Duration::from_secs(1);
/// let rules = HotRules::default() // a thousand reads a second …
///     .prefix("sale", HotRule::new(200, second)); // … and less for what is on sale
/// let goods: Cache<(String, u64), String> = seawall.cache("goods").hot_keys(rules).build()?;
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "rules do nothing until a cache has them"]
pub struct HotRules {
    /// Longest prefix first.
    prefixes: Vec<(Vec<u8>, HotRule)>,
    otherwise: Option<HotRule>,
}

impl Default for HotRules {
    /// The default rule for every key.
    fn default() -> Self {
        HotRules::all(HotRule::default())
    }
}

impl HotRules {
    /// One rule for every key.
    pub fn all(rule: HotRule) -> Self {
        HotRules { prefixes: Vec::new(), otherwise: Some(rule) }
    }

    /// No rule: reads are not counted, and only keys that are declared hot are.
    pub fn off() -> Self {
        HotRules { prefixes: Vec::new(), otherwise: None }
    }

    /// Another rule for keys that begin like this; the longest prefix that matches counts.
    pub fn prefix(mut self, prefix: impl KeyPart, rule: HotRule) -> Self {
        let mut bytes = KeyBuffer::default();
        prefix.write(&mut bytes);
        self.prefixes.push((bytes.as_bytes().to_vec(), rule));
        self.prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        self
    }

    /// Returns the rule of a key, given without the cache's own prefix.
    pub(super) fn of(&self, id: &[u8]) -> Option<&HotRule> {
        let prefixed = self.prefixes.iter().find(|(prefix, _)| id.starts_with(prefix));
        prefixed.map(|(_, rule)| rule).or(self.otherwise.as_ref())
    }

    /// Returns whether any key has a rule.
    pub(crate) fn count_reads(&self) -> bool {
        self.otherwise.is_some() || !self.prefixes.is_empty()
    }

    /// Returns whether any rule wants copies.
    pub(crate) fn want_copies(&self) -> bool {
        self.each().any(|rule| rule.copies_at.is_some())
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &HotRule> {
        self.prefixes.iter().map(|(_, rule)| rule).chain(self.otherwise.as_ref())
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.each().try_for_each(HotRule::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_counts() {
        let rule = |threshold| HotRule::new(threshold, Duration::from_secs(1));
        let rules = HotRules::all(rule(1)).prefix("a", rule(2)).prefix(("a", "b"), rule(3));
        let threshold = |id: &[u8]| rules.of(id).map(|rule| rule.threshold);
        assert_eq!(threshold(b"a:b:7"), Some(3));
        assert_eq!(threshold(b"a:c"), Some(2));
        assert_eq!(threshold(b"x"), Some(1));
        assert_eq!(HotRules::off().of(b"x"), None);
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        let second = Duration::from_secs(1);
        for rule in [
            HotRule::new(0, second),
            HotRule::new(1, Duration::ZERO),
            HotRule::new(1, Duration::from_secs(3600)),
            HotRule::new(1, second).cool_for(Duration::ZERO),
            HotRule::new(10, second).copies_at(9),
        ] {
            assert!(HotRules::all(rule.clone()).check().is_err(), "{rule:?}");
        }
        assert!(HotRules::default().check().is_ok());
    }
}
