//! Locks that know when they are lost.
//!
//! | | |
//! | --- | --- |
//! | [`Seawall::lock`] | a mutex; re-entrant by [`Guard::reenter`] or an [`OwnerId`] |
//! | [`Seawall::fair_lock`] | first come, first served over all processes |
//! | [`Seawall::rw_lock`] | many readers or one writer; a waiting writer keeps new readers out |
//! | [`Seawall::semaphore`] | as many holders as there are permits; a crash gives them back |
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
mod line;
mod mutex;
mod owner;
mod replicas;
mod rw;
#[cfg(feature = "sabotage")]
pub mod sabotage;
mod token;

pub use acquire::Attempt;
use claim::Kind;
pub use guard::{Extension, Guard, Release};
pub(crate) use keeper::Keeper;
pub use mutex::{Lock, With};
pub use owner::OwnerId;
pub use rw::RwLock;
pub use token::Token;

use crate::{KeyPart, Seawall};

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

    /// How many holds of this handle are being renewed.
    #[must_use]
    pub fn renewed_locks(&self) -> usize {
        self.keeper().renewed_count()
    }
}
