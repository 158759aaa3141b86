//! Settles what handlers have completed.
//!
//! A settler keeps each completion until Redis has accepted it. Completions that arrive while Redis is
//! asked go together in the next call, so batches grow with the load. All commands that settle are
//! safe to repeat. While Redis does not answer they are repeated after growing pauses; when the worker
//! ends, a few times more.

use seawall_client::error::Result;
use seawall_resilience::clock::{Clock, Moment};
use tokio::sync::{mpsc, watch};

use super::Outage;

/// Most reports that are taken before Redis is asked.
const MOST: usize = 1_024;
/// Attempts to send what is left when the worker ends.
const LAST_ATTEMPTS: usize = 3;

/// Completions of one part of a worker, and how they are sent to Redis.
pub(crate) trait Settle {
    /// What the settler is told: a completion, for example.
    type Report: Send;

    /// Decides what a report means, and keeps what has to be sent.
    fn take(&mut self, report: Self::Report);

    /// Returns `true` if something waits to be sent.
    fn has_open(&self) -> bool;

    /// Returns the time of the next retry that this settler begins.
    fn retry_at(&self) -> Option<Moment> {
        None
    }

    /// Sends what is open, and begins the retries that are due.
    ///
    /// # Errors
    /// What Redis did not accept stays open.
    fn send(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// Takes reports and sends what follows from them, until `finish` becomes `true`.
///
/// Pauses are timed by `clock` while the worker runs, and by `network_clock` at its end.
pub(crate) async fn settle<S: Settle>(
    mut settler: S,
    mut inbox: mpsc::UnboundedReceiver<S::Report>,
    mut finish: watch::Receiver<bool>,
    clock: Clock,
    network_clock: Clock,
) {
    let mut outage = Outage::new(&clock);
    let mut reports = Vec::new();
    let mut is_closed = false;
    loop {
        let wake_at = match settler.has_open() {
            true => Some(outage.not_before()),
            false => settler.retry_at().map(|at| at.max(outage.not_before())),
        };
        let mut is_finishing = false;
        tokio::select! {
            biased;
            count = inbox.recv_many(&mut reports, MOST), if !is_closed => is_closed = count == 0,
            _ = finish.wait_for(|finish| *finish) => is_finishing = true,
            () = clock.sleep_until_some(wake_at) => {}
        }
        reports.drain(..).for_each(|report| settler.take(report));
        if is_finishing {
            break;
        }
        let now = clock.now();
        let is_due = settler.has_open() || settler.retry_at().is_some_and(|at| at <= now);
        if is_due && now >= outage.not_before() {
            let sent = settler.send().await;
            outage.note(&sent);
        }
    }
    while let Ok(report) = inbox.try_recv() {
        settler.take(report);
    }
    for attempt in 1..=LAST_ATTEMPTS {
        if !settler.has_open() || settler.send().await.is_ok() {
            break;
        }
        let pause = outage.failed();
        if attempt < LAST_ATTEMPTS {
            network_clock.sleep(pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex},
        time::Duration,
    };

    use seawall_client::error::Error;

    use super::*;

    /// A settler over a Redis that refuses the first calls, and the calls that it made.
    struct Refused {
        open: Vec<u32>,
        refusals: usize,
        calls: Arc<Mutex<Vec<Vec<u32>>>>,
    }

    impl Settle for Refused {
        type Report = u32;

        fn take(&mut self, report: u32) {
            self.open.push(report);
        }

        fn has_open(&self) -> bool {
            !self.open.is_empty()
        }

        async fn send(&mut self) -> Result<()> {
            self.calls.lock().expect("whole").push(self.open.clone());
            if self.refusals > 0 {
                self.refusals -= 1;
                return Err(Error::Closed);
            }
            self.open.clear();
            Ok(())
        }
    }

    /// Lets all tasks run that can.
    async fn others_run() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    struct Trial {
        calls: Arc<Mutex<Vec<Vec<u32>>>>,
        report: mpsc::UnboundedSender<u32>,
        finish: watch::Sender<bool>,
        time: seawall_resilience::clock::ManualTime,
        task: tokio::task::JoinHandle<()>,
    }

    impl Trial {
        fn begin(refusals: usize) -> Self {
            let (clock, time) = Clock::manual();
            let (report, inbox) = mpsc::unbounded_channel();
            let finish = watch::Sender::new(false);
            let calls = Arc::default();
            let settler = Refused { open: Vec::new(), refusals, calls: Arc::clone(&calls) };
            let task =
                tokio::spawn(settle(settler, inbox, finish.subscribe(), clock.clone(), clock));
            Trial { calls, report, finish, time, task }
        }

        fn calls(&self) -> Vec<Vec<u32>> {
            self.calls.lock().expect("whole").clone()
        }
    }

    #[tokio::test]
    async fn what_is_refused_is_sent_again_with_what_came_meanwhile() {
        let trial = Trial::begin(2);
        trial.report.send(1).expect("it listens");
        others_run().await;
        assert_eq!(trial.calls(), [[1]]);
        trial.report.send(2).expect("it listens");
        others_run().await;
        assert_eq!(trial.calls().len(), 1, "it pauses");
        trial.time.advance(Duration::from_millis(20));
        others_run().await;
        trial.time.advance(Duration::from_millis(20));
        others_run().await;
        assert_eq!(trial.calls(), [vec![1], vec![1, 2]], "the second pause is longer");
        trial.time.advance(Duration::from_millis(20));
        others_run().await;
        assert_eq!(trial.calls(), [vec![1], vec![1, 2], vec![1, 2]]);
    }

    #[tokio::test]
    async fn at_the_end_it_tries_a_few_times_more() {
        let Trial { calls, report, finish, time, task } = Trial::begin(100);
        report.send(1).expect("it listens");
        others_run().await;
        report.send(2).expect("it listens");
        // A channel without senders does not keep it busy.
        drop(report);
        others_run().await;
        finish.send_replace(true);
        while !task.is_finished() {
            others_run().await;
            time.advance(Duration::from_millis(20));
        }
        let calls = calls.lock().expect("whole").clone();
        assert_eq!(calls, [vec![1], vec![1, 2], vec![1, 2], vec![1, 2]]);
    }
}
