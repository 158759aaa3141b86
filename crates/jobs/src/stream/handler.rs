//! The functions that a worker calls with entries.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::delivery::Delivery;
use crate::worker::Outcome;

/// A handler of one entry.
pub(super) type Each<T> = Arc<dyn Fn(Delivery<T>) -> BoxFuture<'static, Outcome> + Send + Sync>;
/// A handler of several entries.
pub(super) type Batch<T> =
    Arc<dyn Fn(Vec<Delivery<T>>) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// How entries are handed to the handler: one by one or in batches.
pub(super) enum Handler<T> {
    Each(Each<T>),
    Batch(Batch<T>),
}

impl<T> Handler<T> {
    /// Hands over one entry.
    pub(super) fn call_with_one(&self, delivery: Delivery<T>) -> BoxFuture<'static, Outcome> {
        match self {
            Handler::Each(handler) => handler(delivery),
            Handler::Batch(handler) => handler(vec![delivery]),
        }
    }
}

impl<T> Clone for Handler<T> {
    fn clone(&self) -> Self {
        match self {
            Handler::Each(handler) => Handler::Each(Arc::clone(handler)),
            Handler::Batch(handler) => Handler::Batch(Arc::clone(handler)),
        }
    }
}
