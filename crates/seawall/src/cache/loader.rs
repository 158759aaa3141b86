//! A reader's loader, and calling it: once, through the governor, with a time limit.
//!
//! A loader that panics has failed: the panic ends here, with its text as the error, so that the lease
//! is given back and whoever waits is told.

use std::{
    any::Any,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use serde::{Serialize, de::DeserializeOwned};

use super::{CacheError, Inner, LoadError, Loaded};
use crate::{error::Error, guard::CallError, key::KeyPart};

/// What is called with the value that is to be replaced, where one is known.
pub(super) type Loader<V> =
    Box<dyn FnOnce(Option<Arc<V>>) -> BoxFuture<'static, Result<Loaded<V>, LoadError>> + Send>;

/// A reader's loader, which runs at most once: for everybody, or for the reader alone.
pub(super) struct LoaderSlot<V>(Arc<Mutex<Option<Loader<V>>>>);

impl<V> LoaderSlot<V> {
    pub(super) fn new(loader: Loader<V>) -> Self {
        LoaderSlot(Arc::new(Mutex::new(Some(loader))))
    }

    /// The loader, for the one who comes first.
    pub(super) fn take(&self) -> Option<Loader<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether it runs or has run.
    pub(super) fn is_spent(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl<V> Clone for LoaderSlot<V> {
    fn clone(&self) -> Self {
        LoaderSlot(Arc::clone(&self.0))
    }
}

/// What a load produced, before it is stored.
pub(super) struct Product<V> {
    pub(super) loaded: Loaded<V>,
    pub(super) cost: Duration,
}

impl<K, V> Inner<K, V>
where
    K: KeyPart + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// Calls the loader through the governor.
    pub(super) async fn call(
        &self,
        loader: Loader<V>,
        stale: Option<Arc<V>>,
    ) -> Result<Product<V>, CacheError> {
        let began = self.clock.now();
        let loaded = self.call_any(move || loader(stale)).await?;
        Ok(Product { loaded, cost: self.clock.now().since(began) })
    }

    /// The same for whatever is loaded: one value, or a whole batch.
    pub(super) async fn call_any<T>(
        &self,
        load: impl FnOnce() -> BoxFuture<'static, Result<T, LoadError>>,
    ) -> Result<T, CacheError> {
        let load_within = self.settings.load_within;
        let began = self.clock.now();
        self.metrics.loads.increment(1);
        let load = || caught(load);
        let work = async {
            match &self.settings.governor {
                Some(governor) => governor.call(began + load_within, load).await,
                None => match self.clock.timeout(load_within, load()).await {
                    Some(result) => result.map_err(CallError::Failed),
                    None => Err(CallError::DeadlineExceeded { ran: load_within }),
                },
            }
        };
        let mut stop = self.seawall.stopping();
        let result = tokio::select! {
            result = work => result,
            // The lease is given back on the way out: nobody elsewhere waits for it to end.
            _ = stop.wait_for(|stop| *stop) => return Err(CacheError::Redis(Error::Closed)),
        };
        self.metrics.load_seconds.record(self.clock.now().since(began));
        result.map_err(|error| {
            self.metrics.load_failures.increment(1);
            match error {
                CallError::Shed(shed) => {
                    self.metrics.sheds.increment(1);
                    CacheError::Shed { retry_after: shed.retry_after }
                }
                CallError::DeadlineExceeded { ran } => CacheError::LoadTimeout { ran, load_within },
                CallError::Failed(error) => CacheError::Load(error),
            }
        })
    }
}

/// Runs a loader; a panic becomes its error.
async fn caught<T>(
    load: impl FnOnce() -> BoxFuture<'static, Result<T, LoadError>>,
) -> Result<T, LoadError> {
    let done = AssertUnwindSafe(async { load().await }).catch_unwind().await;
    done.unwrap_or_else(|panic| Err(Arc::new(LoadPanic(panic_text(&*panic)))))
}

/// A loader panicked.
#[derive(Debug, thiserror::Error)]
#[error("the loader panicked: {0}")]
struct LoadPanic(String);

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no text)").to_owned()
}

/// A loader said so although there was nothing that it could leave as it is.
pub(super) fn not_modified() -> CacheError {
    let text = "the loader said NotModified, but there is nothing that it could mean";
    CacheError::Load(Arc::new(std::io::Error::other(text)))
}
