//! Names every key and channel of a cache.
//!
//! | | |
//! | --- | --- |
//! | `NAME:ID` | an entry |
//! | `cache-part:NAME:ID:INDEX` | a part of a value that is too large for one command |
//! | `cache-messages:NAME` | counts the messages of the namespace |
//! | `cache-generation:NAME` | generation of the namespace, where it can be cleared |
//! | `cache-tag:NAME:TAG` | generation of a tag of keys |
//! | `cache-clears:{NAME}` | counts the clears of tags that values carry |
//! | `cache-cleared:{NAME}` | the last clear of each of these tags |
//! | channel `cache-messages:NAME` | invalidations, numbered |
//! | channel `cache-wake:ENTRY` | the entry was filled, or its lease given back |
//!
//! All of them after the prefix of the handle. Those with braces share a script. None of the others
//! does except on a single server, so they need no common slot.

use std::sync::Arc;

use seawall_client::{
    error::Result,
    key::{KeyBuffer, KeyPart, with_prefix},
};

use super::entry::Tags;
use crate::{KeyRef, backplane::message::tag_hash};

/// One key, as the tiers know it.
#[derive(Clone)]
pub(crate) struct EntryKey {
    pub(crate) entry: KeyBuffer,
    pub(crate) generations: Vec<Vec<u8>>,
    pub(crate) tags: Tags,
}

impl EntryKey {
    pub(crate) fn entry(&self) -> &[u8] {
        self.entry.as_bytes()
    }
}

/// The tags of a key, as the user computes them.
pub(crate) type TagsOf<K> = Arc<dyn Fn(&K) -> Vec<String> + Send + Sync>;

/// Turns a user's key into the names of its entry: the only place where `K` becomes bytes.
pub(crate) struct KeySpace<K> {
    pub(crate) names: Names,
    pub(crate) tags: Option<TagsOf<K>>,
    pub(crate) clearable: bool,
}

impl<K> KeySpace<K> {
    pub(crate) fn entry_key(&self, key: &(impl KeyRef<K> + ?Sized)) -> Result<EntryKey> {
        let entry = self.names.entry(key)?;
        if self.tags.is_none() && !self.clearable {
            return Ok(EntryKey { entry, generations: Vec::new(), tags: None });
        }
        let tags = self.tags.as_ref().map(|tags| tags(&key.to_owned())).unwrap_or_default();
        let mut generations: Vec<Vec<u8>> = tags.iter().map(|tag| self.names.tag(tag)).collect();
        if self.clearable {
            generations.push(self.names.generation().to_vec());
        }
        let tags = tags.iter().map(|tag| tag_hash(tag)).collect();
        Ok(EntryKey { entry, generations, tags: Some(tags) })
    }
}

/// The keys and channels of one cache.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    name: String,
    entry_prefix: Vec<u8>,
    messages: Vec<u8>,
    generation: Vec<u8>,
    tag_prefix: Vec<u8>,
    clears: Vec<u8>,
    cleared_tags: Vec<u8>,
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
            clears: format!("{prefix}cache-clears:{{{name}}}").into_bytes(),
            cleared_tags: format!("{prefix}cache-cleared:{{{name}}}").into_bytes(),
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

    /// Returns a pattern that all entries match.
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

    /// Returns the prefix of the names of parts.
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

    pub(crate) fn clears(&self) -> &[u8] {
        &self.clears
    }

    pub(crate) fn cleared_tags(&self) -> &[u8] {
        &self.cleared_tags
    }

    pub(crate) fn wake_prefix(&self) -> &[u8] {
        &self.wake_prefix
    }

    pub(crate) fn wake(&self, entry: &[u8]) -> Vec<u8> {
        [&self.wake_prefix, entry].concat()
    }
}
