//! The limiter: Redis decides, and this process decides if Redis is unavailable.
//!
//! Order of one check: a refusal that Redis gave before and that still holds → Redis, unless it is
//! silent for longer than the patience → the local share.
//!
//! If this process is slow itself, a check waits for its answer, or is refused if the answer takes
//! longer than the connection waits. It never falls back to the local share, because Redis goes on
//! admitting the checks that were sent.
//!
//! A check is sent only once: if its reply is lost it may have been charged in Redis, and the local
//! share decides instead. So one call charges at most once in Redis and at most once locally, and
//! is admitted at most once.

use std::{fmt, sync::Arc, time::Duration};

use metrics::Counter;
use seawall_client::{
    Handle,
    client::Client,
    error::{Error, Result},
    key::{KeyPart, with_prefix},
};
use seawall_resilience::clock::{Clock, Moment};

use super::{
    away::{PAUSE, Parts},
    builder::{LimiterBuilder, WhenAway},
    decision::Decision,
    local::Cells,
    policy::{Algorithm, Policy},
};

/// Limits subjects; cheap to clone. See the [module](super) for an example.
#[derive(Clone)]
pub struct Limiter {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    policy: Policy,
    /// `PREFIXlimit:{NAME:`, without its end.
    key_start: Vec<u8>,
    clock: Clock,
    shared: Option<Shared>,
    local: Cells,
    outcomes: Outcomes,
}

struct Shared {
    handle: Handle,
    client: Client,
    algorithm: Algorithm,
    patience: Duration,
    when_away: WhenAway,
    remember: bool,
    parts: Parts,
}

struct Outcomes {
    allowed: Counter,
    limited: Counter,
    /// Refused without a round trip.
    remembered: Counter,
    /// Decided locally because Redis was unavailable.
    stood_in: Counter,
}

impl Limiter {
    /// Creates the limiter from settings that were checked.
    pub(super) fn new(
        settings: LimiterBuilder,
        mut key: Vec<u8>,
        whole: Algorithm,
        share: Algorithm,
    ) -> Self {
        if let Some(end) = key.last_mut() {
            *end = b':';
        }
        let shared = Shared {
            handle: settings.handle.clone(),
            client: settings.handle.client().clone(),
            algorithm: whole,
            patience: settings.patience,
            when_away: settings.when_away,
            remember: settings.remember,
            parts: Parts::new(),
        };
        let inner = Inner {
            outcomes: Outcomes::new(&settings.name),
            name: settings.name,
            policy: settings.policy,
            key_start: key,
            clock: settings.handle.clock().clone(),
            shared: (!settings.local).then_some(shared),
            local: Cells::new(share, settings.subjects, settings.handle.randomness().u64()),
        };
        Limiter { inner: Arc::new(inner) }
    }

    /// Checks whether `subject` may do something of this cost now, and charges it if so.
    ///
    /// A cost of 0 checks without charging.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the subject is empty or too long, or if the cost is never allowed. An
    /// unavailable Redis is not an error: see [`WhenAway`].
    ///
    /// # Cancel safety
    /// A check that is dropped may have been charged.
    pub async fn check(&self, subject: &(impl KeyPart + ?Sized), cost: u64) -> Result<Decision> {
        let key = self.key(subject)?;
        self.decide(&key, cost).await
    }

    /// Resets the usage of a subject, for example after a successful login.
    ///
    /// # Errors
    /// As [`Client::send`]; this process has reset it in any case.
    pub async fn forget(&self, subject: &(impl KeyPart + ?Sized)) -> Result<()> {
        let key = self.key(subject)?;
        self.inner.local.forget(&key);
        if let Some(shared) = &self.inner.shared {
            shared.client.send(&key, redis::cmd("DEL").arg(&key)).await?;
        }
        Ok(())
    }

    /// Returns the policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.inner.policy
    }

    /// Returns the limiter's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    pub(super) fn key(&self, subject: &(impl KeyPart + ?Sized)) -> Result<Vec<u8>> {
        let mut key = with_prefix(&self.inner.key_start, subject)?.as_bytes().to_vec();
        key.push(b'}');
        Ok(key)
    }

    #[tracing::instrument(level = "debug", name = "limit", skip_all, fields(limiter = %self.inner.name))]
    pub(super) async fn decide(&self, key: &[u8], cost: u64) -> Result<Decision> {
        let inner = &*self.inner;
        let most = inner.policy.most();
        if cost > most {
            return Err(Error::Invalid(format!(
                "a cost of {cost} is never allowed: the limiter \"{}\" allows {most} at most",
                inner.name
            )));
        }
        let decision = match &inner.shared {
            None => inner.local_decision(key, cost),
            Some(shared) => inner.shared_decision(shared, key, cost).await?,
        };
        inner.outcomes.count(&decision);
        Ok(decision)
    }
}

impl Inner {
    async fn shared_decision(&self, shared: &Shared, key: &[u8], cost: u64) -> Result<Decision> {
        let now = self.clock.now();
        if shared.remember
            && let Some(wait) = self.local.known_refusal(key, micros(now), cost)
        {
            self.outcomes.remembered.increment(1);
            return Ok(Decision::limited(wait));
        }
        let away = shared.parts.of(&shared.client, key);
        if !away.may_ask(now) {
            return self.without_redis(shared, key, cost);
        }
        let Some(asking) = away.silence.ask(&shared.handle, key, shared.patience) else {
            return self.behind(shared);
        };
        let pulse = || shared.client.pulse(key, false);
        let before = pulse();
        // A lost or replaced connection says nothing about the one that this check waited on.
        let others_were_answered =
            || pulse().zip(before).is_some_and(|(now, before)| now.goes_on_after(before));
        // Boxed: callers nest this future in theirs, and the client's future below it is large.
        let reply = tokio::select! {
            biased;
            reply = Box::pin(self.ask(shared, key, cost)) => reply,
            () = asking.silence() => Err(Error::Indeterminate {
                waited: shared.patience,
                cause: "Redis was silent for the limiter's patience".into(),
            }),
        };
        drop(asking);
        match reply {
            Ok(decision) => {
                if away.answered() {
                    tracing::info!(limiter = %self.name, "Redis decides again");
                }
                self.note(key, cost, &decision, micros(now));
                Ok(decision)
            }
            Err(Error::Closed) => Err(Error::Closed),
            // While this check waited for the full response timeout.
            Err(Error::Indeterminate { waited, .. })
                if waited >= shared.client.response_timeout() && others_were_answered() =>
            {
                tracing::debug!(limiter = %self.name, "refused: this process is behind");
                self.behind(shared)
            }
            // Unavailable, full, or a key of another type: in every case the limit holds.
            Err(error) => {
                if away.failed(self.clock.now()) {
                    tracing::warn!(limiter = %self.name, %error, "deciding without Redis");
                }
                self.without_redis(shared, key, cost)
            }
        }
    }

    /// Decides strictly if answers take too long because this process is slow.
    fn behind(&self, shared: &Shared) -> Result<Decision> {
        match shared.when_away {
            WhenAway::LocalShare | WhenAway::Refuse => Ok(Decision::Limited { retry_after: PAUSE }),
            WhenAway::Fail => {
                Err(Error::Unavailable("too many checks of this process wait for Redis".into()))
            }
        }
    }

    async fn ask(&self, shared: &Shared, key: &[u8], cost: u64) -> Result<Decision> {
        let call = match &shared.algorithm {
            Algorithm::Gcra(rate) => rate.call(key, cost),
            Algorithm::Window(window) => window.call(key, cost),
        };
        let reply: Vec<u64> = shared.client.eval(&call).await?;
        match *reply {
            [1, remaining, reset] => Ok(Decision::allowed(remaining, reset)),
            [0, retry_after] => Ok(Decision::limited(retry_after)),
            _ => Err(Error::unexpected(format!("{reply:?} is not a limiter's answer"))),
        }
    }

    /// Remembers the answer of Redis to a check of that time.
    ///
    /// The time is from before the round trip, so a remembered refusal never lasts longer than the
    /// real one.
    fn note(&self, key: &[u8], cost: u64, decision: &Decision, now: u64) {
        match decision {
            Decision::Allowed { .. } if cost > 0 => self.local.charge(key, now, cost),
            Decision::Allowed { .. } => {}
            Decision::Limited { retry_after } => {
                let wait = u64::try_from(retry_after.as_micros()).unwrap_or(u64::MAX);
                self.local.refuse(key, now, cost, wait);
            }
        }
    }

    fn without_redis(&self, shared: &Shared, key: &[u8], cost: u64) -> Result<Decision> {
        self.outcomes.stood_in.increment(1);
        match shared.when_away {
            WhenAway::LocalShare => Ok(self.local_decision(key, cost)),
            WhenAway::Refuse => Ok(Decision::Limited { retry_after: PAUSE }),
            WhenAway::Fail => {
                Err(Error::Unavailable("Redis is away, and this limit has no other judge".into()))
            }
        }
    }

    fn local_decision(&self, key: &[u8], cost: u64) -> Decision {
        self.local.check(key, micros(self.clock.now()), cost)
    }
}

impl Outcomes {
    fn new(name: &str) -> Self {
        let outcome = |outcome: &'static str| metrics::counter!("seawall_limit_decisions_total", "limiter" => name.to_owned(), "outcome" => outcome);
        Outcomes {
            allowed: outcome("allowed"),
            limited: outcome("limited"),
            remembered: metrics::counter!("seawall_limit_remembered_total", "limiter" => name.to_owned()),
            stood_in: metrics::counter!("seawall_limit_without_redis_total", "limiter" => name.to_owned()),
        }
    }

    fn count(&self, decision: &Decision) {
        match decision {
            Decision::Allowed { .. } => self.allowed.increment(1),
            Decision::Limited { .. } => self.limited.increment(1),
        }
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("name", &self.inner.name)
            .field("policy", &self.inner.policy)
            .finish_non_exhaustive()
    }
}

fn micros(moment: Moment) -> u64 {
    moment.as_nanos() / 1_000
}
