//! Background jobs: started together, stopped together, periodic ones run once per fleet.
//!
//! A job is either a task of every process, which ends when told to, or a periodic round that one
//! process of the fleet runs: the leader, which holds a lock of the toolkit for as long as it can.
//! There is one lock for all jobs, because a lock per round costs more than most rounds do: an idle
//! market sent Redis 20 commands a second for locks alone.
//!
//! Rounds that check whether Redis still has its data are rare, because each job also runs one as
//! soon as Redis is back after a break, which is reported ([`Breaks`]).
//!
//! Invariant: every round is safe if another process runs the same one concurrently. A leader that
//! lost its lock finishes its current round.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt as _;
use seawall::{
    Seawall,
    lock::{AcquireOutcome, Guard},
};
use tokio::{sync::watch, task::JoinHandle};

use crate::{breaks::Breaks, error::Result, keys};

/// Time limit for all jobs together to stop.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Maximum time without a leader after the last one was killed.
const LEASE: Duration = Duration::from_secs(6);
/// Time that a process waits to become leader before it asks again.
const CANDIDACY: Duration = Duration::from_secs(60);
/// Interval at which other processes check whether they can lead, besides being notified and the
/// end of the lease they saw. So no fleet is without a leader for longer than a lease.
const POLL_INTERVAL: Duration = LEASE;
/// Pause after Redis did not answer.
const PAUSE: Duration = Duration::from_millis(500);

/// All jobs of this process.
#[derive(Debug)]
pub(crate) struct Jobs {
    seawall: Seawall,
    stop: watch::Sender<bool>,
    term: Term,
    breaks: Breaks,
    tasks: Vec<(&'static str, JoinHandle<()>)>,
}

/// Counts how often this process became the leader.
///
/// Redis may have lost any data between two terms: the lock is lost with its data.
#[derive(Debug, Clone)]
pub(crate) struct Term(watch::Receiver<Option<u64>>);

impl Term {
    /// Returns the number of this term; 0 while this process does not lead.
    pub(crate) fn number(&self) -> u64 {
        self.0.borrow().unwrap_or_default()
    }

    /// Waits until this process leads. Returns `false` if it never will again.
    async fn began(&mut self) -> bool {
        self.0.wait_for(Option::is_some).await.is_ok()
    }
}

/// Tells a task to stop.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Waits until the task should stop.
    pub(crate) async fn asked(&mut self) {
        // The sender is dropped only at shutdown.
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// Returns `true` if the task should stop: it was asked to, or the jobs are gone.
    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

impl Jobs {
    pub(crate) fn new(seawall: &Seawall) -> Self {
        let (leading, term) = watch::channel(None);
        let (breaks, listening) = Breaks::listen(seawall);
        let seawall = seawall.clone();
        let mut jobs = Jobs {
            seawall: seawall.clone(),
            stop: watch::Sender::new(false),
            term: Term(term),
            breaks,
            tasks: Vec::new(),
        };
        jobs.spawn("leader", |stop| lead(seawall, leading, stop));
        jobs.spawn("breaks", |mut stop| async move {
            tokio::select! {
                () = stop.asked() => {}
                () = listening => {}
            }
        });
        jobs
    }

    /// Spawns a task of every process; it must end soon after it is asked to.
    pub(crate) fn spawn<F>(&mut self, name: &'static str, work: impl FnOnce(Stop) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = tokio::spawn(work(Stop(self.stop.subscribe())));
        self.tasks.push((name, task));
    }

    /// Runs `work` periodically, and when Redis is back after a break, in the process that leads. A
    /// round that fails or panics is only logged: the next one does the same work.
    pub(crate) fn every<F>(
        &mut self,
        name: &'static str,
        period: Duration,
        work: impl Fn() -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let (seawall, mut term) = (self.seawall.clone(), self.term.clone());
        let mut breaks = self.breaks();
        self.spawn(name, |mut stop| async move {
            loop {
                tokio::select! {
                    biased;
                    () = stop.asked() => return,
                    leads = term.began() => if !leads { return },
                }
                let returns = breaks.returns();
                // A current round is finished: a cancelled query leaves its connection unusable.
                match AssertUnwindSafe(async { work().await }).catch_unwind().await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::warn!(job = name, %error, "a round of a job failed"),
                    // The next round finds the same work. A job that ended silently would go
                    // unnoticed.
                    Err(_) => tracing::error!(job = name, "a round of a job panicked"),
                }
                tokio::select! {
                    biased;
                    () = stop.asked() => return,
                    () = seawall.clock().sleep(period) => {}
                    () = breaks.back(returns) => {}
                }
            }
        });
    }

    /// Returns the receiver of connection breaks.
    pub(crate) fn breaks(&self) -> Breaks {
        self.breaks.clone()
    }

    /// Returns the leadership term of this process.
    pub(crate) fn term(&self) -> Term {
        self.term.clone()
    }

    /// Stops all jobs; they finish their current work.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        let deadline = tokio::time::Instant::now() + STOP_LIMIT;
        for (name, task) in self.tasks {
            let abort = task.abort_handle();
            match tokio::time::timeout_at(deadline, task).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(job = name, %error, "a job did not end well"),
                Err(_) => {
                    tracing::warn!(job = name, "a job did not end in time and is cut off");
                    abort.abort();
                }
            }
        }
    }
}

/// Leads whenever no other process does, until it is asked to stop.
async fn lead(seawall: Seawall, leading: watch::Sender<Option<u64>>, mut stop: Stop) {
    let lock = seawall.lock(keys::LEADER_LOCK).lease_ttl(LEASE).poll_interval(POLL_INTERVAL);
    let mut term = 0;
    while !stop.is_asked() {
        let attempt = tokio::select! {
            biased;
            () = stop.asked() => return,
            attempt = lock.acquire(CANDIDACY) => attempt,
        };
        match attempt {
            Ok(AcquireOutcome::Acquired(guard)) => {
                term += 1;
                leading.send_replace(Some(term));
                lead_until_lost(guard, &mut stop).await;
                leading.send_replace(None);
            }
            Ok(AcquireOutcome::Busy { .. }) => {}
            Err(error) => {
                tracing::debug!(%error, "the leader is unknown");
                tokio::select! {
                    biased;
                    () = stop.asked() => return,
                    () = seawall.clock().sleep(PAUSE) => {}
                }
            }
        }
    }
}

async fn lead_until_lost(guard: Guard, stop: &mut Stop) {
    tokio::select! {
        biased;
        () = stop.asked() => {}
        () = guard.lost() => tracing::info!("another process may lead the jobs now"),
    }
    // A lock that cannot be released expires.
    let _ = guard.release().await;
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use seawall::testing::TestServer;

    use super::*;

    #[tokio::test]
    async fn a_job_goes_on_after_a_round_that_panicked() {
        let test_server = TestServer::start().await.expect("it starts");
        let mut jobs = Jobs::new(test_server.seawall());
        let rounds = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&rounds);
        jobs.every("test", Duration::from_secs(1), move || {
            let round = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                assert!(round > 0, "the first one fails");
                Ok(())
            }
        });
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while rounds.load(Ordering::SeqCst) < 3 {
            assert!(std::time::Instant::now() < deadline, "the job has ended");
            test_server.advance(Duration::from_secs(1)).await;
        }
        jobs.stop().await;
    }
}
