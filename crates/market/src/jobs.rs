//! What runs in the background: started together, ended together, done once in a fleet.
//!
//! A job is either a task of every process, which ends when it is told to, or something to be done
//! every so often by one process of the fleet: the leader, which holds the toolkit's lock for as long
//! as it can. One lock for all jobs, because a lock for each round costs more than most rounds do:
//! an idle market asked Redis 20 times a second for nothing else.
//!
//! Rounds that look whether Redis still has everything are far apart, because each job makes one as
//! soon as Redis is back after a break, which is heard of ([`Breaks`]).
//!
//! Invariant: every round does no harm when another process makes the same one at the same time. A
//! leader that lost its lock finishes the round in hand.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt as _;
use seawall::{
    Seawall,
    lock::{AcquireOutcome, Guard},
};
use tokio::{sync::watch, task::JoinHandle};

use crate::{breaks::Breaks, error::Result, keys};

/// How long jobs may take to end, all together.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How long the fleet goes without a leader when the last one was killed.
const LEASE: Duration = Duration::from_secs(6);
/// How long a process waits for its turn to lead before it asks anew.
const CANDIDACY: Duration = Duration::from_secs(60);
/// How often a process that does not lead looks whether it can, besides being told and when the lease
/// that it saw is over: so no fleet is without a leader for longer than a lease.
const POLL_INTERVAL: Duration = LEASE;
/// The pause after Redis did not answer.
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

/// Counts the times that this process began to lead.
///
/// Redis may have forgotten anything between two terms: the lock is lost when its data is.
#[derive(Debug, Clone)]
pub(crate) struct Term(watch::Receiver<Option<u64>>);

impl Term {
    /// The number of this term; 0 while this process does not lead.
    pub(crate) fn number(&self) -> u64 {
        self.0.borrow().unwrap_or_default()
    }

    /// Waits until this process leads; false when it never will again.
    async fn began(&mut self) -> bool {
        self.0.wait_for(Option::is_some).await.is_ok()
    }
}

/// Tells a task that it should end.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Waits until the task should end.
    pub(crate) async fn asked(&mut self) {
        // The sender is gone only when everything ends.
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// Whether it should end: it was asked to, or everything else has ended.
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

    /// A task of every process; it ends soon after it is asked to.
    pub(crate) fn spawn<F>(&mut self, name: &'static str, work: impl FnOnce(Stop) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = tokio::spawn(work(Stop(self.stop.subscribe())));
        self.tasks.push((name, task));
    }

    /// Something to be done every so often, and when Redis is back after a break, by the process that
    /// leads. A round that fails or panics is only noted: the next one does the same again.
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
                // A round in hand is finished: a query that is cut off leaves its connection unusable.
                match AssertUnwindSafe(async { work().await }).catch_unwind().await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::warn!(job = name, %error, "a round of a job failed"),
                    // The next round finds the same work; a job that ended would be missed by nobody.
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

    /// When Redis was lost, and was back.
    pub(crate) fn breaks(&self) -> Breaks {
        self.breaks.clone()
    }

    /// When this process leads.
    pub(crate) fn term(&self) -> Term {
        self.term.clone()
    }

    /// Ends all of them: they finish what they have in hand.
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
                tracing::debug!(%error, "nobody knows who leads");
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
    // What cannot be given back ends by itself.
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
