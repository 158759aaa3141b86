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

/// A hash whose fields are spread over buckets; a cheap clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::Seawall;
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let carts = seawall.bucketed_hash::<u64, String>("carts", 4)?;
/// carts.set(&42, &"tea".to_owned()).await?;
/// carts.grow(16, |_| {}).await?; // while others read and write
/// assert_eq!(carts.get(&42).await?.as_deref(), Some("tea"));
/// assert_eq!(carts.len().await?, 1);
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct BucketedHash<F, V> {
    core: Core,
    shape: PhantomData<fn() -> (F, V)>,
}

impl<F: Element, V: Element> BucketedHash<F, V> {
    /// A hash over buckets; `buckets` counts when it is made, not when it is there already.
    ///
    /// # Errors
    /// [`Error::Invalid`](seawall_client::Error::Invalid) for a name that makes no key, and for a number of
    /// buckets that is not allowed.
    pub fn new(handle: &Handle, name: &str, buckets: u64) -> Result<Self> {
        let core = Core::new(handle, Kind::Hash, name, buckets)?;
        Ok(BucketedHash { core, shape: PhantomData })
    }

    /// The value of a field.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`Error::Unexpected`] for bytes that are no `V`.
    pub async fn get(&self, field: &F) -> Result<Option<V>> {
        read(self.core.one(GET, vec![bytes(field)]).await?)
    }

    /// The values of many fields, in their order.
    ///
    /// # Errors
    /// As [`BucketedHash::get`].
    pub async fn get_many(&self, fields: &[F]) -> Result<Vec<Option<V>>> {
        let all = fields.iter().map(|field| vec![bytes(field)]).collect();
        self.core.each(GET, all).await?.into_iter().map(read).collect()
    }

    /// Sets a field. True when it is new.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`Error::Invalid`] for a field or value that is too long.
    pub async fn set(&self, field: &F, value: &V) -> Result<bool> {
        Ok(number(self.core.one(SET, vec![bytes(field), bytes(value)]).await?)? == 1)
    }

    /// Sets many fields. How many are new. Not atomic as a whole: after an error some may be set.
    ///
    /// # Errors
    /// As [`BucketedHash::set`].
    pub async fn set_many(&self, items: &[(F, V)]) -> Result<u64> {
        let all = items.iter().map(|(field, value)| vec![bytes(field), bytes(value)]).collect();
        total(self.core.each(SET, all).await?)
    }

    /// Sets a field that is not there yet. True when it was set.
    ///
    /// # Errors
    /// As [`BucketedHash::set`].
    pub async fn set_if_new(&self, field: &F, value: &V) -> Result<bool> {
        Ok(number(self.core.one(SET_NEW, vec![bytes(field), bytes(value)]).await?)? == 1)
    }

    /// Adds to a field that is a number; the sum.
    ///
    /// # Errors
    /// As [`BucketedHash::set`]. After [`Error::Indeterminate`] nobody knows whether it was added.
    pub async fn increment(&self, field: &F, by: i64) -> Result<i64> {
        number(self.core.one(INCREMENT, vec![bytes(field), by.to_string().into_bytes()]).await?)
    }

    /// Removes fields. How many were there.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn remove(&self, fields: &[F]) -> Result<u64> {
        total(
            self.core.each(REMOVE, fields.iter().map(|field| vec![bytes(field)]).collect()).await?,
        )
    }

    /// How many fields there are. While it grows, what moves in the same moment may be counted in
    /// both places.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn len(&self) -> Result<u64> {
        self.core.count().await
    }

    /// Whether there are none.
    ///
    /// # Errors
    /// As [`BucketedHash::len`].
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Some fields with their values, and where to go on; `None` at the end. A field that is there
    /// all the time comes at least once, as with SCAN.
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

    /// Raises the number of buckets to at least this, while others go on. What a call that died left
    /// undone is done first. `progress` hears of each slice.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send): call again to go on.
    pub async fn grow(&self, buckets: u64, progress: impl FnMut(Growth)) -> Result<Growth> {
        self.core.grow(buckets, progress).await
    }

    /// Takes over an existing hash, which stays where it is until [`BucketedHash::grow`] moves it.
    /// From then on everybody must use this handle: what others write to the key may be lost.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the key is no hash or has a lifetime, or when the collection exists.
    pub async fn adopt(&self, key: &[u8]) -> Result<()> {
        self.core.adopt(key).await
    }

    /// Removes everything, in slices. How many fields were removed.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send): call again to go on.
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

/// The sum of numbers.
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
