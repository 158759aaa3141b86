//! What runs in the background: started together, ended together, done once in a fleet.
//!
//! A job is either a task of every process, which ends when it is told to, or something to be done
//! every so often by one process of the fleet. The latter takes the toolkit's lock of its name for
//! one round; who does not get it leaves the round to the one who did.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt as _;
use seawall::{Seawall, lock::Attempt};
use tokio::{sync::watch, task::JoinHandle};

use crate::{error::Result, keys};

/// How long jobs may take to end, all together.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// All jobs of this process.
#[derive(Debug)]
pub(crate) struct Jobs {
    seawall: Seawall,
    stop: watch::Sender<bool>,
    tasks: Vec<(&'static str, JoinHandle<()>)>,
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

    /// Whether it should end.
    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }
}

impl Jobs {
    pub(crate) fn new(seawall: &Seawall) -> Self {
        Jobs { seawall: seawall.clone(), stop: watch::Sender::new(false), tasks: Vec::new() }
    }

    /// A task of every process; it ends soon after it is asked to.
    pub(crate) fn spawn<F>(&mut self, name: &'static str, work: impl FnOnce(Stop) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = tokio::spawn(work(Stop(self.stop.subscribe())));
        self.tasks.push((name, task));
    }

    /// Something to be done every so often, by one process at a time. A round that fails or panics is
    /// only noted: the next one does the same again.
    pub(crate) fn every<F>(
        &mut self,
        name: &'static str,
        period: Duration,
        work: impl Fn() -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let seawall = self.seawall.clone();
        self.spawn(name, |mut stop| async move {
            // A round in hand is finished: a query that is cut off leaves its connection unusable.
            while !stop.is_asked() {
                let round = AssertUnwindSafe(round(&seawall, name, &work)).catch_unwind();
                match round.await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::warn!(job = name, %error, "a round of a job failed"),
                    // The next round finds the same work; a job that ended would be missed by nobody.
                    Err(_) => tracing::error!(job = name, "a round of a job panicked"),
                }
                tokio::select! {
                    biased;
                    () = stop.asked() => {}
                    () = seawall.clock().sleep(period) => {}
                }
            }
        });
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

async fn round<F>(seawall: &Seawall, name: &str, work: impl Fn() -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    match seawall.lock(keys::job_lock(name)).try_acquire().await? {
        Attempt::Acquired(guard) => {
            let done = work().await;
            // A lock that was lost has an owner who does the same round: no harm.
            let _ = guard.release().await;
            done
        }
        Attempt::Busy { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use seawall::testing::Stage;

    use super::*;

    #[tokio::test]
    async fn a_job_goes_on_after_a_round_that_panicked() {
        let stage = Stage::start().await.expect("it starts");
        let mut jobs = Jobs::new(stage.seawall());
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
            stage.advance(Duration::from_secs(1)).await;
        }
        jobs.stop().await;
    }
}
