//! Distributed locks that detect their own loss.
//!
//! | | |
//! | --- | --- |
//! | [`Lock::new`] | a mutex; re-entrant by [`Guard::reenter`] or an [`OwnerId`] |
//! | [`Lock::fair`] | a mutex granted first come, first served across all processes |
//! | [`RwLock`] | many readers or one writer; a waiting writer keeps new readers out |
//! | [`Lock::semaphore`] | as many holders as there are permits; a crash gives them back |
//! | [`MultiLock`] | several mutexes at once, without a deadlock |
//! | [`QuorumLock`] | a mutex over several independent primaries, decided by a majority |
//! | [`Latch`] | opens when enough participants have arrived |
//! | [`optimistic`] | no lock: `WATCH`, and a retry if another client was faster |
//!
//! All of them hold by a lease that is renewed in the background, are woken by messages while they
//! wait, carry a fencing [`Token`], and report a loss to their holder before the lease ends.
//! `docs/locks.md` states for each mode what is guaranteed and what is not.
//!
//! How the parts fit together: a [`Lock`] has options (`request`); `acquire` turns them into one
//! request and waits in `line`; `hold` tracks until when the lock is certainly held;
//! `lease_renewer` renews leases and cleans up; the user holds a [`Guard`].

mod acquire;
mod guard;
mod hold;
mod latch;
mod lease_renewer;
mod line;
mod metrics;
mod multi;
mod mutex;
mod optimistic;
mod owner;
mod quorum;
mod replicas;
mod request;
mod rw;
mod token;
mod with;

pub use acquire::AcquireOutcome;
pub use guard::{Extension, Guard, Release};
pub use latch::{Latch, LatchState, Participant, Waited};
use lease_renewer::LeaseRenewer;
pub use metrics::METRICS;
pub use multi::{MultiAcquireOutcome, MultiGuard, MultiLock};
pub use mutex::Lock;
pub use optimistic::{Optimistic, Transaction, optimistic};
pub use owner::OwnerId;
pub use quorum::{QuorumAcquireOutcome, QuorumGuard, QuorumLock};
pub use rw::RwLock;
use seawall_client::Handle;
pub use token::Token;
pub use with::{With, WithError};

/// Returns the number of holds of this handle that are being renewed.
#[must_use]
pub fn renewed_locks(handle: &Handle) -> usize {
    LeaseRenewer::of(handle).renewed_count()
}
