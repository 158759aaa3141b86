//! Publish and subscribe: the subscribers of each channel and pattern.
//!
//! The tables here find the receivers of a message; each session also knows its own subscriptions,
//! so that closing one is cheap. Shard channels have a separate name space.

use std::collections::{BTreeMap, HashMap};

/// A name space of channels with their listeners in order of subscription.
pub(crate) type Channels = HashMap<Vec<u8>, Vec<usize>>;

/// All subscriptions.
#[derive(Debug, Default)]
pub(crate) struct PubSub {
    pub(crate) channels: Channels,
    pub(crate) shard: Channels,
    /// Patterns are few and matched one by one.
    pub(crate) patterns: BTreeMap<Vec<u8>, Vec<usize>>,
}

/// Removes a listener from a channel.
pub(crate) fn leave(channels: &mut Channels, channel: &[u8], session: usize) {
    if let Some(listeners) = channels.get_mut(channel) {
        listeners.retain(|s| *s != session);
        if listeners.is_empty() {
            channels.remove(channel);
        }
    }
}

impl PubSub {
    pub(crate) fn leave_pattern(&mut self, pattern: &[u8], session: usize) {
        if let Some(listeners) = self.patterns.get_mut(pattern) {
            listeners.retain(|s| *s != session);
            if listeners.is_empty() {
                self.patterns.remove(pattern);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty()
    }
}
