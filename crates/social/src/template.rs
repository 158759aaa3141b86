//! A key template: `PREFIXkind:{name:subject}`, and the functions that all structures share.

use redis::Value;
use seawall_client::{
    Handle, KeyPart,
    client::Client,
    error::{Error, Result},
    key::KeyBuffer,
    member::Member,
};

/// Longest reference of an idempotent change.
const MAX_REFERENCE_BYTES: usize = 128;

/// The keys of one structure.
#[derive(Debug, Clone)]
pub(super) struct Template {
    handle: Handle,
    kind: &'static str,
    name: String,
}

impl Template {
    pub(super) fn new(handle: &Handle, kind: &'static str, name: impl Into<String>) -> Self {
        Template { handle: handle.clone(), kind, name: name.into() }
    }

    /// Returns the key of a subject. A key with a suffix appended to it is in the same slot.
    pub(super) fn key(&self, subject: &(impl KeyPart + ?Sized)) -> Result<Vec<u8>> {
        self.handle.key(self.kind, &(self.name.as_str(), subject))
    }

    /// Returns the key of a subject that is a member itself.
    pub(super) fn key_of(&self, subject: &impl Member) -> Result<Vec<u8>> {
        self.key(&*subject.to_member()?)
    }

    pub(super) fn client(&self) -> &Client {
        self.handle.client()
    }
}

/// Returns a key beside `key`, in its slot.
pub(super) fn beside(key: &[u8], suffix: &str) -> Vec<u8> {
    [key, suffix.as_bytes()].concat()
}

/// Returns the key beside `key` that remembers the outcome for one member's reference.
///
/// Two members may use the same reference, such as the match in which both have won points.
pub(super) fn remembered(key: &[u8], kind: &str, member: &[u8], reference: &str) -> Vec<u8> {
    let mut name = KeyBuffer::starting_with(&beside(key, kind));
    name.push_part(member);
    name.push_separator();
    name.push_part(reference.as_bytes());
    name.as_bytes().to_vec()
}

/// Refuses a reference that is empty or too long.
pub(super) fn check_reference(reference: &str) -> Result<()> {
    if reference.is_empty() || reference.len() > MAX_REFERENCE_BYTES {
        return Err(Error::Invalid(format!("a reference has 1 to {MAX_REFERENCE_BYTES} bytes")));
    }
    Ok(())
}

/// Parses members from a reply that is a list of them.
pub(super) fn members<M: Member>(reply: &[Vec<u8>]) -> Result<Vec<M>> {
    reply.iter().map(|bytes| M::from_member(bytes)).collect()
}

/// Parses members with their scores, from `WITHSCORES` in either protocol.
pub(super) fn scored(reply: Value) -> Result<Vec<(Vec<u8>, i64)>> {
    let pairs: Vec<(Vec<u8>, f64)> = redis::from_redis_value(reply)?;
    Ok(pairs.into_iter().map(|(member, score)| (member, score as i64)).collect())
}

/// Refuses a page size that is zero or too large.
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
