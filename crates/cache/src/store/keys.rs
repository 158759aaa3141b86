//! Every key and channel of a cache, in one place.
//!
//! | | |
//! | --- | --- |
//! | `NAME:ID` | an entry |
//! | `cache-part:NAME:ID:INDEX` | a part of a value that is too large for one command |
//! | `cache-messages:NAME` | counts the messages of the namespace |
//! | `cache-generation:NAME` | generation of the namespace, where it can be cleared |
//! | `cache-tag:NAME:TAG` | generation of a tag |
//! | channel `cache-messages:NAME` | invalidations, numbered |
//! | channel `cache-wake:ENTRY` | somebody filled the entry, or gave up |
//!
//! All of them after the prefix of the handle. None shares a script with another except on a single
//! server, so they need no common slot.

use seawall_client::{
    error::Result,
    key::{KeyBuffer, KeyPart, with_prefix},
};

/// The keys and channels of one cache.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    name: String,
    entry_prefix: Vec<u8>,
    messages: Vec<u8>,
    generation: Vec<u8>,
    tag_prefix: Vec<u8>,
    wake_prefix: Vec<u8>,
}

impl Names {
    pub(crate) fn new(prefix: &str, name: &str) -> Self {
        Names {
            name: name.to_owned(),
            entry_prefix: format!("{prefix}{name}:").into_bytes(),
            messages: format!("{prefix}cache-messages:{name}").into_bytes(),
            generation: format!("{prefix}cache-generation:{name}").into_bytes(),
            tag_prefix: format!("{prefix}cache-tag:{name}:").into_bytes(),
            wake_prefix: format!("{prefix}cache-wake:").into_bytes(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn entry_prefix(&self) -> &[u8] {
        &self.entry_prefix
    }

    pub(crate) fn entry(&self, id: &(impl KeyPart + ?Sized)) -> Result<KeyBuffer> {
        with_prefix(&self.entry_prefix, id)
    }

    /// A pattern that all entries match.
    pub(crate) fn entries_pattern(&self) -> Vec<u8> {
        let mut pattern = Vec::with_capacity(self.entry_prefix.len() + 1);
        for &byte in &self.entry_prefix {
            if matches!(byte, b'*' | b'?' | b'[' | b']' | b'^' | b'\\') {
                pattern.push(b'\\');
            }
            pattern.push(byte);
        }
        pattern.push(b'*');
        pattern
    }

    /// What the names of parts begin with.
    pub(crate) fn part_prefix(prefix: &str, name: &str) -> String {
        format!("{prefix}cache-part:{name}:")
    }

    pub(crate) fn counter(&self) -> &[u8] {
        &self.messages
    }

    pub(crate) fn channel(&self) -> &[u8] {
        &self.messages
    }

    pub(crate) fn generation(&self) -> &[u8] {
        &self.generation
    }

    pub(crate) fn tag(&self, tag: &str) -> Vec<u8> {
        let mut key = KeyBuffer::starting_with(&self.tag_prefix);
        key.push_part(tag.as_bytes());
        key.as_bytes().to_vec()
    }

    pub(crate) fn wake_prefix(&self) -> &[u8] {
        &self.wake_prefix
    }

    pub(crate) fn wake(&self, entry: &[u8]) -> Vec<u8> {
        [&self.wake_prefix, entry].concat()
    }
}
