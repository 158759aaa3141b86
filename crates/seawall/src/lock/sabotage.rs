//! Protections of locks that can be switched off (feature `sabotage`), to prove that the history
//! checker notices. Never in a product.

use std::{sync::Arc, time::Duration};

use super::{
    claim::{Answer, Plan, millis},
    token::Token,
};
use crate::link::{Call, Script};

static RELEASE: Script = Script::new(include_str!("sabotage_release.lua"));
static RENEW: Script = Script::new(include_str!("sabotage_renew.lua"));

/// A protection that is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// A mutex is deleted by its release, whoever holds it.
    ReleaseWithoutOwnerCheck,
    /// A renewal makes the key again, whoever holds it, and the holder believes it.
    RenewalRecreatesKey,
    /// The holder does not look at its own clock: only the server tells it that it lost.
    ValidityIgnored,
    /// Every holder gets the same token.
    TokenStandsStill,
}

/// Falsifies the token, if that is the planted fault.
pub(super) fn spoil(plan: &Plan, answer: Answer) -> Answer {
    match answer {
        Answer::Held(_) if plan.sabotage == Some(Sabotage::TokenStandsStill) => {
            Answer::Held(Token { epoch: 1, sequence: 1 })
        }
        answer => answer,
    }
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
