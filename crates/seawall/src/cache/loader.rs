//! A reader's loader, and calling it: once, through the governor, with a deadline.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};

use super::{CacheError, Inner, LoadError, Loaded};
use crate::{error::Error, guard::CallError, key::KeyPart};

type Loader<V> = Box<dyn FnOnce() -> BoxFuture<'static, Result<Loaded<V>, LoadError>> + Send>;

/// A reader's loader, which runs at most once: for everybody, or for the reader alone.
pub(super) struct LoaderSlot<V>(Arc<Mutex<Option<Loader<V>>>>);

impl<V> LoaderSlot<V> {
    pub(super) fn new(loader: Loader<V>) -> Self {
        LoaderSlot(Arc::new(Mutex::new(Some(loader))))
    }

    fn take(&self) -> Option<Loader<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
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
    pub(super) async fn call(&self, loader: &LoaderSlot<V>) -> Result<Product<V>, CacheError> {
        let began = self.clock.now();
        let loaded = self.call_any(loader).await?;
        Ok(Product { loaded, cost: self.clock.now().since(began) })
    }

    /// The same for whatever a loader loads: one value, or a whole batch.
    pub(super) async fn call_any<T>(
        &self,
        loader: &LoaderSlot<T>,
    ) -> Result<Loaded<T>, CacheError> {
        let Some(loader) = loader.take() else {
            // It ran already, and what it found was overtaken.
            return Err(CacheError::Busy);
        };
        let began = self.clock.now();
        let deadline = began + self.settings.load_within;
        self.metrics.loads.increment(1);
        let work = async {
            match &self.settings.governor {
                Some(governor) => governor.call(deadline, loader).await,
                None => match self.clock.timeout(self.settings.load_within, loader()).await {
                    Some(result) => result.map_err(CallError::Failed),
                    None => Err(CallError::DeadlineExceeded { ran: self.settings.load_within }),
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
                CallError::DeadlineExceeded { ran } => CacheError::Deadline(ran),
                CallError::Failed(error) => CacheError::Load(error),
            }
        })
    }
}

/// A loader said so although there was nothing that it could leave as it is.
pub(super) fn not_modified() -> CacheError {
    let text = "the loader said NotModified, but there is nothing that it could mean";
    CacheError::Load(Arc::new(std::io::Error::other(text)))
}
