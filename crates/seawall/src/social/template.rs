//! A key template: `PREFIXkind:{name:subject}`, and what all structures do with one.

use redis::Value;

use crate::{
    KeyPart, Seawall,
    error::{Error, Result},
    link::Link,
    member::Member,
};

/// The keys of one structure.
#[derive(Debug, Clone)]
pub(super) struct Template {
    seawall: Seawall,
    kind: &'static str,
    name: String,
}

impl Template {
    pub(super) fn new(seawall: &Seawall, kind: &'static str, name: impl Into<String>) -> Self {
        Template { seawall: seawall.clone(), kind, name: name.into() }
    }

    /// The key of a subject. Whatever is appended to it lies in the same slot.
    pub(super) fn key(&self, subject: &(impl KeyPart + ?Sized)) -> Result<Vec<u8>> {
        self.seawall.key(self.kind, &(self.name.as_str(), subject))
    }

    /// The key of a subject that is a member itself.
    pub(super) fn key_of(&self, subject: &impl Member) -> Result<Vec<u8>> {
        self.key(&*subject.to_member()?)
    }

    pub(super) fn link(&self) -> &Link {
        self.seawall.link()
    }
}

/// A key beside `key`, in its slot.
pub(super) fn beside(key: &[u8], suffix: &str) -> Vec<u8> {
    [key, suffix.as_bytes()].concat()
}

/// Members out of a reply that is a list of them.
pub(super) fn members<M: Member>(reply: &[Vec<u8>]) -> Result<Vec<M>> {
    reply.iter().map(|bytes| M::from_member(bytes)).collect()
}

/// Members with their scores, out of `WITHSCORES` in either protocol.
pub(super) fn scored(reply: Value) -> Result<Vec<(Vec<u8>, i64)>> {
    let pairs: Vec<(Vec<u8>, f64)> = redis::from_redis_value(reply)?;
    Ok(pairs.into_iter().map(|(member, score)| (member, score as i64)).collect())
}

/// Refuses a page size that is none or too large.
pub(super) fn check_count(count: usize) -> Result<()> {
    if count == 0 || count > super::SLICE {
        return Err(Error::Invalid(format!(
            "a page of {count} makes no sense: 1 to {} are allowed",
            super::SLICE
        )));
    }
    Ok(())
}

/// Refuses a time or score that a sorted set would round.
pub(super) fn check_score(score: i64) -> Result<()> {
    if score.unsigned_abs() > super::MAX_SCORE as u64 {
        return Err(Error::Invalid(format!(
            "{score} is beyond ±{}, what a sorted set keeps exactly",
            super::MAX_SCORE
        )));
    }
    Ok(())
}
