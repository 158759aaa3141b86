//! Ids from Redis: taken in segments, fetched ahead of need.
//!
//! Redis keeps one *mark* per name, the first free id, and advances it by a segment at a time. The
//! mark is never behind the server's clock: the sequence begins at the fraction of the second, as
//! if time counted in units of 2^-32 s. So uniqueness does not depend on the counter alone: if the
//! mark is lost (an older snapshot, a fail-over that lost writes, FLUSHALL), the next segment
//! begins at the current time, which is after everything that was handed out before. A plain
//! counter would restart and repeat the ids of the same second.
//!
//! A fetch whose reply was lost only leaves a gap; fetching again is always safe.
//!
//! Deliberately absent: ids without gaps. Those need a transaction with the rows that they number.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use metrics::Counter;
use seawall_client::{
    Handle,
    client::Script,
    error::{Error, Result},
};
use tokio::sync::oneshot;

use super::{
    day::day,
    ident::{EPOCH_SECONDS, Id},
    segment::Segment,
    supply::{Order, Supply, Taken},
};

static SEGMENT: Script = Script::with_time(include_str!("segment.lua"));

/// Largest segment that may be requested.
const MAX_SEGMENT: u64 = 1 << 20;
/// Attempts of a fetch before the waiting callers get the error.
const FETCH_ATTEMPTS: u32 = 2;
/// Lifetime of the mark: after this time the clock alone is far beyond any mark.
const MARK_SECONDS: u64 = 2 * 86_400;
/// How long the counts of past days can be read.
const DAY_COUNT_SECONDS: u64 = 8 * 86_400;

/// Ids of one name; cheap to clone.
///
/// Ids of one `Ids` and its clones rise strictly in the order of the calls. Ids of different
/// instances are unique, and rise with the time of their segments.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::Seawall;
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let orders = seawall.ids("order").build()?;
/// let id = orders.next().await?;
/// println!("order {id}, made at {:?}", id.decode().time);
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Clone)]
pub struct Ids {
    inner: Arc<Inner>,
}

struct Inner {
    handle: Handle,
    name: String,
    mark_key: Vec<u8>,
    supply: Mutex<Supply>,
    handed_out: Counter,
    fetches: Counter,
    failures: Counter,
}

impl Ids {
    /// Returns a builder for ids with a name, such as `order`; names are independent of each other.
    #[must_use]
    pub fn builder(handle: &Handle, name: impl Into<String>) -> IdsBuilder {
        IdsBuilder {
            handle: handle.clone(),
            name: name.into(),
            smallest: 64,
            largest: 65_536,
            freshness: Duration::from_secs(10),
        }
    }
}

/// Settings of [`Ids`].
#[derive(Debug, Clone)]
pub struct IdsBuilder {
    handle: Handle,
    name: String,
    smallest: u64,
    largest: u64,
    freshness: Duration,
}

impl IdsBuilder {
    /// Sets the smallest segment, which is also the first one. Default: 64.
    ///
    /// Segments then grow and shrink so that one lasts about a second.
    #[must_use]
    pub fn min_segment(mut self, ids: u64) -> Self {
        self.smallest = ids;
        self
    }

    /// Sets the largest segment. Default: 65,536.
    #[must_use]
    pub fn max_segment(mut self, ids: u64) -> Self {
        self.largest = ids;
        self
    }

    /// Sets how far the time in an id may be behind the time at which it is handed out. Default: 10
    /// seconds.
    ///
    /// An older segment is put aside and used only while Redis is unavailable.
    #[must_use]
    pub fn max_age(mut self, limit: Duration) -> Self {
        self.freshness = limit;
        self
    }

    /// Builds the ids; nothing is fetched yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that is out of range.
    pub fn build(self) -> Result<Ids> {
        let (smallest, largest) = (self.smallest, self.largest);
        if smallest == 0 || smallest > largest || largest > MAX_SEGMENT {
            return Err(Error::Invalid(format!(
                "segments from {smallest} to {largest}: min_segment must be at least 1 and at \
                 most max_segment, and that at most {MAX_SEGMENT}"
            )));
        }
        if self.freshness < Duration::from_secs(1) {
            return Err(Error::Invalid(format!(
                "a max_age of {:?} is finer than the time in an id, which is in seconds",
                self.freshness
            )));
        }
        let mark_key = self.handle.key("id", &self.name)?;
        let label = || self.name.clone();
        let inner = Inner {
            mark_key,
            supply: Mutex::new(Supply::new(smallest, largest, self.freshness)),
            handed_out: metrics::counter!("seawall_ids_total", "name" => label()),
            fetches: metrics::counter!("seawall_id_segments_total", "name" => label()),
            failures: metrics::counter!("seawall_id_segment_failures_total", "name" => label()),
            handle: self.handle,
            name: self.name,
        };
        Ok(Ids { inner: Arc::new(inner) })
    }
}

impl Ids {
    /// Returns the next id, usually without a round trip.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no id is left in this process and Redis cannot be reached;
    /// [`Error::Refused`] if Redis answers with an error.
    ///
    /// # Cancel safety
    /// At most one id is lost: the fetch goes on in the background, and other callers are served.
    pub async fn next(&self) -> Result<Id> {
        let now = self.inner.handle.clock().now();
        let (taken, order) = self.inner.supply().next(now);
        if let Some(order) = order {
            self.inner.fetch(order);
        }
        let id = match taken {
            Taken::Now(id) => id,
            Taken::Later(place) => self.wait(place).await?,
        };
        self.inner.handed_out.increment(1);
        Ok(id)
    }

    /// Returns the number of ids that all processes together have taken today (by the server's day,
    /// UTC).
    ///
    /// Ids that processes have fetched and not handed out yet are included.
    ///
    /// # Errors
    /// As [`Client::query`](seawall_client::Client::query).
    pub async fn taken_today(&self) -> Result<u64> {
        let key = self.inner.day_key();
        let taken: Option<u64> =
            self.inner.handle.client().query(&key, redis::cmd("GET").arg(&key)).await?;
        Ok(taken.unwrap_or(0))
    }

    /// Waits in line: callers are served in the order in which they arrived.
    #[tracing::instrument(level = "debug", name = "id", skip_all, fields(name = %self.inner.name))]
    async fn wait(&self, place: oneshot::Receiver<Result<Id>>) -> Result<Id> {
        place.await.unwrap_or(Err(Error::Closed))
    }
}

impl Inner {
    fn supply(&self) -> MutexGuard<'_, Supply> {
        self.supply.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a fetch in the background: it goes on if the caller that needed it is dropped.
    fn fetch(self: &Arc<Self>, order: Order) {
        let mut delivery = Delivery { inner: Arc::clone(self), segment: None };
        self.handle.spawn(async move {
            let segment = delivery.inner.take_segment(order).await;
            delivery.bring(segment);
        });
    }

    async fn take_segment(&self, order: Order) -> Result<Segment> {
        let mut attempt = 1;
        loop {
            match self.ask(order).await {
                Err(error) if error.is_outage() && attempt < FETCH_ATTEMPTS => attempt += 1,
                // The caller got no id, whatever happened on the server: for the caller that is
                // "not sent".
                Err(Error::Indeterminate { cause, .. }) => return Err(Error::Unavailable(cause)),
                result => return result,
            }
        }
    }

    async fn ask(&self, order: Order) -> Result<Segment> {
        let asked = self.handle.clock().now();
        let Order { count, floor } = order;
        let call = SEGMENT
            .on(&[self.mark_key.clone(), self.day_key()])
            .arg(EPOCH_SECONDS)
            .arg(count)
            .arg(floor >> 32)
            .arg(floor & u64::from(u32::MAX))
            .arg(MARK_SECONDS)
            .arg(DAY_COUNT_SECONDS);
        let (second, sequence): (u64, u64) = self.handle.client().eval(&call).await?;
        if second > u64::from(u32::MAX >> 1) || sequence + count > 1 << 32 {
            return Err(Error::unexpected(format!("no segment begins at {second} {sequence}")));
        }
        Ok(Segment::new((second << 32) + sequence, count, asked))
    }

    fn day_key(&self) -> Vec<u8> {
        let mut key = self.mark_key.clone();
        key.push(b':');
        key.extend_from_slice(day(self.handle.client().server_millis()).as_bytes());
        key
    }
}

/// The end of a fetch, which is reported even if its task is dropped.
struct Delivery {
    inner: Arc<Inner>,
    segment: Option<Result<Segment>>,
}

impl Delivery {
    fn bring(&mut self, segment: Result<Segment>) {
        self.segment = Some(segment);
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let now = self.inner.handle.clock().now();
        let result = self.segment.take().unwrap_or(Err(Error::Closed));
        self.inner.fetches.increment(1);
        let order = match result {
            Ok(segment) => self.inner.supply().fetched(segment, now),
            Err(error) => {
                self.inner.failures.increment(1);
                tracing::debug!(name = %self.inner.name, %error, "no ids from Redis");
                self.inner.supply().failed(&error, now);
                None
            }
        };
        if let Some(order) = order {
            self.inner.fetch(order);
        }
    }
}

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ids").field("name", &self.inner.name).finish_non_exhaustive()
    }
}
