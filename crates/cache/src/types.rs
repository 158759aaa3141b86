//! The types of questions and answers: what readers ask for, what they get, what writes return.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use seawall_client::error::Error;

/// How new a value has to be.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use seawall::{Seawall, cache::{Cache, Freshness, Source}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let prices: Cache<u64, u64> = seawall.cache("price").build()?;
/// let mine = prices.put(&1, &250).await?;
///
/// // A page may be half a minute behind; who just changed the price sees it; a payment asks Redis.
/// let page = prices.get_as(Freshness::Within(Duration::from_secs(30)), &1).await?;
/// let own = prices.get_as(Freshness::After(mine), &1).await?;
/// let payment = prices.get_as(Freshness::Strong, &1).await?;
/// for read in [page, own] {
///     assert_eq!(read.and_then(|read| read.value).as_deref(), Some(&250));
/// }
/// assert_eq!(payment.map(|read| read.source), Some(Source::Remote));
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Freshness {
    /// Any tier may answer; a value past its lifetime may too, while exactly one caller refreshes
    /// it (how long past is the cache's setting).
    #[default]
    Cached,
    /// Even a value that was invalidated but kept for this purpose.
    StaleOk,
    /// No older than this.
    Within(Duration),
    /// At least as new as the caller's own write: see [`Version`]. Redis is asked, not the local tier.
    After(Version),
    /// Nothing older than what was true when this read began: the local tier is not asked, and no
    /// value past its lifetime is given.
    Strong,
}

/// A point in the history of one key, from a write or an invalidation; larger is later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(pub u64);

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// This process' memory.
    Local,
    /// Redis.
    Remote,
    /// The loader, just now.
    Loaded,
    /// A value past its lifetime, because refreshing goes on or failed.
    Stale,
    /// The filter: this key cannot exist (see [`KeyFilter`](crate::KeyFilter)).
    Filtered,
}

/// An answer of the cache.
#[derive(Debug)]
pub struct Read<V> {
    /// The value; `None` when the source said that there is none.
    pub value: Option<Arc<V>>,
    /// Where it came from.
    pub source: Source,
    /// How long ago it was loaded, as well as that is known.
    pub age: Duration,
    /// Its version; zero when it was not stored.
    pub version: Version,
}

impl<V> Clone for Read<V> {
    fn clone(&self) -> Self {
        Read {
            value: self.value.clone(),
            source: self.source,
            age: self.age,
            version: self.version,
        }
    }
}

/// What a loader found.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::{io, time::Duration};
/// use seawall::{Seawall, cache::{Cache, Loaded}};
///
/// // A row that knows until when it is right.
/// async fn select(id: u64) -> io::Result<Loaded<String>> {
///     let row = (id == 42).then(|| ("tea house".to_owned(), Duration::from_secs(90)));
///     Ok(row.map_or(Loaded::Missing, |(name, left)| Loaded::FoundFor(name, left)))
/// }
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let shops: Cache<u64, String> = seawall.cache("shop").build()?;
/// assert!(shops.get_or_load(&42, || select(42)).await?.value.is_some());
/// assert!(shops.get_or_load(&7, || select(7)).await?.value.is_none());
///
/// // Without anything to say about lifetimes, an `Option` or the value itself is enough.
/// let name = |id: u64| async move { Ok::<_, io::Error>((id == 42).then(|| "tea house".to_owned())) };
/// assert!(shops.get_or_load(&43, move || name(43)).await?.value.is_none());
/// assert_eq!(Loaded::<String>::from(None), Loaded::Missing);
/// assert_eq!(Loaded::<&str>::from("tea house"), Loaded::Found("tea house"));
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loaded<V> {
    /// A value, to be kept as long as the cache says.
    Found(V),
    /// A value, to be kept this long.
    FoundFor(V, Duration),
    /// There is none; this is remembered for a short time.
    Missing,
    /// What is cached is still right (for refreshes with an ETag or an update time).
    NotModified,
    /// A value for this caller and those who wait with it, not to be kept.
    DontCache(V),
}

impl<V> From<V> for Loaded<V> {
    fn from(value: V) -> Self {
        Loaded::Found(value)
    }
}

impl<V> From<Option<V>> for Loaded<V> {
    fn from(found: Option<V>) -> Self {
        found.map_or(Loaded::Missing, Loaded::Found)
    }
}

/// An error of a loader, shared by all who waited for it.
pub type LoadError = Arc<dyn StdError + Send + Sync>;

/// Why a read has no answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CacheError {
    /// The loader failed or panicked and there is nothing older to give. What it said is the
    /// [`source`](StdError::source).
    Load(LoadError),
    /// The loader ran for longer than [`loader_timeout`](crate::CacheBuilder::loader_timeout) allows,
    /// and was dropped; nothing older to give.
    LoadTimeout {
        /// How long it ran. Shorter than the setting when it had to wait for its pipeline.
        ran: Duration,
        /// The setting.
        loader_timeout: Duration,
    },
    /// The source is protected at the moment; nothing older to give.
    Shed {
        /// When it is worth trying again.
        retry_after: Duration,
    },
    /// The read took longer than its [`read_timeout`](crate::CacheBuilder::read_timeout).
    ReadTimeout(Duration),
    /// Another caller is loading, and the cache is set to say so rather than wait.
    Busy,
    /// Redis failed where nothing could stand in for it, or the key makes no sense.
    Redis(Error),
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheError::Load(error) => write!(f, "loading failed: {error}"),
            CacheError::LoadTimeout { ran, loader_timeout } => {
                write!(f, "the load was cut after {ran:?}, loader_timeout is {loader_timeout:?}")
            }
            CacheError::Shed { retry_after } => {
                write!(f, "shed to protect the source, try again in {retry_after:?}")
            }
            CacheError::ReadTimeout(limit) => {
                write!(f, "no value within the read_timeout of {limit:?}")
            }
            CacheError::Busy => f.write_str("another caller is loading this"),
            CacheError::Redis(error) => error.fmt(f),
        }
    }
}

// By hand: a derived `source` would be the `Arc`, which cannot be downcast to the loader's error.
impl StdError for CacheError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            CacheError::Load(error) => Some(&**error),
            CacheError::Redis(error) => error.source(),
            _ => None,
        }
    }
}

impl From<Error> for CacheError {
    fn from(error: Error) -> Self {
        CacheError::Redis(error)
    }
}

/// Outcome of an invalidation.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use seawall::{Error, Seawall, cache::{Cache, Freshness, Invalidation, Loaded}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let shops: Cache<u64, String> = seawall.cache("shop").build()?;
/// shops.put(&42, &"tea house".to_owned()).await?;
///
/// let update = async { Ok::<_, std::io::Error>(()) }; // in real life: update shop set name = …
/// let ((), done) = shops.write(&42, update).await?;
/// match done {
///     Invalidation::Applied(version) => {
///         let select = || async { Ok::<_, Error>(Loaded::Found("coffee house".to_owned())) };
///         let read = shops.get_or_load_as(Freshness::After(version), &42, select).await?;
///         assert_eq!(read.value.as_deref().map(String::as_str), Some("coffee house"));
///     }
///     Invalidation::Queued => println!("other processes may see the old name for a while"),
/// }
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "promises count from `Applied`"]
pub enum Invalidation {
    /// Redis has it: no strong read, and without a local tier no read at all, that begins from now
    /// on sees anything older. The version is for [`Freshness::After`].
    Applied(Version),
    /// Redis did not answer; the recovery queue goes on trying.
    Queued,
}

/// Why [`Cache::write`](crate::Cache::write) has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError<E> {
    /// The work failed. It may have changed the source before it did, so the entry was invalidated.
    #[error("the write failed: {0}")]
    Work(#[source] E),
    /// The work never ran: the key makes no sense, or the handle was shut down.
    #[error("nothing was written: {0}")]
    NotRun(#[source] Error),
    /// The work succeeded, but the handle was shut down meanwhile: nothing will invalidate the entry.
    #[error("written, but not invalidated: {0}")]
    NotInvalidated(#[source] Error),
}

impl<E> WriteError<E> {
    /// Converts into the error of the work, for functions that return that type.
    ///
    /// [`WriteError::Work`] stays as it is, [`WriteError::NotRun`] is converted by `From`.
    /// [`WriteError::NotInvalidated`] becomes [`Error::Indeterminate`] first: the source has changed.
    #[must_use]
    pub fn into_work_error(self) -> E
    where
        E: From<Error>,
    {
        match self {
            WriteError::Work(error) => error,
            WriteError::NotRun(error) => error.into(),
            WriteError::NotInvalidated(error) => {
                let cause = format!("written, but not invalidated: {error}").into();
                Error::Indeterminate { waited: Duration::ZERO, cause }.into()
            }
        }
    }
}

/// Outcome of [`Cache::put_if_newer`](crate::Cache::put_if_newer).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an older write was not stored"]
pub enum PutOutcome {
    /// It is stored.
    Stored(Version),
    /// Something newer is there.
    Older,
    /// The same version was there with another value, or was invalidated since; it is unknown which
    /// is later, so the next reader asks the source.
    Undecided(Version),
    /// Exactly this is there already.
    Unchanged,
}
