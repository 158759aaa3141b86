//! Runs two sides in turn and compares them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Length and number of rounds.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) turn: Duration,
    pub(crate) tasks: usize,
    pub(crate) time: Time,
}

/// How time is measured.
#[derive(Clone, Copy)]
pub(crate) enum Time {
    /// Wall time, for work that involves a server.
    Wall,
    /// This process' processor time, for work that happens only here.
    Processor,
}

impl Time {
    fn now(self) -> Duration {
        let clock = match self {
            Time::Wall => ClockId::Monotonic,
            Time::Processor => ClockId::ProcessCPUTime,
        };
        let now = clock_gettime(clock);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }
}

/// Result of one subject: operations per second, and the median of the rounds' ratios.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) subject: &'static str,
    pub(crate) against: &'static str,
    ours: f64,
    theirs: f64,
    /// Ours divided by theirs.
    ratio: f64,
    /// Theirs divided by theirs, measured the same way.
    control: f64,
    /// This process' processor time per operation, theirs divided by ours: above 1, ours needs less.
    /// Other load on the machine affects it less than throughput.
    cpu_ratio: f64,
    /// Nanoseconds of processor time per operation of ours.
    cpu_ns: f64,
}

/// One turn of one side.
struct Turn {
    /// Operations per second of the plan's time.
    rate: f64,
    /// Nanoseconds of processor time per operation.
    cpu_ns: f64,
}

/// One side: the whole work of a task until told to stop. Returns the number of operations.
pub(crate) type Side = Arc<dyn Fn(Arc<AtomicBool>) -> BoxFuture<'static, u64> + Send + Sync>;

impl Plan {
    /// Runs the sides in turn.
    pub(crate) async fn compare(
        &self,
        subject: &'static str,
        against: &'static str,
        ours: Side,
        theirs: Side,
    ) -> Report {
        let mut rates: [Vec<f64>; 3] = Default::default();
        let mut cpu_ns: [Vec<f64>; 3] = Default::default();
        // The first round warms up and does not count.
        for round in 0..=self.rounds {
            for (number, side) in [&ours, &theirs, &theirs].into_iter().enumerate() {
                let turn = self.turn(side).await;
                if round > 0 {
                    rates[number].push(turn.rate);
                    cpu_ns[number].push(turn.cpu_ns);
                }
            }
        }
        let ratio = |a: &[f64], b: &[f64]| median(a.iter().zip(b).map(|(a, b)| a / b).collect());
        // The mean of their two turns in a round represents them.
        let mean = |[_, a, b]: &[Vec<f64>; 3]| -> Vec<f64> {
            a.iter().zip(b).map(|(a, b)| f64::midpoint(*a, *b)).collect()
        };
        let both = mean(&rates);
        Report {
            cpu_ratio: ratio(&mean(&cpu_ns), &cpu_ns[0]),
            cpu_ns: median(cpu_ns[0].clone()),
            subject,
            against,
            ours: median(rates[0].clone()),
            theirs: median(both.clone()),
            ratio: ratio(&rates[0], &both),
            control: ratio(&rates[2], &rates[1]),
        }
    }

    /// Returns the operations per second of one side in one turn.
    pub(crate) async fn take_turn(&self, side: &Side) -> f64 {
        self.turn(side).await.rate
    }

    async fn turn(&self, side: &Side) -> Turn {
        let stop = Arc::new(AtomicBool::new(false));
        let (started, cpu) = (self.time.now(), Time::Processor.now());
        let tasks: Vec<_> =
            (0..self.tasks).map(|_| tokio::spawn(side(Arc::clone(&stop)))).collect();
        tokio::time::sleep(self.turn).await;
        stop.store(true, Ordering::Relaxed);
        let mut operations = 0;
        for task in tasks {
            operations += task.await.unwrap_or(0);
        }
        let cpu = Time::Processor.now() - cpu;
        Turn {
            rate: operations as f64 / (self.time.now() - started).as_secs_f64(),
            cpu_ns: cpu.as_nanos() as f64 / operations.max(1) as f64,
        }
    }
}

/// Returns the median.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns a side that repeats one operation, with a clone of `state` for each task.
pub(crate) fn repeat<S, F, Fut>(state: S, operation: F) -> Side
where
    S: Clone + Send + Sync + 'static,
    F: Fn(S, u64) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    Arc::new(move |stop| {
        let (state, operation) = (state.clone(), operation.clone());
        Box::pin(async move {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                operation(state.clone(), count).await;
                count += 1;
            }
            count
        })
    })
}
