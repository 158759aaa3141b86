//! Bugs that can be planted in the ids, to prove that their checkers notice (feature `sabotage`).

use super::IdsBuilder;
use crate::link::Script;

/// The usual day counter: the sequence is a plain count, and a lost count starts over.
pub(super) static PLAIN_COUNTER: Script = Script::new(
    "local clock = redis.call('TIME')
    local last = redis.call('INCRBY', KEYS[2], ARGV[2])
    redis.call('EXPIRE', KEYS[2], ARGV[6])
    return {tonumber(clock[1]) - tonumber(ARGV[1]), last - tonumber(ARGV[2])}",
);

/// A known bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// The sequence counts from 0 and knows nothing of time.
    PlainCounter,
    /// The process does not tell what it already has.
    ForgetFloor,
    /// A segment is taken for twice as large as it is.
    DoubleSegment,
}

impl IdsBuilder {
    /// Plants a bug.
    #[must_use]
    pub fn sabotage(mut self, bug: Bug) -> Self {
        self.bug = Some(bug);
        self
    }
}
