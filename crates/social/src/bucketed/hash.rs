//! A hash over buckets.

use std::{fmt, marker::PhantomData};

use redis::Value;
use seawall_client::Handle;
use seawall_client::error::{Error, Result};

use super::{
    Cursor, Element, Growth, Kind,
    core::{Core, Operation},
    element,
    whole::{number, pairs},
};

const GET: Operation = Operation::read("HGET");
const SET: Operation = Operation::write("HSET", 2, 1);
const SET_NEW: Operation = Operation::write("HSETNX", 2, 1);
const INCREMENT: Operation = Operation::write("HINCRBY", 2, 1);
const REMOVE: Operation = Operation::write("HDEL", 1, 1);

/// A hash whose fields are spread over buckets; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::Seawall;
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let carts = seawall.bucketed_hash::<u64, String>("carts", 4)?;
/// carts.set(&42, &"tea".to_owned()).await?;
/// carts.grow(16, |_| {}).await?; // while other clients read and write
/// assert_eq!(carts.get(&42).await?.as_deref(), Some("tea"));
/// assert_eq!(carts.len().await?, 1);
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct BucketedHash<F, V> {
    core: Core,
    shape: PhantomData<fn() -> (F, V)>,
}

impl<F: Element, V: Element> BucketedHash<F, V> {
    /// Creates a handle for a hash over buckets.
    ///
    /// `buckets` is used only when the hash is created, not if it exists already.
    ///
    /// # Errors
    /// [`Error::Invalid`](seawall_client::Error::Invalid) if the name cannot be a key, or the
    /// number of buckets is not allowed.
    pub fn new(handle: &Handle, name: &str, buckets: u64) -> Result<Self> {
        let core = Core::new(handle, Kind::Hash, name, buckets)?;
        Ok(BucketedHash { core, shape: PhantomData })
    }

    /// Returns the value of a field.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`Error::Unexpected`] if the bytes are
    /// not a `V`.
    pub async fn get(&self, field: &F) -> Result<Option<V>> {
        read(self.core.one(GET, vec![bytes(field)]).await?)
    }

    /// Returns the values of many fields, in their order.
    ///
    /// # Errors
    /// As [`BucketedHash::get`].
    pub async fn get_many(&self, fields: &[F]) -> Result<Vec<Option<V>>> {
        let all = fields.iter().map(|field| vec![bytes(field)]).collect();
        self.core.each(GET, all).await?.into_iter().map(read).collect()
    }

    /// Sets a field. Returns `true` if the field is new.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`Error::Invalid`] if the field or value
    /// is too long.
    pub async fn set(&self, field: &F, value: &V) -> Result<bool> {
        Ok(number(self.core.one(SET, vec![bytes(field), bytes(value)]).await?)? == 1)
    }

    /// Sets many fields and returns how many are new.
    ///
    /// It is not atomic as a whole: after an error some may be set.
    ///
    /// # Errors
    /// As [`BucketedHash::set`].
    pub async fn set_many(&self, items: &[(F, V)]) -> Result<u64> {
        let all = items.iter().map(|(field, value)| vec![bytes(field), bytes(value)]).collect();
        total(self.core.each(SET, all).await?)
    }

    /// Sets a field that does not exist yet. Returns `true` if it was set.
    ///
    /// # Errors
    /// As [`BucketedHash::set`].
    pub async fn set_if_new(&self, field: &F, value: &V) -> Result<bool> {
        Ok(number(self.core.one(SET_NEW, vec![bytes(field), bytes(value)]).await?)? == 1)
    }

    /// Adds to a field that is a number, and returns the sum.
    ///
    /// # Errors
    /// As [`BucketedHash::set`]. After [`Error::Indeterminate`] it is unknown whether it was added.
    pub async fn increment(&self, field: &F, by: i64) -> Result<i64> {
        number(self.core.one(INCREMENT, vec![bytes(field), by.to_string().into_bytes()]).await?)
    }

    /// Removes fields and returns how many existed.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn remove(&self, fields: &[F]) -> Result<u64> {
        total(
            self.core.each(REMOVE, fields.iter().map(|field| vec![bytes(field)]).collect()).await?,
        )
    }

    /// Returns the number of fields.
    ///
    /// While the hash grows, fields that move at the same moment may be counted twice.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn len(&self) -> Result<u64> {
        self.core.count().await
    }

    /// Returns `true` if there are no fields.
    ///
    /// # Errors
    /// As [`BucketedHash::len`].
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Returns some fields with their values, and the cursor to continue with; `None` at the end.
    ///
    /// A field that exists during the whole scan is returned at least once, as with SCAN.
    ///
    /// # Errors
    /// As [`BucketedHash::get`].
    pub async fn scan(&self, cursor: &Cursor) -> Result<(Vec<(F, V)>, Option<Cursor>)> {
        let page = self.core.page(cursor).await?;
        let mut found = Vec::new();
        if page.fields_only {
            let fields: Result<Vec<F>> = page.items.into_iter().map(element).collect();
            let fields = fields?;
            let values = self.get_many(&fields).await?;
            found.extend(fields.into_iter().zip(values).filter_map(|(f, v)| Some((f, v?))));
        } else {
            for (field, value) in pairs(page.items) {
                found.push((element(field)?, element(value)?));
            }
        }
        Ok((found, page.next))
    }

    /// Raises the number of buckets to at least this number, while clients read and write.
    ///
    /// It first finishes the work of an earlier call that died. `progress` is called for each
    /// slice.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send): call again to continue.
    pub async fn grow(&self, buckets: u64, progress: impl FnMut(Growth)) -> Result<Growth> {
        self.core.grow(buckets, progress).await
    }

    /// Takes over an existing hash, which stays where it is until [`BucketedHash::grow`] moves it.
    ///
    /// From then on all clients must use this handle: a write of another client to the key may be
    /// lost.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the key is not a hash or has a lifetime, or if the collection exists.
    pub async fn adopt(&self, key: &[u8]) -> Result<()> {
        self.core.adopt(key).await
    }

    /// Removes everything, in slices, and returns how many fields were removed.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send): call again to continue.
    pub async fn remove_all(&self) -> Result<u64> {
        self.core.remove().await
    }
}

fn bytes(element: &impl Element) -> Vec<u8> {
    element.to_bytes().into_owned()
}

fn read<V: Element>(reply: Option<Value>) -> Result<Option<V>> {
    match reply {
        None | Some(Value::Nil) => Ok(None),
        Some(Value::BulkString(bytes)) => element(bytes).map(Some),
        other => Err(Error::unexpected(format!("a value that is {other:?}"))),
    }
}

/// Returns the sum of numeric replies.
pub(super) fn total(replies: Vec<Option<Value>>) -> Result<u64> {
    replies.into_iter().try_fold(0, |sum, reply| Ok(sum + number(reply)?.unsigned_abs()))
}

impl<F, V> Clone for BucketedHash<F, V> {
    fn clone(&self) -> Self {
        BucketedHash { core: self.core.clone(), shape: PhantomData }
    }
}

impl<F, V> fmt::Debug for BucketedHash<F, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketedHash").field("name", &self.core.names.name).finish_non_exhaustive()
    }
}
