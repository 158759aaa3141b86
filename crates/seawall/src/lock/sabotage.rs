//! Protections of locks that can be switched off (feature `sabotage`), to prove that the history
//! checker notices. Never in a product.

use std::{sync::Arc, time::Duration};

use super::claim::millis;
use crate::link::{Call, Script};

static RELEASE: Script = Script::new(include_str!("sabotage_release.lua"));
static RENEW: Script = Script::new(include_str!("sabotage_renew.lua"));

/// A protection that is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// A mutex is deleted by its release, whoever holds it.
    ReleaseWithoutOwnerCheck,
    /// A renewal makes the key again, whoever holds it.
    RenewalRecreatesKey,
    /// The holder does not look at its own clock: only the server tells it that it lost.
    ValidityIgnored,
}

impl Sabotage {
    pub(super) fn release(self, key: &Arc<[u8]>) -> Option<Call> {
        (self == Sabotage::ReleaseWithoutOwnerCheck).then(|| RELEASE.on(&[key]))
    }

    pub(super) fn renew(
        self,
        key: &Arc<[u8]>,
        owner: &str,
        hold: &str,
        lease: Duration,
    ) -> Option<Call> {
        (self == Sabotage::RenewalRecreatesKey)
            .then(|| RENEW.on(&[key]).arg(format!("{owner}:{hold}")).arg(millis(lease)))
    }
}
