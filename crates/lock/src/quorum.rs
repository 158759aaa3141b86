//! A mutex over several independent primaries, held if a majority grants it.
//!
//! All primaries are asked at once under the same ids. Each answers for itself, with its own lease
//! and renewals. The lock is lost when the primaries that still hold it are no majority. That is
//! permanent, because each of the losses is.
//!
//! Tokens come from clocks that need not agree. The lock's token is therefore the highest token of
//! the majority, and before it is returned, every fence of that majority is raised to it: the next
//! majority shares a primary with this one and gets a greater token there. That is the second round
//! trip.
//!
//! A server counts once. The same handle twice is rejected at once. Two handles to one server are
//! detected by the server's `run_id`, which is requested together with the first attempt; the
//! attempt is then rejected.
//!
//! Deliberately absent: regaining a primary that lost its part while the lock is held.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::{
    StreamExt,
    future::{join_all, select_all},
    stream::FuturesUnordered,
};

use redis::cmd;
use seawall_client::{
    Handle, KeyPart,
    client::Subscription,
    error::{Error, Result},
    retry::{Doubt, midway},
};
use seawall_resilience::clock::Moment;

use super::{
    acquire::{Pending, jittered},
    guard::{Extension, Guard, Release},
    lease_renewer::LeaseRenewer,
    mutex::Lock,
    request::{Answer, Kind, LockOptions, LockRequest},
    token::Token,
};

/// Minimum number of primaries: fewer have no majority that survives a loss.
const FEWEST: usize = 3;
/// A primary that takes longer than this fraction of the lease (`1/10`) counts as unreachable.
const ANSWER_WITHIN: u32 = 10;
/// Maximum random delay before the retry after a message, which spreads waiters that wake together.
const APART: Duration = Duration::from_millis(10);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A mutex over independent primaries. Cheap to clone; the value itself holds nothing.
///
/// The primaries must not fail together. The lock checks, where it can, that they are different
/// servers; it does not check that they run on different machines.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use std::time::Duration;
/// use seawall::Seawall;
///
/// // Three engines stand for three servers on three machines.
/// let mut primaries = Vec::new();
/// for _ in 0..3 {
///     primaries.push(Seawall::connect("embedded:").await?);
/// }
/// let lock = Seawall::quorum_lock(&primaries, "leader")?;
/// let guard = lock.acquire(Duration::from_secs(1)).await?.acquired().expect("free");
/// primaries[0].shutdown().await;
/// assert!(!guard.is_lost(), "two of three still say so");
/// # for primary in &primaries { primary.shutdown().await; } Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct QuorumLock {
    locks: Vec<Lock>,
    primaries: Vec<Handle>,
    servers: Arc<Mutex<Vec<Server>>>,
}

/// The server behind a primary.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Server {
    /// It has not been asked or has not answered.
    Unknown,
    /// It does not report a `run_id`.
    Hidden,
    /// Its `run_id`.
    Seen(String),
}

/// Outcome of an attempt to acquire a quorum lock.
#[derive(Debug)]
#[must_use = "a guard that is dropped gives its lock back"]
pub enum QuorumAcquireOutcome {
    /// A majority granted the lock.
    Acquired(QuorumGuard),
    /// No majority could be reached.
    Busy {
        /// Number of primaries that could not be asked.
        unreachable: usize,
    },
}

impl QuorumAcquireOutcome {
    /// Returns the guard if the lock was acquired.
    #[must_use]
    pub fn acquired(self) -> Option<QuorumGuard> {
        match self {
            QuorumAcquireOutcome::Acquired(guard) => Some(guard),
            QuorumAcquireOutcome::Busy { .. } => None,
        }
    }
}

impl QuorumLock {
    /// Creates a mutex over these independent primaries.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are fewer than three primaries or the same handle is given
    /// twice. Two handles to the same server are rejected by the first attempt, where `INFO` is
    /// allowed.
    pub fn new(primaries: &[Handle], name: impl KeyPart) -> Result<Self> {
        if primaries.len() < FEWEST {
            return Err(Error::Invalid(format!(
                "a quorum of {} primaries: it takes at least {FEWEST} to survive the loss of one",
                primaries.len()
            )));
        }
        for (index, primary) in primaries.iter().enumerate() {
            let same = primaries[..index].iter().position(|other| other.is_same(primary));
            if let Some(other) = same {
                return Err(Error::Invalid(format!(
                    "primaries[{other}] and primaries[{index}] are the same handle: a quorum takes \
                     independent servers"
                )));
            }
        }
        let lock = |handle| {
            Lock::of_kind(handle, "quorum", &name, Kind::Mutex).poll_interval(POLL_INTERVAL)
        };
        Ok(QuorumLock {
            locks: primaries.iter().map(lock).collect(),
            primaries: primaries.to_vec(),
            servers: Arc::new(Mutex::new(vec![Server::Unknown; primaries.len()])),
        })
    }

    /// As [`Lock::lease_ttl`].
    #[must_use]
    pub fn lease_ttl(mut self, lease: Duration) -> Self {
        self.locks = self.locks.into_iter().map(|lock| lock.lease_ttl(lease)).collect();
        self
    }

    /// As [`Lock::poll_interval`]. Default: 200 ms.
    #[must_use]
    pub fn poll_interval(mut self, pause: Duration) -> Self {
        self.locks = self.locks.into_iter().map(|lock| lock.poll_interval(pause)).collect();
        self
    }

    fn majority(&self) -> usize {
        self.primaries.len() / 2 + 1
    }

    fn all_options(&self) -> Result<Vec<Arc<LockOptions>>> {
        self.locks.iter().map(Lock::options).collect()
    }

    /// Asks the primaries whose server is not known yet for their `run_id`.
    async fn recognise(&self, all_options: &[Arc<LockOptions>]) {
        let known = self.servers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let unknown = known.iter().enumerate().filter(|(_, server)| **server == Server::Unknown);
        let asked = unknown.map(async |(index, _)| {
            let (client, options) = (self.primaries[index].client(), &all_options[index]);
            let mut info = cmd("INFO");
            info.arg("server");
            let asked = client.query::<String>(&options.key, &info);
            let limit = options.lease_ttl / ANSWER_WITHIN;
            let server = match client.network_clock().timeout(limit, asked).await {
                Some(Ok(text)) => run_id(&text).map_or(Server::Hidden, Server::Seen),
                Some(Err(Error::Refused { .. })) => Server::Hidden,
                Some(Err(_)) | None => Server::Unknown,
            };
            (index, server)
        });
        for (index, server) in join_all(asked).await {
            self.servers.lock().unwrap_or_else(PoisonError::into_inner)[index] = server;
        }
    }

    /// Rejects a server that is used twice.
    fn check_servers(&self) -> Result<()> {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, server) in servers.iter().enumerate() {
            let same = servers[..index].iter().position(|other| other == server);
            if let (Server::Seen(_), Some(other)) = (server, same) {
                return Err(Error::Invalid(format!(
                    "primaries[{other}] and primaries[{index}] are the same server: a quorum takes \
                     independent ones"
                )));
            }
        }
        Ok(())
    }

    /// Tries once, in two round trips.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name or an option is invalid, or two primaries are the same
    /// server. [`Error::Refused`] if refusals, for example because of a key that is not a lock's,
    /// make a majority impossible. Primaries that do not answer count as not granting the lock.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing stays held.
    pub async fn try_acquire(&self) -> Result<QuorumAcquireOutcome> {
        let all_options = self.all_options()?;
        let request =
            LockRequest::new(Arc::clone(&all_options[0]), None, self.primaries[0].randomness());
        let asked = self.primaries.iter().zip(&all_options).map(async |(primary, options)| {
            let mut pending = Pending::new(primary, request.elsewhere(Arc::clone(options)));
            let limit = options.lease_ttl / ANSWER_WITHIN;
            let clock = primary.client().network_clock();
            let answer = clock.timeout(limit, pending.attempt(primary, false)).await;
            (primary, pending, answer)
        });
        let (answers, ()) = tokio::join!(join_all(asked), self.recognise(&all_options));
        self.check_servers()?;
        let mut held = Vec::new();
        let mut refusals = Vec::new();
        let mut unreachable = 0;
        for (primary, pending, answer) in answers {
            match answer {
                Some(Ok((Some(Answer::Held(token)), before))) => {
                    held.push(Part { primary, pending, token, before });
                }
                Some(Ok(_)) => {}
                Some(Err(error @ Error::Refused { .. })) if !error.is_away() => {
                    refusals.push(error);
                }
                // Dropping `pending` undoes what that primary may have done.
                Some(Err(_)) | None => unreachable += 1,
            }
        }
        if refusals.len() > self.primaries.len() - self.majority() {
            return Err(refusals.swap_remove(0));
        }
        if held.len() < self.majority() {
            return Ok(QuorumAcquireOutcome::Busy { unreachable });
        }
        let token = self.raise_fences(&mut held).await;
        if held.len() < self.majority() {
            return Ok(QuorumAcquireOutcome::Busy { unreachable });
        }
        let guards: Vec<_> = held
            .into_iter()
            .map(|part| Guard::new(part.primary, part.pending.held(), part.token, part.before))
            .collect();
        let guard = QuorumGuard { guards, token, majority: self.majority() };
        Ok(if guard.is_lost() {
            QuorumAcquireOutcome::Busy { unreachable }
        } else {
            QuorumAcquireOutcome::Acquired(guard)
        })
    }

    /// Raises every fence to the highest token and returns it. A primary that cannot be raised is
    /// removed.
    async fn raise_fences(&self, held: &mut Vec<Part<'_>>) -> Token {
        let highest = held.iter().map(|part| part.token).max();
        let highest = highest.unwrap_or(Token { epoch: 0, sequence: 0 });
        let raised = join_all(held.drain(..).map(async |part| {
            if part.token != highest {
                let call = part.pending.request().raise_fence(highest);
                let limit = part.pending.request().options.lease_ttl / ANSWER_WITHIN;
                let raise = part.primary.client().eval::<u64>(&call);
                let clock = part.primary.client().network_clock();
                let stands = clock.timeout(limit, raise).await?.ok()?;
                if stands != highest.epoch {
                    return None;
                }
            }
            Some(part)
        }));
        held.extend(raised.await.into_iter().flatten());
        highest
    }

    /// Waits at most `within` for the lock. Within one process, requests are served in order.
    ///
    /// # Errors
    /// As [`QuorumLock::try_acquire`].
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing stays held.
    pub async fn acquire(&self, within: Duration) -> Result<QuorumAcquireOutcome> {
        let all_options = self.all_options()?;
        let first = &self.primaries[0];
        let clock = first.clock();
        let deadline = clock.now() + within;
        let renewer = LeaseRenewer::of(first);
        let line = renewer.lines.turn(Arc::clone(&all_options[0].key));
        let Some(_turn) = clock.timeout(within, line).await else {
            return Ok(QuorumAcquireOutcome::Busy { unreachable: 0 });
        };
        let mut subscriptions: Vec<Subscription> = Vec::new();
        loop {
            let attempt = self.try_acquire().await?;
            let left = deadline.since(clock.now());
            if matches!(attempt, QuorumAcquireOutcome::Acquired(_)) || left.is_zero() {
                return Ok(attempt);
            }
            if subscriptions.is_empty() {
                let join = |primary: &Handle| primary.client().pubsub().join(&all_options[0].key);
                subscriptions = self.primaries.iter().map(join).collect();
            }
            let told = subscriptions.iter_mut().map(|subscription| Box::pin(subscription.next()));
            let pause = jittered(all_options[0].poll_interval, first.randomness()).min(left);
            // A message wakes all waiters at once: spread them, so that they do not split the
            // votes.
            tokio::select! {
                biased;
                _ = select_all(told) => clock.sleep(jittered(APART, first.randomness()).min(left)).await,
                () = clock.sleep(pause) => {}
            }
        }
    }
}

/// Returns the id that a server chooses at start-up, from the output of `INFO`.
fn run_id(info: &str) -> Option<String> {
    let id = info.lines().find_map(|line| line.strip_prefix("run_id:"))?.trim();
    (!id.is_empty()).then(|| id.to_owned())
}

/// The grant of one primary.
struct Part<'a> {
    primary: &'a Handle,
    pending: Pending,
    token: Token,
    before: Moment,
}

/// A held quorum lock, until the guard is released, dropped or lost.
#[derive(Debug)]
#[must_use = "a guard that is dropped gives its lock back"]
pub struct QuorumGuard {
    guards: Vec<Guard>,
    token: Token,
    majority: usize,
}

impl QuorumGuard {
    /// Returns the fencing token; greater than that of every earlier majority.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns how long a majority is certain to hold if no further renewal succeeds.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        let mut times: Vec<_> = self.guards.iter().map(Guard::valid_for).collect();
        times.sort_unstable();
        times.into_iter().rev().nth(self.majority - 1).unwrap_or_default()
    }

    /// Returns `true` if no majority is left. Once `true`, always `true`.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.guards.iter().filter(|guard| !guard.is_lost()).count() < self.majority
    }

    /// Waits until no majority is left.
    pub async fn lost(&self) {
        let mut losses: FuturesUnordered<_> = self.guards.iter().map(Guard::lost).collect();
        while !self.is_lost() {
            losses.next().await;
        }
    }

    /// Sets the lease to this length from now on at every primary, as [`Guard::extend`] does.
    ///
    /// It is extended if a majority confirms; primaries that do not answer keep the shorter of the
    /// two leases.
    ///
    /// # Errors
    /// Fails if too few primaries answered for a majority.
    ///
    /// # Cancel safety
    /// As [`Guard::extend`].
    pub async fn extend(&self, lease: Duration) -> Result<Extension> {
        let mut extended = 0;
        let (mut failed, mut doubt) = (None, Doubt::default());
        for outcome in join_all(self.guards.iter().map(|guard| guard.extend(lease))).await {
            match outcome {
                Ok(Extension::Extended) => extended += 1,
                Ok(Extension::AlreadyLost) => {}
                Err(error) => {
                    doubt.note(&error);
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if extended < self.majority && !self.is_lost() => {
                Err(doubt.report(if extended == 0 { error } else { midway(error) }))
            }
            _ if self.is_lost() => Ok(Extension::AlreadyLost),
            _ => Ok(Extension::Extended),
        }
    }

    /// Gives the lock back at every primary.
    ///
    /// Returns [`Release::AlreadyLost`] if no majority had it any more. For primaries that do not
    /// answer, the release is retried in the background until the lease has ended.
    pub async fn release(self) -> Release {
        let majority = self.majority;
        let was_lost = self.is_lost();
        let released = join_all(self.guards.into_iter().map(Guard::release)).await;
        // A primary that does not answer still counts: its lease has not ended.
        let good = released.iter().filter(|done| !matches!(done, Ok(Release::AlreadyLost))).count();
        if was_lost || good < majority { Release::AlreadyLost } else { Release::Released }
    }
}
