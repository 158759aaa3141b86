//! Locks that know when they are lost.
//!
//! | | |
//! | --- | --- |
//! | [`Seawall::lock`] | a mutex; re-entrant by [`Guard::reenter`] or an [`OwnerId`] |
//! | [`Seawall::fair_lock`] | first come, first served over all processes |
//! | [`Seawall::rw_lock`] | many readers or one writer; a waiting writer keeps new readers out |
//! | [`Seawall::semaphore`] | as many holders as there are permits; a crash gives them back |
//! | [`Seawall::multi_lock`] | several mutexes at once, without a deadlock |
//! | [`QuorumLock`] | a mutex over several independent primaries, a majority decides |
//! | [`Seawall::latch`] | a door that opens when enough participants have arrived |
//! | [`Seawall::optimistic`] | no lock at all: `WATCH`, and again if somebody was quicker |
//!
//! All of them hold by a lease that is renewed in the background, wait woken by messages, carry a
//! fencing [`Token`], and tell their holder of a loss before the lease ends. `docs/locks.md` says
//! for each mode what is promised and what is not.
//!
//! How the parts go together: a [`Lock`] has a plan (`claim`), `acquire` makes one claim of it and
//! waits in `line`, `hold` is the clock of what is held, `keeper` renews and cleans up, [`Guard`] is
//! what the user has.

mod acquire;
mod claim;
mod guard;
mod hold;
mod keeper;
mod latch;
mod line;
mod multi;
mod mutex;
mod optimistic;
mod owner;
mod quorum;
mod replicas;
mod rw;
mod token;

pub use acquire::Attempt;
use claim::Kind;
pub use guard::{Extension, Guard, Release};
use keeper::Keeper;
pub use latch::{Latch, LatchState, Participant, Waited};
pub use multi::{MultiAttempt, MultiGuard, MultiLock};
pub use mutex::{Lock, With};
pub use optimistic::{Optimistic, Transaction};
pub use owner::OwnerId;
pub use quorum::{QuorumAttempt, QuorumGuard, QuorumLock};
pub use rw::RwLock;
pub use token::Token;

use crate::{KeyPart, Seawall, error::Result};

impl Seawall {
    /// A mutex by its name.
    #[must_use]
    pub fn lock(&self, name: impl KeyPart) -> Lock {
        Lock::new(self, "lock", &name, Kind::Mutex)
    }

    /// A mutex that is handed over in the order in which it was asked for, over all processes.
    #[must_use]
    pub fn fair_lock(&self, name: impl KeyPart) -> Lock {
        Lock::new(self, "fair", &name, Kind::Fair)
    }

    /// A lock that many may hold for reading, or one for writing.
    #[must_use]
    pub fn rw_lock(&self, name: impl KeyPart) -> RwLock {
        RwLock::new(self, &name)
    }

    /// A semaphore with so many permits, each held by a lease of its own. All who use the name must
    /// say the same number: each is held to the number that it says itself.
    #[must_use]
    pub fn semaphore(&self, name: impl KeyPart, permits: u32) -> Lock {
        Lock::new(self, "semaphore", &name, Kind::Semaphore { permits })
    }

    /// Several mutexes that are held together or not at all.
    #[must_use]
    pub fn multi_lock<K: KeyPart>(&self, names: impl IntoIterator<Item = K>) -> MultiLock {
        let locks = names.into_iter().map(|name| self.lock(name)).collect();
        MultiLock::new(self, locks)
    }

    /// A mutex over these independent primaries; see [`QuorumLock`].
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) with fewer than three of them, or with the same handle
    /// twice. Two handles to the same server are refused by the first attempt, where `INFO` is allowed.
    pub fn quorum_lock(primaries: &[Seawall], name: impl KeyPart) -> Result<QuorumLock> {
        QuorumLock::new(primaries, &name)
    }

    /// A door that opens when `count` participants have arrived.
    #[must_use]
    pub fn latch(&self, name: impl KeyPart, count: u32) -> Latch {
        Latch::new(self, &name, count)
    }

    /// How many holds of this handle are being renewed.
    #[must_use]
    pub fn renewed_locks(&self) -> usize {
        Keeper::of(self).renewed_count()
    }
}
