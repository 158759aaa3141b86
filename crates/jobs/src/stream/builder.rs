//! Settings of a worker, checked when it starts.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use seawall_client::{
    Handle,
    error::{Error, Result},
};

use super::{
    delivery::{Delivery, Outcome},
    producer::Stream,
    worker::Worker,
};

/// Largest batch and concurrency that are accepted: each entry in hand is memory here and a line in
/// the group's pending list.
const MOST: usize = 100_000;

/// Longer than anybody waits; more would be no number for Redis.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Where a group begins that did not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Start {
    /// At the stream's first entry.
    #[default]
    Beginning,
    /// With what is appended from now on.
    Now,
}

/// What is kept of a stream beyond what some group has not settled yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Retention {
    /// Nothing: settled entries go.
    #[default]
    Unsettled,
    /// So many of the newest entries.
    Newest(u64),
    /// What was appended within this time.
    For(Duration),
    /// Everything: the stream is never trimmed.
    All,
}

/// A handler of one entry.
pub(super) type Each<T> = Arc<dyn Fn(Delivery<T>) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// How entries are handled.
pub(super) enum Handler<T> {
    Each(Each<T>),
    Batch(Arc<dyn Fn(Vec<Delivery<T>>) -> BoxFuture<'static, Outcome> + Send + Sync>),
}

impl<T> Clone for Handler<T> {
    fn clone(&self) -> Self {
        match self {
            Handler::Each(handler) => Handler::Each(Arc::clone(handler)),
            Handler::Batch(handler) => Handler::Batch(Arc::clone(handler)),
        }
    }
}

/// What all parts of a worker know.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) group: String,
    pub(super) consumer: String,
    /// Whether the consumer's name was made up for this run.
    pub(super) passing: bool,
    pub(super) start: Start,
    pub(super) batch: usize,
    pub(super) concurrency: usize,
    pub(super) claim_idle: Duration,
    pub(super) deliveries: u64,
    pub(super) retry_delay: Duration,
    pub(super) retention: Retention,
    pub(super) max_dead_letters: u64,
    pub(super) drain_timeout: Duration,
}

impl<T> WorkerBuilder<T> {
    /// Begins a worker of a consumer group on one or several streams. On a Cluster streams of
    /// different names lie on different nodes; the worker reads all of them at once.
    #[must_use]
    pub fn new(
        handle: &Handle,
        group: impl Into<String>,
        streams: impl IntoIterator<Item = Stream<T>>,
    ) -> WorkerBuilder<T> {
        let settings = Settings {
            group: group.into(),
            consumer: format!("{}-{:08x}", std::process::id(), rand::random::<u32>()),
            passing: true,
            start: Start::default(),
            batch: 64,
            concurrency: 16,
            claim_idle: Duration::from_secs(30),
            deliveries: 5,
            retry_delay: Duration::from_secs(1),
            retention: Retention::default(),
            max_dead_letters: 0,
            drain_timeout: Duration::from_secs(10),
        };
        let streams = streams.into_iter().collect();
        WorkerBuilder { handle: handle.clone(), streams, settings }
    }
}

/// Settings of a [`Worker`].
pub struct WorkerBuilder<T> {
    handle: Handle,
    streams: Vec<Stream<T>>,
    settings: Settings,
}

impl<T> WorkerBuilder<T> {
    /// What this worker is called in its group: no two running ones may share a name, and the same
    /// name after a restart goes on at once with what the last run left pending. Without it a name is
    /// made up, and what a crashed run left is taken over after [`WorkerBuilder::claim_idle`].
    #[must_use]
    pub fn consumer(mut self, name: impl Into<String>) -> Self {
        self.settings.consumer = name.into();
        self.settings.passing = false;
        self
    }

    /// Where the group begins if it does not exist; at the stream's first entry without it.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.settings.start = start;
        self
    }

    /// How many entries are read at once (over all streams that share a connection); 64 without it.
    #[must_use]
    pub fn batch_size(mut self, entries: usize) -> Self {
        self.settings.batch = entries;
        self
    }

    /// How many handlers run at once; 16 without it. With 1, entries are begun in their order (those
    /// that are tried again come later).
    #[must_use]
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.settings.concurrency = handlers;
        self
    }

    /// After how long without a sign of life an entry is taken from its worker; 30 s without it. A
    /// handler may take longer: its worker renews what it has in hand.
    #[must_use]
    pub fn claim_idle(mut self, idle: Duration) -> Self {
        self.settings.claim_idle = idle.min(NEVER);
        self
    }

    /// After how many attempts an entry is parked. Default: 5. Attempts that failed count, and attempts
    /// whose process died while nothing else was at work. A delivery whose reply was lost is no attempt,
    /// and a process that dies with several entries in hand counts for none of them: each of them is
    /// then begun alone.
    #[must_use]
    pub fn max_attempts(mut self, deliveries: u64) -> Self {
        self.settings.deliveries = deliveries;
        self
    }

    /// The pause after the first failure of an entry ([`Outcome::Failed`], a panic); it doubles with
    /// each further one up to a minute. 1 s without it.
    #[must_use]
    pub fn retry_delay(mut self, pause: Duration) -> Self {
        self.settings.retry_delay = pause;
        self
    }

    /// What is kept of the streams; only what is not settled without it.
    #[must_use]
    pub fn retention(mut self, keep: Retention) -> Self {
        self.settings.retention = keep;
        self
    }

    /// How many parked entries are kept for each stream: beyond it the oldest are *dropped*. All of
    /// them without it.
    #[must_use]
    pub fn max_dead_letters(mut self, entries: u64) -> Self {
        self.settings.max_dead_letters = entries;
        self
    }

    /// How long [`Worker::stop`] waits for what is in hand; 10 s without it. What is not finished
    /// then stays pending.
    #[must_use]
    pub fn drain_timeout(mut self, limit: Duration) -> Self {
        self.settings.drain_timeout = limit;
        self
    }

    fn check(&self) -> Result<()> {
        let invalid = |text: &str| Err(Error::Invalid(text.to_owned()));
        let settings = &self.settings;
        if self.streams.is_empty() {
            return invalid("a worker without streams has nothing to do");
        }
        for (index, stream) in self.streams.iter().enumerate() {
            if self.streams[..index].iter().any(|other| other.key() == stream.key()) {
                return Err(Error::Invalid(format!(
                    "the stream \"{}\" is named twice",
                    stream.name()
                )));
            }
        }
        if settings.group.is_empty() || settings.consumer.is_empty() {
            return invalid("a group and a consumer need a name");
        }
        if settings.batch == 0 || settings.batch > MOST {
            return Err(Error::Invalid(format!("batch_size must be from 1 to {MOST}")));
        }
        if settings.concurrency == 0 || settings.concurrency > MOST {
            return Err(Error::Invalid(format!("concurrency must be from 1 to {MOST}")));
        }
        if settings.claim_idle < Duration::from_millis(10) {
            return invalid(
                "claim_idle below 10 ms would take entries from workers that are alive",
            );
        }
        if settings.deliveries == 0 {
            return invalid("a max_attempts of 0 would park everything unseen");
        }
        Ok(())
    }
}

impl<T: Send + 'static> WorkerBuilder<T> {
    /// Starts the worker; `handler` is called for each entry.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that makes no sense. Redis being away is no error: the
    /// worker waits for it.
    pub fn run<F, R>(self, handler: F) -> Result<Worker>
    where
        F: Fn(Delivery<T>) -> R + Send + Sync + 'static,
        R: Future<Output: Into<Outcome>> + Send + 'static,
    {
        let each = move |delivery| handler(delivery).map(Into::into).boxed();
        self.start_with(&Handler::Each(Arc::new(each)))
    }

    /// Starts the worker; `handler` is called with up to a batch of entries, for one transaction over
    /// all of them. Its outcome is that of each of them; after a failure of several, which counts for none
    /// of them, each is tried by itself, so that one bad entry does not hold up its neighbours.
    ///
    /// # Errors
    /// As [`WorkerBuilder::run`].
    pub fn run_batches<F, R>(self, handler: F) -> Result<Worker>
    where
        F: Fn(Vec<Delivery<T>>) -> R + Send + Sync + 'static,
        R: Future<Output: Into<Outcome>> + Send + 'static,
    {
        let batch = move |deliveries| handler(deliveries).map(Into::into).boxed();
        self.start_with(&Handler::Batch(Arc::new(batch)))
    }

    fn start_with(self, handler: &Handler<T>) -> Result<Worker> {
        self.check()?;
        Ok(Worker::start(&self.handle, self.streams, self.settings, handler))
    }
}

impl<T> fmt::Debug for WorkerBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("streams", &self.streams)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
