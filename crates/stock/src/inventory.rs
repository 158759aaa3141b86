//! The units of one SKU, spread over shards in different slots.
//!
//! Each shard consists of five keys in one slot and is changed only by scripts; `received = held +
//! sold + left` holds at each shard at any time. A movement that involves several shards is decided
//! by one record at the *home* shard of its reference; the parts at other shards stay held until
//! they learn the decision.
//!
//! ```text
//! stock:{SKU}:layout                hash: salts, made
//! stock:{SKU:SHARD:SALT}            hash: epoch, phase, received, held, sold, left
//! stock:{SKU:SHARD:SALT}:records    hash: h:REFERENCE, p:REFERENCE, r:RECEIPT → record
//! stock:{SKU:SHARD:SALT}:due        zset: when a hold ends
//! stock:{SKU:SHARD:SALT}:parts      zset: when the home of a part is asked
//! stock:{SKU:SHARD:SALT}:done       zset: when a finished record is forgotten
//! ```
//!
//! If a shard cannot be reached, has lost its data or is being rebuilt, movements return
//! [`Error::Unavailable`]: nothing was moved there. A movement whose reply is lost is repeated; if
//! the outcome is still unknown, it returns [`Error::Indeterminate`].

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use metrics::Histogram;
use seawall_client::{
    Handle,
    client::{Client, Script, ScriptInvocation},
    error::{Error, Result},
    key::KeyPart,
    retry::Doubt,
};
use seawall_resilience::clock::{Clock, Moment, millis};

use super::{
    layout::{self, MAX_SHARDS},
    reference::Reference,
    sale::ATTEMPTS,
    sweeper::{self, IdleShards},
};

/// How long a shard is not chosen as a home after a failure.
const PAUSE: Duration = Duration::from_millis(250);
/// Keys of a shard.
const KEYS: usize = 5;
/// Number of times a movement follows a shard to a new epoch.
const MAX_EPOCHS: usize = 4;
/// Maximum rounds of a receipt: each round is a write to each shard.
const MAX_ROUNDS: u64 = 10_000;
/// Minimum time that references are remembered. A movement that is in flight for longer, because
/// its server was stalled, is no longer recognized as a repetition.
const MIN_REMEMBERED: Duration = Duration::from_secs(60);

impl Inventory {
    /// Returns a builder for the inventory of one SKU.
    #[must_use]
    pub fn builder(handle: &Handle, sku: &(impl KeyPart + ?Sized)) -> InventoryBuilder {
        InventoryBuilder {
            handle: handle.clone(),
            sku: sku.to_key().map(Sku),
            shards: 3,
            rounds: 10,
            kept: Duration::from_secs(7 * 24 * 3600),
            sweep: Duration::from_secs(1),
        }
    }
}

/// Key parts that are already joined.
#[derive(Debug, Clone)]
pub(super) struct Sku(Vec<u8>);

impl KeyPart for Sku {
    fn write(&self, key: &mut seawall_client::key::KeyBuffer) {
        key.push_written(&self.0);
    }
}

/// Settings of an [`Inventory`].
#[derive(Debug, Clone)]
pub struct InventoryBuilder {
    handle: Handle,
    sku: Result<Sku>,
    shards: usize,
    rounds: u64,
    kept: Duration,
    sweep: Duration,
}

impl InventoryBuilder {
    /// Sets the number of shards over which the units are spread when the SKU is first opened.
    /// Default: 3. An existing inventory keeps the number it was created with.
    #[must_use]
    pub fn shards(mut self, count: usize) -> Self {
        self.shards = count;
        self
    }

    /// Sets the maximum number of rounds in which a receipt is written. Default: 10. A round brings
    /// a shard at least 3 units, or its whole share.
    #[must_use]
    pub fn max_rounds(mut self, count: u64) -> Self {
        self.rounds = count;
        self
    }

    /// Sets how long finished references and receipts are remembered, so that a repetition finds
    /// them. Default: 7 days; minimum: 1 minute. A gathered hold counts as finished when every
    /// shard has answered. Holds may last longer.
    #[must_use]
    pub fn reference_ttl(mut self, time: Duration) -> Self {
        self.kept = time;
        self
    }

    /// Sets how often this handle looks for expired holds and for parts that were left behind.
    /// Default: every second. Movements of a shard release expired holds as well.
    #[must_use]
    pub fn sweep_interval(mut self, time: Duration) -> Self {
        self.sweep = time;
        self
    }

    /// Opens the inventory, and creates it if it does not exist. Open it once and clone the handle:
    /// each opened inventory runs its own sweeper.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the invalid setting; otherwise as [`Client::send`].
    pub async fn open(self) -> Result<Inventory> {
        if !(1..=MAX_SHARDS).contains(&self.shards) {
            return Err(Error::Invalid(format!("an inventory has 1 to {MAX_SHARDS} shards")));
        }
        if !(1..=MAX_ROUNDS).contains(&self.rounds) || self.sweep.is_zero() {
            return Err(Error::Invalid(format!(
                "max_rounds must be 1 to {MAX_ROUNDS}, and sweep_interval must not be 0"
            )));
        }
        if self.kept < MIN_REMEMBERED {
            return Err(Error::Invalid(format!(
                "reference_ttl must be {MIN_REMEMBERED:?} or more, not {:?}",
                self.kept
            )));
        }
        self.handle.needs_every_key("stock");
        let sku = self.sku?;
        let shards = layout::open(&self.handle, &sku, self.shards).await?;
        let inner = Arc::new(Inner {
            client: self.handle.client().clone(),
            name: String::from_utf8_lossy(&sku.0).into_owned(),
            // Processes start at different shards.
            turn: AtomicUsize::new(self.handle.randomness().index(shards.len())),
            holds: AtomicUsize::new(0),
            shards,
            rounds: self.rounds,
            kept: self.kept,
            reserve_seconds: metrics::histogram!("seawall_stock_reserve_seconds", "kind" => "inventory"),
        });
        let idle = IdleShards::of(&self.handle);
        let sweeping = sweeper::keep_sweeping(Arc::downgrade(&inner), self.sweep, idle);
        let mut stop = self.handle.stopping();
        self.handle.spawn_at_home(async move {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => {}
                () = sweeping => {}
            }
        });
        Ok(Inventory { inner })
    }
}

/// The units of one SKU. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use std::time::Duration;
/// use seawall::{Seawall, stock::{Held, Settled}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let stock = seawall.inventory(&("sku", 4711)).shards(3).open().await?;
/// stock.receive("delivery-1", 300).await?;
///
/// let reference = stock.reference("order-17")?; // keep it with the order
/// let held = stock.hold(&reference, 2, Duration::from_secs(900)).await?;
/// assert!(matches!(held, Held::Held(_)));
/// assert_eq!(stock.sell(&reference).await?, Settled::Now { units: 2 });
/// assert_eq!(stock.sell(&reference).await?, Settled::Before { units: 2 });
///
/// let audit = stock.audit().await?;
/// assert!(audit.is_conserved());
/// assert_eq!(audit.total().left, 298);
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Clone)]
pub struct Inventory {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) client: Client,
    pub(super) name: String,
    pub(super) shards: Vec<Shard>,
    /// Where the search for the next home starts.
    turn: AtomicUsize,
    /// Counts the holds that were requested through this handle.
    pub(super) holds: AtomicUsize,
    pub(super) rounds: u64,
    pub(super) kept: Duration,
    pub(super) reserve_seconds: Histogram,
}

/// Reply of a shard.
pub(super) enum Said {
    Words(Vec<String>),
    /// The shard has lost its data.
    Lost,
    /// The shard is being rebuilt, or the process that rebuilt it has died.
    Rebuilding,
}

/// One shard: its keys, and what this process knows about it.
pub(super) struct Shard {
    /// The shard, its records, due, parts and done, and the four keys that a rebuild writes.
    pub(super) keys: [Vec<u8>; 9],
    epoch: AtomicU64,
    /// Until when the shard is not chosen as a home, in nanoseconds of the local clock.
    away_until: AtomicU64,
}

impl Shard {
    pub(super) fn new(key: &[u8]) -> Self {
        let with = |end: &[u8]| [key, end].concat();
        let keys = [
            key.to_vec(),
            with(b":records"),
            with(b":due"),
            with(b":parts"),
            with(b":done"),
            with(b":new-records"),
            with(b":new-due"),
            with(b":new-parts"),
            with(b":new-done"),
        ];
        Shard { keys, epoch: AtomicU64::new(0), away_until: AtomicU64::new(0) }
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.keys[0]
    }

    fn is_away(&self, now: Moment) -> bool {
        self.away_until.load(Ordering::Relaxed) > now.as_nanos()
    }
}

impl Inventory {
    /// Returns the number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.inner.shards.len()
    }

    /// Returns the keys of a shard, for inspecting Redis by hand. The first key holds the counters.
    #[must_use]
    pub fn shard_keys(&self, shard: usize) -> Option<&[Vec<u8>]> {
        self.inner.shards.get(shard).map(|shard| &shard.keys[..KEYS])
    }

    /// Creates a reference whose home is a shard that seems to be reachable. Homes rotate.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is empty or too long.
    pub fn reference(&self, name: &str) -> Result<Reference> {
        Reference::at(name, self.inner.next_home(0))
    }
}

impl Inner {
    /// Returns the next shard in rotation that is not marked as away, after skipping `skipped`
    /// shards.
    pub(super) fn next_home(&self, skipped: usize) -> usize {
        let (count, now) = (self.shards.len(), self.clock().now());
        let first = self.turn.fetch_add(1, Ordering::Relaxed).wrapping_add(skipped);
        let turn = (0..count).map(|step| first.wrapping_add(step) % count);
        let mut alive = turn.filter(|shard| !self.shards[*shard].is_away(now));
        alive.next().unwrap_or(first % count)
    }

    pub(super) fn clock(&self) -> &Clock {
        self.client.clock()
    }

    /// Runs a movement at a shard. Follows the shard's epoch, and repeats the call if the reply was
    /// lost.
    pub(super) async fn call(
        &self,
        shard: usize,
        script: &'static Script,
        arguments: impl Fn(ScriptInvocation) -> ScriptInvocation,
    ) -> Result<Vec<String>> {
        match self.ask(shard, script, arguments).await? {
            Said::Words(words) => Ok(words),
            Said::Lost => Err(self.unavailable(shard, "has lost its data")),
            Said::Rebuilding => Err(self.unavailable(shard, "is being rebuilt")),
        }
    }

    /// Like [`Inner::call`], but reports a closed shard as a reply, so that callers can tell it
    /// from a shard that does not answer.
    pub(super) async fn ask(
        &self,
        shard: usize,
        script: &'static Script,
        arguments: impl Fn(ScriptInvocation) -> ScriptInvocation,
    ) -> Result<Said> {
        let at = &self.shards[shard];
        let mut lost = 0;
        let mut doubt = Doubt::default();
        for _ in 0..MAX_EPOCHS + ATTEMPTS {
            let call = script
                .on(&at.keys[..KEYS])
                .arg(at.epoch.load(Ordering::Relaxed))
                .arg(millis(self.kept));
            let reply: Result<Vec<String>> = self.client.eval(&arguments(call)).await;
            match reply {
                Ok(words) => match words.first().map(String::as_str) {
                    Some("EPOCH") => {
                        let epoch = words.get(1).and_then(|epoch| epoch.parse().ok());
                        at.epoch.store(epoch.unwrap_or(0), Ordering::Relaxed);
                    }
                    // This call was not executed, but an earlier attempt may have been.
                    Some("LOST" | "REBUILDING") if doubt.exists() => {
                        return Err(doubt.report(self.unavailable(shard, "is closed")));
                    }
                    // Nor does a refusal: that attempt may still arrive, when there are units again.
                    Some("SHORT" | "MORE") if doubt.exists() => {
                        return Err(
                            doubt.report(Error::Unavailable("too few units are left".into()))
                        );
                    }
                    Some("LOST") => return Ok(Said::Lost),
                    Some("REBUILDING") => return Ok(Said::Rebuilding),
                    Some(_) => {
                        at.away_until.store(0, Ordering::Relaxed);
                        return Ok(Said::Words(words));
                    }
                    None => return Err(Error::unexpected("a shard answered nothing")),
                },
                Err(error) if error.is_indeterminate() && lost + 1 < ATTEMPTS => {
                    doubt.note(&error);
                    lost += 1;
                }
                Err(error) if error.is_outage() && !error.is_indeterminate() => {
                    return Err(doubt.report(self.unavailable(shard, &error.to_string())));
                }
                Err(error) => {
                    if error.is_outage() {
                        let _: Error = self.unavailable(shard, "does not answer");
                    }
                    return Err(doubt.report(error));
                }
            }
        }
        Err(doubt.report(self.unavailable(shard, "changes its epoch again and again")))
    }

    pub(super) fn unavailable(&self, shard: usize, why: &str) -> Error {
        let until = (self.clock().now() + PAUSE).as_nanos();
        self.shards[shard].away_until.store(until, Ordering::Relaxed);
        Error::Unavailable(format!("shard {shard} of {} {why}", self.name).into())
    }
}

impl fmt::Debug for Inventory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inventory")
            .field("sku", &self.inner.name)
            .field("shards", &self.inner.shards.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("sku", &self.name).finish_non_exhaustive()
    }
}
