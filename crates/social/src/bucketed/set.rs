//! A set over buckets.

use std::{fmt, marker::PhantomData};

use seawall_client::Handle;
use seawall_client::error::Result;

use super::{
    Cursor, Element, Growth, Kind,
    core::{Core, Operation},
    element,
    hash::total,
    whole::number,
};

const HAS: Operation = Operation::read("SISMEMBER");
const ADD: Operation = Operation::write("SADD", 1, 1);
const REMOVE: Operation = Operation::write("SREM", 1, 1);

/// A set whose members are spread over buckets; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::Seawall;
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let readers = seawall.bucketed_set::<u64>("readers", 8)?;
/// assert_eq!(readers.add(&[1, 2, 3, 2]).await?, 3);
/// assert_eq!(readers.contains_many(&[2, 9]).await?, [true, false]);
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct BucketedSet<M> {
    core: Core,
    shape: PhantomData<fn() -> M>,
}

impl<M: Element> BucketedSet<M> {
    /// Creates a handle for a set over buckets.
    ///
    /// `buckets` is used only when the set is created, not if it exists already.
    ///
    /// # Errors
    /// [`Error::Invalid`](seawall_client::Error::Invalid) if the name cannot be a key, or the
    /// number of buckets is not allowed.
    pub fn new(handle: &Handle, name: &str, buckets: u64) -> Result<Self> {
        let core = Core::new(handle, Kind::Set, name, buckets)?;
        Ok(BucketedSet { core, shape: PhantomData })
    }

    /// Adds members and returns how many are new.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send);
    /// [`Error::Invalid`](seawall_client::Error::Invalid) if a member is too long. After an error
    /// some may have been added.
    pub async fn add(&self, members: &[M]) -> Result<u64> {
        total(self.core.each(ADD, args(members)).await?)
    }

    /// Returns `true` if the set has a member.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn contains(&self, member: &M) -> Result<bool> {
        Ok(number(self.core.one(HAS, vec![member.to_bytes().into_owned()]).await?)? == 1)
    }

    /// Returns which of these members the set has, in their order.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn contains_many(&self, members: &[M]) -> Result<Vec<bool>> {
        let replies = self.core.each(HAS, args(members)).await?;
        replies.into_iter().map(|reply| Ok(number(reply)? == 1)).collect()
    }

    /// Removes members and returns how many existed.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn remove(&self, members: &[M]) -> Result<u64> {
        total(self.core.each(REMOVE, args(members)).await?)
    }

    /// Returns the number of members; see [`BucketedHash::len`](super::BucketedHash::len).
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn len(&self) -> Result<u64> {
        self.core.count().await
    }

    /// Returns `true` if there are no members.
    ///
    /// # Errors
    /// As [`BucketedSet::len`].
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Returns some members, and the cursor to continue with; `None` at the end.
    ///
    /// A member that exists during the whole scan is returned at least once, as with SCAN.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send);
    /// [`Error::Unexpected`](seawall_client::Error::Unexpected) if the bytes are not an `M`.
    pub async fn scan(&self, cursor: &Cursor) -> Result<(Vec<M>, Option<Cursor>)> {
        let page = self.core.page(cursor).await?;
        let members: Result<Vec<M>> = page.items.into_iter().map(element).collect();
        Ok((members?, page.next))
    }

    /// Raises the number of buckets, as [`BucketedHash::grow`](super::BucketedHash::grow).
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send): call again to continue.
    pub async fn grow(&self, buckets: u64, progress: impl FnMut(Growth)) -> Result<Growth> {
        self.core.grow(buckets, progress).await
    }

    /// Takes over an existing set, as [`BucketedHash::adopt`](super::BucketedHash::adopt).
    ///
    /// # Errors
    /// [`Error::Invalid`](seawall_client::Error::Invalid) if the key cannot be taken over.
    pub async fn adopt(&self, key: &[u8]) -> Result<()> {
        self.core.adopt(key).await
    }

    /// Removes everything, in slices, and returns how many members were removed.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send): call again to continue.
    pub async fn remove_all(&self) -> Result<u64> {
        self.core.remove().await
    }
}

fn args(members: &[impl Element]) -> Vec<Vec<Vec<u8>>> {
    members.iter().map(|member| vec![member.to_bytes().into_owned()]).collect()
}

impl<M> Clone for BucketedSet<M> {
    fn clone(&self) -> Self {
        BucketedSet { core: self.core.clone(), shape: PhantomData }
    }
}

impl<M> fmt::Debug for BucketedSet<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketedSet").field("name", &self.core.names.name).finish_non_exhaustive()
    }
}
