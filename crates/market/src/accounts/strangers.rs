//! Negative cache of session ids that the database does not know. A browser that keeps sending an
//! old token costs one lookup, and many made-up tokens cost a few lookups at a time.
//!
//! A row exists before its token is handed out, and a deleted row does not come back: an id that
//! was absent once stays absent. So entries never become outdated and no clock is needed; the set
//! is only bounded, in two generations. The existence of a session is never cached, because a
//! log-out must take effect at once.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use seawall::session::SessionId;

/// Maximum sessions per generation.
const MOST: usize = 8_192;

/// Ids of sessions that do not exist.
#[derive(Debug, Default)]
pub(super) struct Strangers(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashSet<SessionId>,
    old: HashSet<SessionId>,
}

impl Strangers {
    pub(super) fn contains(&self, id: &SessionId) -> bool {
        let both = self.lock();
        both.young.contains(id) || both.old.contains(id)
    }

    pub(super) fn add(&self, id: SessionId) {
        let mut both = self.lock();
        if both.young.len() >= MOST {
            both.old = std::mem::take(&mut both.young);
        }
        both.young.insert(id);
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_known_and_no_more_than_that() {
        let strangers = Strangers::default();
        let id = |number: usize| SessionId::parse(&format!("{number:064x}")).expect("an id");
        for number in 0..5 * MOST {
            assert!(!strangers.contains(&id(number)));
            strangers.add(id(number));
            assert!(strangers.contains(&id(number)));
        }
        let known = (0..5 * MOST).filter(|number| strangers.contains(&id(*number))).count();
        assert!((MOST..=2 * MOST).contains(&known), "{known}");
        assert!(strangers.contains(&id(5 * MOST - MOST)));
    }
}
