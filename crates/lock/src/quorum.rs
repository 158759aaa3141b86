//! A mutex over several independent primaries: held when a majority says so.
//!
//! All are asked at once under the same ids; each answers for itself, with a lease and renewals of
//! its own. The lock is lost when so many of them lost it that no majority is left, which is for
//! ever, because each of the losses is.
//!
//! Tokens come from clocks that need not agree. So the highest of the majority's tokens is the
//! lock's, and before it is handed out every fence of that majority is raised to it: the next
//! majority shares a primary with this one, and gets more there. That is the second round trip.
//!
//! A server counts once. The same handle twice is refused at once; two handles to one server are seen by
//! the server's `run_id`, which is asked for together with the first attempt and refuses it.
//!
//! Deliberately absent: taking a primary back that lost its part while the lock is held.

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
    owner::OwnerId,
    request::{Answer, Kind, LockOptions, LockRequest},
    token::Token,
};

/// Fewer primaries than this have no majority that survives a loss.
const FEWEST: usize = 3;
/// A primary that takes longer than this part of the lease to answer has not answered.
const ANSWER_WITHIN: u32 = 10;
/// Who tried at the same moment tries again apart by this.
const APART: Duration = Duration::from_millis(10);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A mutex over independent primaries; a cheap clone that holds nothing.
///
/// Primaries must not fail together. That they are different servers is checked where it can be seen;
/// that they run on different machines is not.
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

/// Which server a primary is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Server {
    /// It has not been asked, or has not answered.
    Unknown,
    /// It does not say.
    Hidden,
    /// Its `run_id`.
    Seen(String),
}

/// What an attempt to take a quorum lock came to.
#[derive(Debug)]
#[must_use = "a guard that is dropped gives its lock back"]
pub enum QuorumAcquireOutcome {
    /// A majority says that it is held.
    Acquired(QuorumGuard),
    /// No majority could be had.
    Busy {
        /// How many primaries could not be asked.
        unreachable: usize,
    },
}

impl QuorumAcquireOutcome {
    /// The guard, if there is one.
    #[must_use]
    pub fn acquired(self) -> Option<QuorumGuard> {
        match self {
            QuorumAcquireOutcome::Acquired(guard) => Some(guard),
            QuorumAcquireOutcome::Busy { .. } => None,
        }
    }
}

impl QuorumLock {
    /// A mutex over these independent primaries.
    ///
    /// # Errors
    /// [`Error::Invalid`] with fewer than three of them, or with the same handle twice. Two handles to
    /// the same server are refused by the first attempt, where `INFO` is allowed.
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

    /// As [`Lock::poll_interval`]; 200 ms without it.
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

    /// Asks the primaries that are not known yet which servers they are.
    async fn recognise(&self, all_options: &[Arc<LockOptions>]) {
        let known = self.servers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let unknown = known.iter().enumerate().filter(|(_, server)| **server == Server::Unknown);
        let asked = unknown.map(async |(index, _)| {
            let (client, options) = (self.primaries[index].client(), &all_options[index]);
            let mut info = cmd("INFO");
            info.arg("server");
            let asked = client.query::<String>(&options.key, &info);
            let server = match tokio::time::timeout(options.lease_ttl / ANSWER_WITHIN, asked).await
            {
                Ok(Ok(text)) => run_id(&text).map_or(Server::Hidden, Server::Seen),
                Ok(Err(Error::Refused { .. })) => Server::Hidden,
                Ok(Err(_)) | Err(_) => Server::Unknown,
            };
            (index, server)
        });
        for (index, server) in join_all(asked).await {
            self.servers.lock().unwrap_or_else(PoisonError::into_inner)[index] = server;
        }
    }

    /// Refuses a server that was named twice.
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
    /// [`Error::Invalid`] when the name or an option makes no sense, or two primaries are the same
    /// server. [`Error::Refused`] when so many primaries refuse, as with a key that is not a lock's, that
    /// there can be no majority. Primaries that do not answer count as a no.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays held.
    pub async fn try_acquire(&self) -> Result<QuorumAcquireOutcome> {
        let all_options = self.all_options()?;
        let request = LockRequest::new(Arc::clone(&all_options[0]), OwnerId::random());
        let asked = self.primaries.iter().zip(&all_options).map(async |(primary, options)| {
            let mut pending = Pending::new(primary, request.elsewhere(Arc::clone(options)));
            let limit = options.lease_ttl / ANSWER_WITHIN;
            let answer = tokio::time::timeout(limit, pending.attempt(primary, false)).await;
            (primary, pending, answer)
        });
        let (answers, ()) = tokio::join!(join_all(asked), self.recognise(&all_options));
        self.check_servers()?;
        let mut held = Vec::new();
        let mut refusals = Vec::new();
        let mut unreachable = 0;
        for (primary, pending, answer) in answers {
            match answer {
                Ok(Ok((Some(Answer::Held(token)), before))) => {
                    held.push(Part { primary, pending, token, before });
                }
                Ok(Ok(_)) => {}
                Ok(Err(error @ Error::Refused { .. })) if !error.is_away() => refusals.push(error),
                // Dropping the pending gives back what that primary may have done.
                Ok(Err(_)) | Err(_) => unreachable += 1,
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

    /// Raises every fence to the highest token, which is returned; who cannot be raised is out.
    async fn raise_fences(&self, held: &mut Vec<Part<'_>>) -> Token {
        let highest = held.iter().map(|part| part.token).max();
        let highest = highest.unwrap_or(Token { epoch: 0, sequence: 0 });
        let raised = join_all(held.drain(..).map(async |part| {
            if part.token != highest {
                let call = part.pending.request().raise_fence(highest);
                let limit = part.pending.request().options.lease_ttl / ANSWER_WITHIN;
                let raise = part.primary.client().eval::<u64>(&call);
                let stands = tokio::time::timeout(limit, raise).await.ok()?.ok()?;
                if stands != highest.epoch {
                    return None;
                }
            }
            Some(part)
        }));
        held.extend(raised.await.into_iter().flatten());
        highest
    }

    /// Waits for it, at most this long. Inside one process whoever asks first gets it first.
    ///
    /// # Errors
    /// As [`QuorumLock::try_acquire`].
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays held.
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
            let pause = jittered(all_options[0].poll_interval).min(left);
            // A message wakes everybody at once: who would only take it from each other goes apart.
            tokio::select! {
                _ = select_all(told) => clock.sleep(jittered(APART).min(left)).await,
                () = clock.sleep(pause) => {}
            }
        }
    }
}

/// The id that a server draws when it starts, out of what `INFO` says.
fn run_id(info: &str) -> Option<String> {
    let id = info.lines().find_map(|line| line.strip_prefix("run_id:"))?.trim();
    (!id.is_empty()).then(|| id.to_owned())
}

/// What one primary said yes to.
struct Part<'a> {
    primary: &'a Handle,
    pending: Pending,
    token: Token,
    before: Moment,
}

/// A quorum lock that is held, until the guard is released, dropped or lost.
#[derive(Debug)]
#[must_use = "a guard that is dropped gives its lock back"]
pub struct QuorumGuard {
    guards: Vec<Guard>,
    token: Token,
    majority: usize,
}

impl QuorumGuard {
    /// The fencing token; greater than that of every majority before.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// For how long a majority is certain to hold, if no renewal succeeds any more.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        let mut times: Vec<_> = self.guards.iter().map(Guard::valid_for).collect();
        times.sort_unstable();
        times.into_iter().rev().nth(self.majority - 1).unwrap_or_default()
    }

    /// Whether no majority is left; once true, always true.
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

    /// Makes the lease this long from now on, as [`Guard::extend`] does, at every primary. Extended
    /// when a majority says so; primaries that do not answer keep the shorter of the two leases.
    ///
    /// # Errors
    /// When too few primaries answered for a majority.
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

    /// Gives it back at every primary; [`Release::AlreadyLost`] when no majority had it any more.
    /// Primaries that do not answer are tried again in the background until the lease has ended.
    pub async fn release(self) -> Release {
        let majority = self.majority;
        let was_lost = self.is_lost();
        let released = join_all(self.guards.into_iter().map(Guard::release)).await;
        // One that does not answer still counts: its lease has not ended.
        let good = released.iter().filter(|done| !matches!(done, Ok(Release::AlreadyLost))).count();
        if was_lost || good < majority { Release::AlreadyLost } else { Release::Released }
    }
}
