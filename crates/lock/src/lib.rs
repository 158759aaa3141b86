//! Locks that know when they are lost.
//!
//! | | |
//! | --- | --- |
//! | [`Lock::new`] | a mutex; re-entrant by [`Guard::reenter`] or an [`OwnerId`] |
//! | [`Lock::fair`] | first come, first served over all processes |
//! | [`RwLock`] | many readers or one writer; a waiting writer keeps new readers out |
//! | [`Lock::semaphore`] | as many holders as there are permits; a crash gives them back |
//! | [`MultiLock`] | several mutexes at once, without a deadlock |
//! | [`QuorumLock`] | a mutex over several independent primaries, a majority decides |
//! | [`Latch`] | a door that opens when enough participants have arrived |
//! | [`optimistic`] | no lock at all: `WATCH`, and again if somebody was quicker |
//!
//! All of them hold by a lease that is renewed in the background, wait woken by messages, carry a
//! fencing [`Token`], and tell their holder of a loss before the lease ends. `docs/locks.md` says
//! for each mode what is promised and what is not.
//!
//! How the parts go together: a [`Lock`] has its options (`request`), `acquire` makes one request of it and
//! waits in `line`, `hold` is the clock of what is held, `lease_renewer` renews and cleans up, [`Guard`] is
//! what the user has.

mod acquire;
mod guard;
mod hold;
mod latch;
mod lease_renewer;
mod line;
mod multi;
mod mutex;
mod optimistic;
mod owner;
mod quorum;
mod replicas;
mod request;
mod rw;
mod token;

pub use acquire::AcquireOutcome;
pub use guard::{Extension, Guard, Release};
pub use latch::{Latch, LatchState, Participant, Waited};
use lease_renewer::LeaseRenewer;
pub use multi::{MultiAcquireOutcome, MultiGuard, MultiLock};
pub use mutex::{Lock, With};
pub use optimistic::{Optimistic, Transaction, optimistic};
pub use owner::OwnerId;
pub use quorum::{QuorumAcquireOutcome, QuorumGuard, QuorumLock};
pub use rw::RwLock;
use seawall_client::Handle;
pub use token::Token;

/// How many holds of this handle are being renewed.
#[must_use]
pub fn renewed_locks(handle: &Handle) -> usize {
    LeaseRenewer::of(handle).renewed_count()
}
