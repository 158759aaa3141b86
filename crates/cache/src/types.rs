//! What a reader asks for and what it gets.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use seawall_client::error::Error;
use seawall_resilience::clock::Moment;

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
    /// Any level may answer; a value past its lifetime may too, while exactly one caller refreshes
    /// it (how long past is the cache's setting).
    #[default]
    Cached,
    /// Even a value that was invalidated but kept for this purpose.
    StaleOk,
    /// No older than this.
    Within(Duration),
    /// At least as new as a write of one's own: see [`Version`]. Redis is asked, not the first level.
    After(Version),
    /// Nothing older than what was true when this read began: the first level is not asked, and no
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
/// // Without anything to say about lifetimes, an `Option` is enough.
/// assert_eq!(Loaded::from(None::<String>), Loaded::Missing);
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
    /// The loader ran for longer than [`loader_timeout`](crate::CacheBuilder::loader_timeout) allows, and
    /// was dropped; nothing older to give.
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

/// Hashes of tags; none for most caches, which then share no counter of references either.
pub(crate) type Tags = Option<Arc<[u64]>>;

/// What the first level keeps, and what the second level's entries become.
#[derive(Debug)]
pub(crate) struct Entry<V> {
    pub(crate) value: Option<Arc<V>>,
    pub(crate) version: u64,
    /// Until when it is fresh, by the local clock.
    pub(crate) fresh_until: Moment,
    /// Until when it may be given while it is refreshed, by the local clock.
    pub(crate) stale_until: Moment,
    /// When it was written, by the local clock.
    pub(crate) written: Moment,
    pub(crate) cost: Duration,
    pub(crate) bytes: u32,
    /// Kept for readers who ask for stale values only.
    pub(crate) invalidated: bool,
    /// Hashes of its tags.
    pub(crate) tags: Tags,
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Entry { value: self.value.clone(), tags: self.tags.clone(), ..*self }
    }
}

impl<V> Entry<V> {
    pub(crate) fn read(&self, source: Source, now: Moment) -> Read<V> {
        Read {
            value: self.value.clone(),
            source,
            age: now.since(self.written),
            version: Version(self.version),
        }
    }

    /// Whether an entry that Redis just called fresh may answer a reader with such wishes.
    pub(crate) fn is_current(&self, freshness: Freshness, now: Moment) -> bool {
        freshness == Freshness::Strong || self.suits(freshness, now)
    }

    /// Whether this may answer a reader with such wishes at this moment.
    pub(crate) fn suits(&self, freshness: Freshness, now: Moment) -> bool {
        if freshness == Freshness::Strong {
            return !self.invalidated && now < self.fresh_until;
        }
        let usable = !self.invalidated && now < self.stale_until;
        freshness.admits(usable, self.version, now.since(self.written))
    }
}

impl Freshness {
    /// Whether a copy in this process' memory may answer at all.
    ///
    /// Versions are times of the server that has the key. When a slot moves to a server whose clock is
    /// behind, or a clock is set back, a write may get a version below that of an older copy. Only the
    /// server itself can tell them apart: it raises the version of what it has.
    #[inline]
    pub(crate) fn asks_memory(self) -> bool {
        !matches!(self, Freshness::Strong | Freshness::After(_))
    }

    /// Whether a copy, usable or past its time, of this version and age is new enough for anybody
    /// but a strong reader.
    #[inline]
    pub(crate) fn admits(self, usable: bool, version: u64, age: Duration) -> bool {
        match self {
            Freshness::Cached => usable,
            Freshness::StaleOk => true,
            Freshness::Within(limit) => usable && age <= limit,
            Freshness::After(least) => usable && version >= least.0,
            Freshness::Strong => false,
        }
    }
}
