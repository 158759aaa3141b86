//! A worker in a process of its own, which kills itself in the middle of its work.

use std::{path::PathBuf, sync::Arc, time::Duration};

use rustix::process::{Signal, getpid, kill_process};
use seawall::{
    Seawall,
    stream::{Delivery, Outcome},
};

use crate::{
    ledger::{Key, Ledger},
    process::{Worker as Process, task},
};

const VARIABLE: &str = "SEAWALL_STREAM_WORKER";
/// After how long the pending of the dead is taken over.
pub(crate) const IDLE: Duration = Duration::from_millis(500);

/// Where a worker kills itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// Before its transaction.
    BeforeCommit,
    /// After it, and before the acknowledgement.
    AfterCommit,
    /// Nowhere.
    Never,
}

/// What all workers of a trial are told.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) url: String,
    pub(crate) prefix: String,
    pub(crate) ledger: PathBuf,
    pub(crate) key: Key,
    pub(crate) streams: u64,
}

impl Task {
    /// Starts a worker that dies at its entry of this number.
    pub(crate) fn start(&self, name: &str, death: Death, at: u64) -> Process {
        let words = [
            self.url.clone(),
            self.prefix.clone(),
            self.ledger.display().to_string(),
            format!("{:?}", self.key),
            self.streams.to_string(),
            name.to_owned(),
            format!("{death:?}"),
            at.to_string(),
        ];
        Process::start("worker::work", VARIABLE, &words)
    }
}

/// The worker's own side; as a test without the variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work() {
    let Some(words) = task(VARIABLE) else { return };
    let [url, prefix, ledger, key, streams, name, death, at] =
        words.split(' ').collect::<Vec<_>>().try_into().expect("eight words");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let key = if key == format!("{:?}", Key::Unique) { Key::Unique } else { Key::Ignored };
    let ledger = Arc::new(Ledger::open(ledger.as_ref(), key));
    let deaths = [Death::BeforeCommit, Death::AfterCommit, Death::Never];
    let death = deaths.into_iter().find(|known| format!("{known:?}") == death).expect("a death");
    let seawall = Seawall::builder(url).prefix(prefix).connect().await.expect("in");
    let streams: Vec<_> = (0..number(streams))
        .map(|number| seawall.stream::<u64>(format!("kills-{number}")).expect("a name"))
        .collect();
    let builder = seawall
        .stream_worker("ledger", streams)
        .consumer(name)
        .batch_size(8)
        .concurrency(4)
        .claim_idle(IDLE)
        // Here it is the process that fails, not the entry.
        .max_attempts(10_000);
    let (at, seen) = (number(at), Arc::new(std::sync::atomic::AtomicU64::new(0)));
    let worker = builder.spawn(move |delivery: Delivery<u64>| {
        let (ledger, seen) = (Arc::clone(&ledger), Arc::clone(&seen));
        async move {
            let last = seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 >= at;
            let die = |here: Death| {
                if last && death == here {
                    kill_process(getpid(), Signal::KILL).expect("ourselves");
                }
            };
            die(Death::BeforeCommit);
            ledger.apply(&delivery.reference(), *delivery.payload());
            die(Death::AfterCommit);
            Outcome::Done
        }
    });
    let _worker = worker.expect("valid");
    // The parent ends it.
    std::future::pending::<()>().await;
}
