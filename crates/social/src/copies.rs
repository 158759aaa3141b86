//! What all copies of database rows share: the caller's functions, the settings, and the keys of a
//! subject. Under `follow`, `places`, `timeline` and `order_index`.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use seawall_client::{
    Handle, KeyPart,
    client::Client,
    error::{Error, Result},
    lifetime,
    member::Member,
};

use super::{
    rebuild::{Kind, Rebuilt},
    template::Template,
};

/// Default time for which a copy is used.
const TTL: Duration = Duration::from_secs(24 * 3600);

/// An async function of the caller, such as the one that reads the database. Its errors become
/// [`Error::Source`].
pub(super) struct UserFn<A, T>(Arc<dyn Fn(A) -> BoxFuture<'static, Result<T>> + Send + Sync>);

impl<A, T> UserFn<A, T> {
    pub(super) fn new<Fut, E>(function: impl Fn(A) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        E: fmt::Display,
    {
        UserFn(Arc::new(move |with| function(with).map(|done| done.map_err(source_error)).boxed()))
    }

    pub(super) fn call(&self, with: A) -> BoxFuture<'static, Result<T>> {
        (self.0)(with)
    }
}

impl<A, T> Clone for UserFn<A, T> {
    fn clone(&self) -> Self {
        UserFn(Arc::clone(&self.0))
    }
}

/// Converts an error of the caller.
pub(super) fn source_error(error: impl fmt::Display) -> Error {
    Error::Source(error.to_string().into())
}

/// Settings of all copies of one name.
#[derive(Debug, Clone)]
pub(super) struct Copies {
    template: Template,
    kind: Kind,
    /// How long a copy is used before it is read from the source again.
    pub(super) ttl: Duration,
}

impl Copies {
    /// Creates the settings of copies under `PREFIX:{NAME:…}`.
    pub(super) fn new(
        handle: &Handle,
        prefix: &'static str,
        name: impl Into<String>,
        kind: Kind,
    ) -> Self {
        Copies { template: Template::new(handle, prefix, name), kind, ttl: TTL }
    }

    /// Refuses a TTL that is too short to be useful, or longer than Redis can have.
    pub(super) fn check(&self) -> Result<()> {
        if self.ttl < Duration::from_secs(1) {
            return Err(Error::Invalid("a ttl below a second would rebuild for ever".into()));
        }
        lifetime::millis("ttl", self.ttl).map(drop)
    }

    /// Returns the copy of a subject that is a member itself.
    pub(super) fn of(&self, subject: &impl Member) -> Result<Rebuilt> {
        self.at(&*subject.to_member()?)
    }

    /// Returns the copy of a subject.
    pub(super) fn at(&self, subject: &(impl KeyPart + ?Sized)) -> Result<Rebuilt> {
        let key = self.template.key(subject)?;
        Ok(Rebuilt::new(self.client(), self.kind, key, self.ttl))
    }

    pub(super) fn client(&self) -> &Client {
        self.template.client()
    }
}

/// Implements `Debug` for copies of any member type: their settings, the handle over all subjects,
/// and the view of one subject. Also implements `Clone` for the handle.
macro_rules! handles {
    ($settings:ident, $all:ident, $one:ident) => {
        impl<M> Clone for $all<M> {
            fn clone(&self) -> Self {
                $all { inner: Arc::clone(&self.inner) }
            }
        }

        impl<M> std::fmt::Debug for $settings<M> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut text = f.debug_struct(stringify!($settings));
                text.field("copies", &self.copies).finish_non_exhaustive()
            }
        }

        impl<M> std::fmt::Debug for $all<M> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut text = f.debug_struct(stringify!($all));
                text.field("copies", &self.inner.copies).finish_non_exhaustive()
            }
        }

        impl<M> std::fmt::Debug for $one<M> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut text = f.debug_struct(stringify!($one));
                text.field("copy", &self.copy).finish_non_exhaustive()
            }
        }
    };
}
pub(super) use handles;
