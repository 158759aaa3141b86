//! Settings of a worker, checked when it starts.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use seawall_client::{
    Handle,
    error::{Error, Result},
};

use super::{delivery::Delivery, handler::Handler, producer::Stream, worker::Worker};
use crate::worker::Outcome;

/// Largest accepted batch and concurrency: each entry in flight costs memory here and a line in the
/// group's pending list.
const MOST: usize = 100_000;

/// Upper bound for `claim_idle`; a longer time would not be a valid number for Redis.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Where a new group begins to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Start {
    /// At the stream's first entry.
    #[default]
    Beginning,
    /// With entries that are appended from now on.
    Now,
}

/// How much of a stream is kept besides the entries that some group has not settled yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Retention {
    /// Nothing: settled entries are dropped.
    #[default]
    Unsettled,
    /// This number of the newest entries.
    Newest(u64),
    /// Entries that were appended within this time.
    For(Duration),
    /// Everything: the stream is never trimmed.
    All,
}

/// Settings that all parts of a worker share.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) group: String,
    pub(super) consumer: String,
    /// Whether the consumer's name was generated for this run.
    pub(super) passing: bool,
    pub(super) start: Start,
    pub(super) batch: usize,
    pub(super) concurrency: usize,
    pub(super) claim_idle: Duration,
    pub(super) deliveries: u64,
    pub(super) retry_delay: Duration,
    pub(super) retention: Retention,
    /// `None` keeps all.
    pub(super) max_dead_letters: Option<u64>,
    pub(super) drain_timeout: Duration,
}

impl<T> WorkerBuilder<T> {
    /// Returns a builder for a worker of a consumer group on one or several streams.
    ///
    /// On a Cluster, streams with different names are on different nodes; the worker reads all of
    /// them at once.
    #[must_use]
    pub fn new(
        handle: &Handle,
        group: impl Into<String>,
        streams: impl IntoIterator<Item = Stream<T>>,
    ) -> WorkerBuilder<T> {
        let settings = Settings {
            group: group.into(),
            consumer: format!("{}-{:08x}", std::process::id(), handle.randomness().u64() as u32),
            passing: true,
            start: Start::default(),
            batch: 64,
            concurrency: 16,
            claim_idle: Duration::from_secs(30),
            deliveries: 5,
            retry_delay: Duration::from_secs(1),
            retention: Retention::default(),
            max_dead_letters: None,
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
    /// Sets the worker's consumer name in its group. Default: a generated name.
    ///
    /// No two running workers may share a name. A worker that restarts under the same name
    /// continues at once with the entries that its last run left pending. With a generated name,
    /// the entries of a crashed run are taken over after [`WorkerBuilder::claim_idle`].
    #[must_use]
    pub fn consumer(mut self, name: impl Into<String>) -> Self {
        self.settings.consumer = name.into();
        self.settings.passing = false;
        self
    }

    /// Sets where the group begins if it does not exist. Default: at the stream's first entry.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.settings.start = start;
        self
    }

    /// Sets the number of entries per read, over all streams that share a connection. Default: 64.
    #[must_use]
    pub fn batch_size(mut self, entries: usize) -> Self {
        self.settings.batch = entries;
        self
    }

    /// Sets the number of handlers that run at once. Default: 16.
    ///
    /// With 1, entries are begun in their order, except that retries come later.
    #[must_use]
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.settings.concurrency = handlers;
        self
    }

    /// Sets the idle time after which an entry is taken over from its worker. Default: 30 seconds.
    ///
    /// A handler may take longer: its worker renews the entries it has in flight.
    #[must_use]
    pub fn claim_idle(mut self, idle: Duration) -> Self {
        self.settings.claim_idle = idle.min(NEVER);
        self
    }

    /// Sets the number of attempts after which an entry becomes a dead letter. Default: 5.
    ///
    /// An attempt counts if it failed, or if its process died while no other handler ran. A
    /// delivery whose reply was lost is not an attempt. A process that dies with several entries in
    /// flight counts for none of them: each of them is then begun alone.
    #[must_use]
    pub fn max_attempts(mut self, deliveries: u64) -> Self {
        self.settings.deliveries = deliveries;
        self
    }

    /// Sets the delay after an entry's first failure ([`Outcome::Failed`] or a panic). Default: 1
    /// second.
    ///
    /// The delay doubles with each further failure, up to one minute.
    #[must_use]
    pub fn retry_delay(mut self, pause: Duration) -> Self {
        self.settings.retry_delay = pause;
        self
    }

    /// Sets how much of the streams is kept. Default: only entries that are not settled.
    #[must_use]
    pub fn retention(mut self, keep: Retention) -> Self {
        self.settings.retention = keep;
        self
    }

    /// Sets the number of dead letters that are kept per stream. Default: all.
    ///
    /// Beyond this number the oldest dead letters are *dropped*. With 0 none is kept: an entry that
    /// fails too often is lost.
    #[must_use]
    pub fn max_dead_letters(mut self, entries: u64) -> Self {
        self.settings.max_dead_letters = Some(entries);
        self
    }

    /// Sets how long [`Worker::shutdown`] waits for entries in flight. Default: 10 seconds.
    ///
    /// Entries that are not finished by then stay pending.
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
    /// Starts the worker, which calls `handler` for each entry.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that is out of range. An unavailable Redis is not an
    /// error: the worker waits for it.
    pub fn spawn<F, R>(self, handler: F) -> Result<Worker>
    where
        F: Fn(Delivery<T>) -> R + Send + Sync + 'static,
        R: Future<Output: Into<Outcome>> + Send + 'static,
    {
        let each = move |delivery| handler(delivery).map(Into::into).boxed();
        self.start_with(&Handler::Each(Arc::new(each)))
    }

    /// Starts the worker, which calls `handler` with up to a batch of entries, for one transaction
    /// over all of them.
    ///
    /// The outcome applies to each of the entries. The failure of several entries counts for none
    /// of them: each is then tried by itself, so that one bad entry does not hold up the others.
    ///
    /// # Errors
    /// As [`WorkerBuilder::spawn`].
    pub fn spawn_batches<F, R>(self, handler: F) -> Result<Worker>
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
