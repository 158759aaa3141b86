//! Runs a handler alone: no other handler of the pool runs, its attempt is recorded in Redis before
//! it begins, and nothing else begins before it is settled.
//!
//! If the last attempt at an item may have begun and never ended, the item may have ended its process.
//! Run alone, the death of a process is blamed on the one item that was running, and the other items
//! only suffer a delay.
//!
//! Several items may have to run alone at the same time, for example after a process died with one
//! item of each shard in progress. They take turns. A handler that hangs must not hold up
//! everything else, so the waits for places and for the settlement have a timeout. The timeout runs
//! only for the item whose turn it is. Otherwise many items would time out together, run side by
//! side, and be blamed for each other.

use std::{sync::Arc, time::Duration};

use seawall_client::{client::Client, error::Result};
use seawall_resilience::clock::Clock;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{HandlerPool, Permit};
use crate::worker::{Outage, Outcome};

/// How long the item whose turn it is waits for running handlers, and how long others wait until it
/// is settled.
const WITHIN: Duration = Duration::from_secs(10);

/// Kept with the completion of an item that was begun alone, and dropped once that is settled: then
/// others may begin.
#[derive(Debug)]
pub(crate) struct UntilSettled {
    _told: oneshot::Sender<()>,
}

/// The turn of an item that is begun alone; dropping it passes the turn on.
#[derive(Debug)]
struct Turn {
    places: Permit,
    _turn: OwnedSemaphorePermit,
}

impl HandlerPool {
    /// Runs an item alone, and returns once it is settled, or was waited for long enough.
    ///
    /// - `record` records the attempt in Redis. It is called until Redis answers, and returns `false`
    ///   if the item belongs to another worker by now.
    /// - `begin` is called with `None` if the item is another worker's, otherwise with a guard that
    ///   it must keep until the item is settled. It returns the handler and what takes its outcome,
    ///   or `None` if there is nothing to run.
    ///
    /// Returns `None` once the pool was abandoned.
    pub(crate) async fn run_alone<R, H, T>(
        &self,
        client: &Client,
        record: impl Fn() -> R,
        begin: impl FnOnce(Option<UntilSettled>) -> Option<(H, T)>,
    ) -> Option<()>
    where
        R: Future<Output = Result<bool>>,
        H: Future<Output = Outcome> + Send + 'static,
        T: FnOnce(Outcome) + Send + 'static,
    {
        let turn = self.turn(client.clock()).await?;
        let is_ours = self.recorded(client.network_clock(), record).await?;
        self.run(client.clock(), turn, is_ours, begin).await;
        Some(())
    }

    /// Waits for the turn, then until no handler runs, and keeps others from beginning.
    ///
    /// It does not wait longer than the timeout for running handlers: then it takes one place,
    /// beside theirs. Returns `None` once the pool was abandoned.
    async fn turn(&self, clock: &Clock) -> Option<Turn> {
        let turn = Arc::clone(&self.inner.turns).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.inner.places).acquire_many_owned(self.inner.all);
        let places = match clock.timeout(WITHIN, all).await {
            Some(all) => all.ok().map(Permit)?,
            None => self.permit().await?,
        };
        Some(Turn { places, _turn: turn })
    }

    /// Records the attempt, until Redis answers.
    ///
    /// Nothing else begins meanwhile: if the reply were lost and another item then ended the process,
    /// the recorded item would be blamed. Returns `None` once the pool was abandoned.
    async fn recorded<R>(&self, network_clock: &Clock, record: impl Fn() -> R) -> Option<bool>
    where
        R: Future<Output = Result<bool>>,
    {
        let mut outage = Outage::new(network_clock);
        while !self.is_let_go() {
            match record().await {
                Ok(is_ours) => return Some(is_ours),
                Err(error) => tracing::debug!(%error, "not begun yet"),
            }
            outage.failed();
            outage.over().await;
        }
        None
    }

    /// Runs the handler, and keeps others from beginning until its item is settled.
    async fn run<H, T>(
        &self,
        clock: &Clock,
        mut turn: Turn,
        is_ours: bool,
        begin: impl FnOnce(Option<UntilSettled>) -> Option<(H, T)>,
    ) where
        H: Future<Output = Outcome> + Send + 'static,
        T: FnOnce(Outcome) + Send + 'static,
    {
        let (told, settled) = oneshot::channel();
        let until_settled = is_ours.then_some(UntilSettled { _told: told });
        let Some((handler, then)) = begin(until_settled) else { return };
        // A turn holds at least one place.
        let Some(permit) = turn.places.split() else { return };
        self.work(permit, handler, then);
        let _ = clock.timeout(WITHIN, settled).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::mpsc;

    use super::*;

    const LONE: usize = 6;

    /// Tasks that wait for their turn: each reports when it has begun, and ends when it is told.
    struct Lone {
        pool: HandlerPool,
        begun: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
        at_work: Arc<AtomicUsize>,
    }

    impl Lone {
        fn begin(clock: &Clock) -> Self {
            let (pool, at_work) = (HandlerPool::new(4), Arc::new(AtomicUsize::new(0)));
            let (say, begun) = mpsc::unbounded_channel();
            for _ in 0..LONE {
                let (pool, clock, say) = (pool.clone(), clock.clone(), say.clone());
                let at_work = Arc::clone(&at_work);
                tokio::spawn(async move {
                    let Some(turn) = pool.turn(&clock).await else { return };
                    let (end, ends) = oneshot::channel();
                    let begin = |until_settled| {
                        at_work.fetch_add(1, Ordering::SeqCst);
                        say.send(end).expect("somebody listens");
                        let handler = async move {
                            let _ = ends.await;
                            at_work.fetch_sub(1, Ordering::SeqCst);
                            Outcome::Done
                        };
                        Some((handler, move |_| drop(until_settled)))
                    };
                    pool.run(&clock, turn, true, begin).await;
                });
            }
            Lone { pool, begun, at_work }
        }

        fn at_work(&self) -> usize {
            self.at_work.load(Ordering::SeqCst)
        }
    }

    /// Lets all tasks run that can.
    async fn others_run() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn they_take_turns_however_long_the_line_is() {
        let (clock, time) = Clock::manual();
        let mut lone = Lone::begin(&clock);
        for _ in 0..LONE {
            let end = lone.begun.recv().await.expect("the next one begins");
            // Together they take longer than one wait lasts.
            time.advance(WITHIN * 6 / 10);
            others_run().await;
            assert_eq!(lone.at_work(), 1);
            assert!(lone.pool.permit_at_once().is_none(), "nothing else begins");
            end.send(()).expect("it waits");
        }
    }

    #[tokio::test]
    async fn one_that_hangs_is_waited_for_until_it_is_settled_and_for_its_place() {
        let (clock, time) = Clock::manual();
        let mut lone = Lone::begin(&clock);
        let _hangs = lone.begun.recv().await.expect("the first one begins");
        for _ in 0..2 {
            assert_eq!(lone.at_work(), 1);
            others_run().await;
            time.advance(WITHIN);
            others_run().await;
        }
        assert_eq!(lone.at_work(), 2, "the second one begins, and no other");
    }

    #[tokio::test]
    async fn whoever_waits_for_a_turn_is_let_go_with_the_others() {
        let (clock, _time) = Clock::manual();
        let mut lone = Lone::begin(&clock);
        let _hangs = lone.begun.recv().await.expect("the first one begins");
        lone.pool.abandon();
        assert!(lone.pool.turn(&clock).await.is_none());
        assert!(lone.begun.recv().await.is_none(), "the others have ended");
    }
}
