//! Ids without Redis: time, a worker number, and a sequence.
//!
//! The time is that of the machine, but never goes back: it is the later of the wall clock and the
//! time that the monotonic clock has counted since the start. All state is one atomic number, the
//! last `milliseconds · 4096 + sequence` that was handed out. Taking an id is "the next number, or
//! the current time, whichever is larger". A caller that gets a number in a future millisecond
//! waits for that millisecond.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use seawall_client::error::{Error, Result};
use seawall_resilience::clock::{Clock, Moment, millis};

use super::ident::{EPOCH_SECONDS, Id};

const WORKER_BITS: u32 = 10;
const SEQUENCE_BITS: u32 = 12;
const MAX_WORKER: u16 = (1 << WORKER_BITS) - 1;
const MAX_MILLIS: u64 = (1 << 41) - 1;

/// Generates ids without Redis; cheap to clone. No two processes may have the same worker number.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::id::Snowflake;
///
/// let flakes = Snowflake::new(7)?;
/// let (first, second) = (flakes.next().await?, flakes.next().await?);
/// assert!(first < second);
/// assert_eq!(Snowflake::decode(first).worker, 7);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Snowflake {
    inner: Arc<Inner>,
}

struct Inner {
    worker: u64,
    clock: Clock,
    wall: Box<dyn Fn() -> u64 + Send + Sync>,
    started_at: Moment,
    started_millis: u64,
    last: AtomicU64,
}

/// The parts of a snowflake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnowflakeParts {
    /// The millisecond at which it was generated.
    pub time: SystemTime,
    /// Worker number of the process that generated it.
    pub worker: u16,
    /// Sequence number within the millisecond.
    pub sequence: u16,
}

impl Snowflake {
    /// Creates a generator with this worker number, 0 to 1023.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the number is out of range.
    pub fn new(worker: u16) -> Result<Self> {
        Self::with_clock(worker, Clock::system())
    }

    /// Like [`Snowflake::new`], with an explicit clock, which also provides the date.
    ///
    /// # Errors
    /// As [`Snowflake::new`].
    pub fn with_clock(worker: u16, clock: Clock) -> Result<Self> {
        let date = clock.clone();
        let wall = move || millis(date.unix_time()).saturating_sub(EPOCH_SECONDS * 1000);
        Self::with_wall(worker, clock, Box::new(wall))
    }

    fn with_wall(
        worker: u16,
        clock: Clock,
        wall: Box<dyn Fn() -> u64 + Send + Sync>,
    ) -> Result<Self> {
        if worker > MAX_WORKER {
            return Err(Error::Invalid(format!(
                "worker {worker} does not exist: they are numbered from 0 to {MAX_WORKER}"
            )));
        }
        let (started_at, started_millis) = (clock.now(), wall());
        let inner = Inner {
            worker: u64::from(worker),
            clock,
            wall,
            started_at,
            started_millis,
            last: AtomicU64::new(0),
        };
        Ok(Snowflake { inner: Arc::new(inner) })
    }

    /// Continues after this id.
    ///
    /// For a process that knows the last id of its predecessor, and does not trust the wall clock
    /// in between.
    #[must_use]
    pub fn after(self, last: Id) -> Self {
        let bits = last.as_u64();
        let sequence = bits & ((1 << SEQUENCE_BITS) - 1);
        let place = (bits >> (WORKER_BITS + SEQUENCE_BITS) << SEQUENCE_BITS) | sequence;
        self.inner.last.fetch_max(place, Ordering::AcqRel);
        self
    }

    /// Returns the next id, larger than all before. Waits only if the 4096 ids of a millisecond are
    /// used up.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the machine's clock is outside the 69 years of the ids.
    ///
    /// # Cancel safety
    /// An id whose time the caller was waiting for is lost; nothing else.
    pub async fn next(&self) -> Result<Id> {
        let inner = &*self.inner;
        let place = inner.take_place();
        let millis = place >> SEQUENCE_BITS;
        if millis > MAX_MILLIS {
            return Err(Error::Unavailable(
                "the machine's clock is outside the 69 years of the ids".into(),
            ));
        }
        let ahead = millis.saturating_sub(inner.millis());
        if ahead > 0 {
            inner.clock.sleep(Duration::from_millis(ahead)).await;
        }
        let sequence = place & ((1 << SEQUENCE_BITS) - 1);
        let bits = (millis << (WORKER_BITS + SEQUENCE_BITS)) | (inner.worker << SEQUENCE_BITS);
        Ok(Id::from_bits(bits | sequence))
    }

    /// Decodes a snowflake.
    #[must_use]
    pub fn decode(id: Id) -> SnowflakeParts {
        let bits = id.as_u64();
        let millis = bits >> (WORKER_BITS + SEQUENCE_BITS);
        SnowflakeParts {
            time: UNIX_EPOCH + Duration::from_millis(EPOCH_SECONDS * 1000 + millis),
            worker: (bits >> SEQUENCE_BITS) as u16 & MAX_WORKER,
            sequence: bits as u16 & ((1 << SEQUENCE_BITS) - 1),
        }
    }
}

impl Inner {
    /// Returns milliseconds since the epoch; never less than before.
    fn millis(&self) -> u64 {
        let counted = self.started_millis + millis(self.clock.now().since(self.started_at));
        counted.max((self.wall)())
    }

    fn take_place(&self) -> u64 {
        let now = self.millis().min(MAX_MILLIS + 1) << SEQUENCE_BITS;
        let take = |last: u64| Some((last + 1).max(now));
        let last = self.last.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        // The closure never returns `None`, so both arms hold the previous number.
        let (Ok(last) | Err(last)) = last;
        (last + 1).max(now)
    }
}

impl fmt::Debug for Snowflake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snowflake").field("worker", &self.inner.worker).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wall_clock_that_steps_back_changes_nothing() {
        let (clock, time) = Clock::manual();
        let wall = Arc::new(AtomicU64::new(1_000_000));
        let read = Arc::clone(&wall);
        let flakes = Snowflake::with_wall(3, clock, Box::new(move || read.load(Ordering::SeqCst)))
            .expect("valid");
        let first = flakes.next().await.expect("in range");
        wall.store(5, Ordering::SeqCst);
        let second = flakes.next().await.expect("in range");
        time.advance(Duration::from_millis(20));
        let third = flakes.next().await.expect("in range");
        assert!(first < second && second < third);
        assert_eq!(third.as_u64() >> 22, 1_000_020);
        wall.store(2_000_000, Ordering::SeqCst);
        assert_eq!(flakes.next().await.expect("in range").as_u64() >> 22, 2_000_000);
    }

    #[tokio::test]
    async fn the_4097th_of_a_millisecond_waits_for_the_next() {
        let (clock, time) = Clock::manual();
        let flakes = Snowflake::with_wall(0, clock, Box::new(|| 77)).expect("valid");
        for _ in 0..4096 {
            assert_eq!(flakes.next().await.expect("in range").as_u64() >> 22, 77);
        }
        let waiting = tokio::spawn({
            let flakes = flakes.clone();
            async move { flakes.next().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        time.advance(Duration::from_millis(1));
        let id = waiting.await.expect("no panic").expect("in range");
        assert_eq!((id.as_u64() >> 22, Snowflake::decode(id).sequence), (78, 0));
    }

    #[tokio::test]
    async fn a_successor_goes_on_after_the_last_id() {
        let make = || Snowflake::with_wall(9, Clock::manual().0, Box::new(|| 50)).expect("valid");
        let one = make();
        let last = one.next().await.expect("in range");
        let next = make().after(last).next().await.expect("in range");
        assert!(next > last);
    }

    #[tokio::test]
    async fn a_manual_clock_gives_the_same_ids_in_every_run() {
        let (clock, time) = Clock::manual();
        let flakes = Snowflake::with_clock(1, clock).expect("valid");
        time.advance(Duration::from_millis(1_500));
        let id = flakes.next().await.expect("in range");
        let date = UNIX_EPOCH + Duration::from_millis(1_767_225_601_500);
        assert_eq!(Snowflake::decode(id).time, date);
    }

    #[test]
    fn workers_are_checked() {
        assert!(Snowflake::new(1023).is_ok());
        let error = Snowflake::new(1024).expect_err("too many").to_string();
        assert!(error.contains("1023"), "{error}");
    }
}
