//! A key template: `PREFIXkind:{name:subject}`, and what all structures do with one.

use redis::Value;
use seawall_client::{
    Handle, KeyPart,
    client::Client,
    error::{Error, Result},
    key::KeyBuffer,
    member::Member,
};

/// The longest reference of a repeatable change.
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

    /// The key of a subject. Whatever is appended to it lies in the same slot.
    pub(super) fn key(&self, subject: &(impl KeyPart + ?Sized)) -> Result<Vec<u8>> {
        self.handle.key(self.kind, &(self.name.as_str(), subject))
    }

    /// The key of a subject that is a member itself.
    pub(super) fn key_of(&self, subject: &impl Member) -> Result<Vec<u8>> {
        self.key(&*subject.to_member()?)
    }

    pub(super) fn client(&self) -> &Client {
        self.handle.client()
    }
}

/// Clones and texts of handles on collections with a source, whatever their members are: settings,
/// the handle over them, and the view of one subject.
macro_rules! handles {
    ($settings:ident, $all:ident, $one:ident) => {
        impl<M> Clone for $all<M> {
            fn clone(&self) -> Self {
                $all { inner: Arc::clone(&self.inner) }
            }
        }

        impl<M> std::fmt::Debug for $settings<M> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut text = f.debug_struct(stringify!($settings));
                text.field("template", &self.template).finish_non_exhaustive()
            }
        }

        impl<M> std::fmt::Debug for $all<M> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut text = f.debug_struct(stringify!($all));
                text.field("template", &self.inner.template).finish_non_exhaustive()
            }
        }

        impl<M> std::fmt::Debug for $one<M> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut text = f.debug_struct(stringify!($one));
                text.field("keys", &self.keys).finish_non_exhaustive()
            }
        }
    };
}
pub(super) use handles;

/// A key beside `key`, in its slot.
pub(super) fn beside(key: &[u8], suffix: &str) -> Vec<u8> {
    [key, suffix.as_bytes()].concat()
}

/// The key beside `key` under which the outcome of one member's reference is remembered: two members
/// may well use the same one, such as the match that both have won points in.
pub(super) fn remembered(key: &[u8], kind: &str, member: &[u8], reference: &str) -> Vec<u8> {
    let mut name = KeyBuffer::starting_with(&beside(key, kind));
    name.push_part(member);
    name.push_separator();
    name.push_part(reference.as_bytes());
    name.as_bytes().to_vec()
}

/// Refuses a reference that names nothing or too much.
pub(super) fn check_reference(reference: &str) -> Result<()> {
    if reference.is_empty() || reference.len() > MAX_REFERENCE_BYTES {
        return Err(Error::Invalid(format!("a reference has 1 to {MAX_REFERENCE_BYTES} bytes")));
    }
    Ok(())
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
