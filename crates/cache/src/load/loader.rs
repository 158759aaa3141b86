//! Calls a reader's loader: once, through the pipeline, with a time limit.
//!
//! A loader that panics has failed: the panic ends here, with its text as the error, so that the lease
//! is given back and those who wait are told. That includes the end of the loader's future: a future
//! that is cut is dropped, and what it owns may panic then.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use seawall_client::{Handle, error::Error};
use seawall_resilience::{CallError, clock::Clock};
use tracing::Instrument as _;

use crate::{
    CacheError, LoadError, Loaded,
    metrics::Metrics,
    settings::Settings,
    spans::{error_type, load_span},
    store::encoder::{LoadResult, panic_text},
};

/// A loader of one key. It is shown the value to replace, if one is known.
pub(crate) type Loader<V> =
    Box<dyn FnOnce(Option<Arc<V>>) -> BoxFuture<'static, Result<Loaded<V>, LoadError>> + Send>;

/// A loader of some keys of a batch, given by their positions in the batch. The values are in the order
/// of the positions.
pub(crate) type BatchLoader<V> =
    Arc<dyn Fn(Vec<usize>) -> BoxFuture<'static, Result<Vec<Option<V>>, LoadError>> + Send + Sync>;

/// Turns the loader of a batch into a loader of one of its keys.
pub(crate) fn one_of_many<V: Send + Sync + 'static>(
    load: &BatchLoader<V>,
    position: usize,
) -> Loader<V> {
    let load = Arc::clone(load);
    Box::new(move |_| {
        async move {
            let found = load(vec![position]).await;
            found.map(|mut found| Loaded::from(found.pop().flatten()))
        }
        .boxed()
    })
}

/// A reader's loader. It runs at most once: for all who wait, or for the reader alone.
pub(crate) struct LoaderSlot<V>(Arc<Mutex<Option<Loader<V>>>>);

impl<V> LoaderSlot<V> {
    pub(crate) fn new(loader: Loader<V>) -> Self {
        LoaderSlot(Arc::new(Mutex::new(Some(loader))))
    }

    /// Takes the loader. Returns `None` if it was taken before.
    pub(crate) fn take(&self) -> Option<Loader<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns whether the loader runs or has run.
    pub(crate) fn is_spent(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl<V> Clone for LoaderSlot<V> {
    fn clone(&self) -> Self {
        LoaderSlot(Arc::clone(&self.0))
    }
}

/// Runs the loaders of one cache.
pub(crate) struct LoaderRunner {
    pub(crate) handle: Handle,
    pub(crate) clock: Clock,
    pub(crate) settings: Arc<Settings>,
    pub(crate) metrics: Arc<Metrics>,
}

impl LoaderRunner {
    /// Calls the loader of one key.
    pub(crate) async fn call<V>(
        &self,
        loader: Loader<V>,
        stale: Option<Arc<V>>,
    ) -> Result<LoadResult<V>, CacheError> {
        let (loaded, cost) = self.call_any(move || loader(stale)).await?;
        Ok(LoadResult { loaded, cost })
    }

    /// Calls any loader through the pipeline: of one key, or of a batch. Returns how long it took.
    pub(crate) async fn call_any<T>(
        &self,
        load: impl FnOnce() -> BoxFuture<'static, Result<T, LoadError>>,
    ) -> Result<(T, Duration), CacheError> {
        let loader_timeout = self.settings.loader_timeout;
        let began = self.clock.now();
        self.metrics.loads.increment(1);
        let load = Contained(Some(load));
        let load = move || Caught::new(load);
        let work = async {
            match &self.settings.pipeline {
                Some(pipeline) => pipeline.call(began + loader_timeout, load).await,
                None => match self.clock.timeout(loader_timeout, load()).await {
                    Some(result) => result.map_err(CallError::Failed),
                    None => Err(CallError::DeadlineExceeded { ran: loader_timeout }),
                },
            }
        };
        let span = load_span(&self.metrics);
        let work = work.instrument(span.clone());
        let mut stop = self.handle.stopping();
        let result = tokio::select! {
            biased;
            result = work => result,
            // The lease is given back on the way out, so that no other process waits for its end.
            _ = stop.wait_for(|stop| *stop) => return Err(CacheError::Redis(Error::Closed)),
        };
        let cost = self.clock.now().since(began);
        self.metrics.load_seconds.record(cost);
        let loaded = result.map_err(|error| {
            self.metrics.load_failures.increment(1);
            match error {
                CallError::Shed(shed) => {
                    self.metrics.sheds.increment(1);
                    CacheError::Shed { retry_after: shed.retry_after }
                }
                CallError::DeadlineExceeded { ran } => {
                    CacheError::LoadTimeout { ran, loader_timeout }
                }
                CallError::Failed(error) => CacheError::Load(error),
            }
        });
        let loaded = loaded.inspect_err(|error| {
            span.record("error.type", error_type(error));
        })?;
        Ok((loaded, cost))
    }
}

/// A value of the caller's whose drop may panic; the panic ends here.
struct Contained<T>(Option<T>);

impl<T> Contained<T> {
    /// Drops the value. Returns the text of the panic if it panicked.
    fn end(&mut self) -> Result<(), LoadPanic> {
        let value = self.0.take();
        catch_unwind(AssertUnwindSafe(|| drop(value)))
            .map_err(|panic| LoadPanic(panic_text(&*panic)))
    }
}

impl<T> Drop for Contained<T> {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "a cancelled loader panicked while it was dropped");
        }
    }
}

/// A running load. A panic becomes its error, whether in its course, at its end or when it is cut.
struct Caught<T>(Contained<BoxFuture<'static, Result<T, LoadError>>>, Option<LoadPanic>);

impl<T> Caught<T> {
    fn new<F>(mut load: Contained<F>) -> Self
    where
        F: FnOnce() -> BoxFuture<'static, Result<T, LoadError>>,
    {
        let begun = load.0.take().map(|load| catch_unwind(AssertUnwindSafe(load)));
        match begun {
            Some(Err(panic)) => Caught(Contained(None), Some(LoadPanic(panic_text(&*panic)))),
            Some(Ok(running)) => Caught(Contained(Some(running)), None),
            None => Caught(Contained(None), None),
        }
    }
}

impl<T> Future for Caught<T> {
    type Output = Result<T, LoadError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Caught(load, failed) = &mut *self;
        let Some(running) = &mut load.0 else {
            let failed = failed.take().unwrap_or_else(|| LoadPanic("polled after its end".into()));
            return Poll::Ready(Err(Arc::new(failed)));
        };
        let done = match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(done)) => done,
            Err(panic) => Err(Arc::new(LoadPanic(panic_text(&*panic))) as LoadError),
        };
        let ended = load.end();
        Poll::Ready(done.and_then(|value| match ended {
            Ok(()) => Ok(value),
            Err(panic) => Err(Arc::new(panic) as LoadError),
        }))
    }
}

/// Runs code of the caller's; a panic becomes an error.
pub(crate) fn contained<T>(
    work: impl FnOnce() -> BoxFuture<'static, Result<T, LoadError>>,
) -> impl Future<Output = Result<T, LoadError>> {
    Caught::new(Contained(Some(work)))
}

/// A loader panicked.
#[derive(Debug, thiserror::Error)]
#[error("the loader panicked: {0}")]
struct LoadPanic(String);

/// Returns the error of a loader that says `NotModified` although there is nothing to leave as it is.
pub(crate) fn not_modified() -> CacheError {
    let text = "the loader said NotModified, but there is no earlier value to keep";
    CacheError::Load(Arc::new(std::io::Error::other(text)))
}
