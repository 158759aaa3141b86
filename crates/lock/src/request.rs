//! Lock options and requests, and the calls that acquire, renew and release them.
//!
//! [`LockOptions`] are the settings of a [`Lock`](super::Lock): its kind, its keys, its lease. A
//! [`LockRequest`] is one attempt to acquire it, with the ids by which the server knows it. All
//! kinds answer in the same form, so waiting, renewing and losing are implemented once.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, Value, cmd};
use seawall_client::{
    client::{Script, ScriptInvocation},
    error::{Error, Result},
};
use seawall_resilience::{clock::millis, random::Randomness};

use super::{
    owner::{HoldId, OwnerId},
    token::Token,
};

/// Shortest and longest lease. A shorter lease would be used up by the margin and one round trip;
/// with a longer one a crash would practically never be noticed.
const SHORTEST_LEASE: Duration = Duration::from_millis(20);
const LONGEST_LEASE: Duration = Duration::from_secs(24 * 3600);
/// Longest interval between attempts, and longest wait for replicas: longer than is useful, and far
/// from an overflow of times.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 3600);
/// Shortest wait for replicas: WAIT treats zero as no limit.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// A place in a queue expires after this many poll intervals without a new attempt by its owner,
/// but not before the minimum time: even an early attempt takes time.
const LOOKS_BEFORE_FORGOTTEN: u32 = 3;
const SHORTEST_PLACE: Duration = Duration::from_millis(500);

/// Error code for a key that holds something else.
const FOREIGN: &str = "WRONGTYPE";

macro_rules! scripts {
    ($($name:ident = $($file:literal)+;)*) => {$(
        static $name: Script = Script::with_time(concat!($(include_str!($file)),+));
    )*};
}
scripts! {
    MUTEX_ACQUIRE = "mutex_acquire.lua" "token.lua" "owned.lua" "foreign.lua" "mutex_reenter.lua";
    MUTEX_RELEASE =
        "mutex_release.lua" "token.lua" "owned.lua" "leave.lua" "mutex_leave.lua";
    FAIR_ACQUIRE = "token.lua" "owned.lua" "foreign.lua" "fair_acquire.lua";
    FAIR_RELEASE = "token.lua" "owned.lua" "leave.lua" "fair_release.lua";
    READ_ACQUIRE = "token.lua" "foreign.lua" "read_acquire.lua";
    WRITE_ACQUIRE = "token.lua" "owned.lua" "foreign.lua" "write_acquire.lua";
    RW_RELEASE = "token.lua" "owned.lua" "leave.lua" "rw_release.lua";
    SEMAPHORE_ACQUIRE = "token.lua" "foreign.lua" "semaphore_acquire.lua";
    RENEW = "token.lua" "owned.lua" "lease.lua" "renew.lua";
    EXTEND = "token.lua" "owned.lua" "lease.lua" "extend.lua";
    FENCE_RAISE = "token.lua" "fence_raise.lua";
}

static SEMAPHORE_RELEASE: Script = Script::new(include_str!("semaphore_release.lua"));

/// The kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Mutex,
    Fair,
    Read,
    Write,
    Semaphore { permits: u32 },
}

/// Acknowledgements by replicas that an acquisition waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replicas {
    pub(super) count: u32,
    pub(super) limit: Duration,
}

/// All settings of a lock.
#[derive(Debug, Clone)]
pub(super) struct LockOptions {
    pub(super) kind: Kind,
    /// The key from which the other keys are derived; also the channel on which a release is
    /// published.
    pub(super) key: Arc<[u8]>,
    pub(super) lease_ttl: Duration,
    /// `true` if the lease is renewed until the lock is released.
    pub(super) renewed: bool,
    /// Maximum interval between attempts while waiting.
    pub(super) poll_interval: Duration,
    pub(super) replicas: Option<Replicas>,
}

impl LockOptions {
    /// Validates the options.
    pub(super) fn check(&self) -> Result<()> {
        if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&self.lease_ttl) {
            return Err(Error::Invalid(format!(
                "lease_ttl is {:?}: it must be between {SHORTEST_LEASE:?} and {LONGEST_LEASE:?}",
                self.lease_ttl
            )));
        }
        if self.poll_interval.is_zero() || self.poll_interval > LONGEST_PAUSE {
            return Err(Error::Invalid(format!(
                "poll_interval is {:?}: it must be above zero and at most {LONGEST_PAUSE:?}",
                self.poll_interval
            )));
        }
        if let Some(Replicas { limit, .. }) = self.replicas
            && !(SHORTEST_WAIT..=LONGEST_PAUSE).contains(&limit)
        {
            return Err(Error::Invalid(format!(
                "replicas are waited for {limit:?}: it must be between {SHORTEST_WAIT:?} and \
                 {LONGEST_PAUSE:?}"
            )));
        }
        if self.kind == (Kind::Semaphore { permits: 0 }) {
            return Err(Error::Invalid("a semaphore without permits never opens".into()));
        }
        Ok(())
    }

    /// Adds the name of the lock's key to an error about a key that is not a lock's.
    pub(super) fn named(&self, error: Error) -> Error {
        match error {
            Error::Refused { code, message } if &*code == FOREIGN => {
                let key = self.key.escape_ascii();
                let message = format!("{key}, or a key beside it, is not a lock's: {message}");
                Error::Refused { code, message: message.into() }
            }
            error => error,
        }
    }

    fn suffixed(&self, suffix: &str) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.key.len() + 1 + suffix.len());
        key.extend_from_slice(&self.key);
        key.push(b':');
        key.extend_from_slice(suffix.as_bytes());
        key
    }
}

/// The server's answer to an attempt.
#[derive(Debug)]
pub(super) enum Answer {
    Held(Token),
    Busy { free_in: Duration },
}

impl Answer {
    pub(super) fn is_held(&self) -> bool {
        matches!(self, Answer::Held(_))
    }

    pub(super) fn read(reply: Value) -> Result<Self> {
        let numbers: Vec<i64> = redis::from_redis_value(reply)?;
        let natural = |number: i64| u64::try_from(number).unwrap_or(0);
        match numbers.as_slice() {
            [1, epoch, sequence] => {
                Ok(Answer::Held(Token { epoch: natural(*epoch), sequence: natural(*sequence) }))
            }
            [0, free_in] => Ok(Answer::Busy { free_in: Duration::from_millis(natural(*free_in)) }),
            _ => Err(Error::unexpected("a lock's script answered in another form")),
        }
    }
}

/// One attempt to acquire a lock.
#[derive(Debug, Clone)]
pub(super) struct LockRequest {
    pub(super) options: Arc<LockOptions>,
    pub(super) owner: OwnerId,
    owner_text: String,
    hold: String,
}

impl LockRequest {
    pub(super) fn new(
        options: Arc<LockOptions>,
        owner: Option<OwnerId>,
        randomness: &Randomness,
    ) -> Self {
        let owner = owner.unwrap_or_else(|| OwnerId::draw(randomness));
        let (owner_text, hold) = (owner.to_string(), HoldId::draw(randomness).to_string());
        LockRequest { options, owner, owner_text, hold }
    }

    /// Returns the same request, with the same ids, for another server.
    pub(super) fn elsewhere(&self, options: Arc<LockOptions>) -> Self {
        LockRequest { options, ..self.clone() }
    }

    /// Returns the call that acquires the lock. Without `waits`, a refused attempt leaves nothing
    /// behind; with it, the attempt may leave a place in a queue, which [`LockRequest::release`]
    /// gives up.
    pub(super) fn acquire(&self, waits: bool) -> ScriptInvocation {
        let options = &*self.options;
        let lease_ms = millis(options.lease_ttl);
        let place = (options.poll_interval * LOOKS_BEFORE_FORGOTTEN).max(SHORTEST_PLACE);
        let place_ms = if waits { millis(place) } else { 0 };
        let suffixed = |suffix| options.suffixed(suffix);
        let key = options.key.to_vec();
        let begin = |script: &'static Script, keys: &[Vec<u8>]| {
            script.on(keys).arg(&self.owner_text).arg(&self.hold).arg(lease_ms)
        };
        match options.kind {
            Kind::Mutex => begin(&MUTEX_ACQUIRE, &[key, suffixed("holds"), suffixed("fence")]),
            Kind::Fair => {
                let [holds, fence] = [suffixed("holds"), suffixed("fence")];
                let keys = [key, holds, fence, suffixed("queue"), suffixed("alive")];
                begin(&FAIR_ACQUIRE, &keys).arg(place_ms)
            }
            Kind::Read => {
                let keys = [key, suffixed("fence"), suffixed("readers"), suffixed("waiting")];
                begin(&READ_ACQUIRE, &keys)
            }
            Kind::Write => {
                let [holds, fence] = [suffixed("holds"), suffixed("fence")];
                let keys = [key, holds, fence, suffixed("readers"), suffixed("waiting")];
                begin(&WRITE_ACQUIRE, &keys).arg(place_ms)
            }
            Kind::Semaphore { permits } => {
                begin(&SEMAPHORE_ACQUIRE, &[key, suffixed("fence")]).arg(permits)
            }
        }
    }

    /// Returns the call that releases the lock or gives up waiting for it; harmless if neither
    /// applies.
    pub(super) fn release(&self) -> ScriptInvocation {
        let options = &*self.options;
        let suffixed = |suffix| options.suffixed(suffix);
        let key = options.key.to_vec();
        let call = match options.kind {
            Kind::Mutex => MUTEX_RELEASE.on(&[key, suffixed("holds")]),
            Kind::Fair => {
                FAIR_RELEASE.on(&[key, suffixed("holds"), suffixed("queue"), suffixed("alive")])
            }
            Kind::Read | Kind::Write => {
                let [readers, waiting] = [suffixed("readers"), suffixed("waiting")];
                RW_RELEASE.on(&[key, suffixed("holds"), readers, waiting])
            }
            Kind::Semaphore { .. } => SEMAPHORE_RELEASE.on(&[key]),
        };
        call.arg(&self.owner_text).arg(&self.hold)
    }

    /// Returns the keys that contain the end of the hold, and the name of their shape.
    fn ends(&self) -> ([Vec<u8>; 2], &'static str) {
        let options = &*self.options;
        match options.kind {
            Kind::Mutex | Kind::Fair | Kind::Write => {
                ([options.key.to_vec(), options.suffixed("holds")], "owned")
            }
            Kind::Read => ([options.suffixed("readers"), options.suffixed("readers")], "member"),
            Kind::Semaphore { .. } => ([options.key.to_vec(), options.key.to_vec()], "member"),
        }
    }

    /// Returns the key of the permission to shorten the lease of this hold.
    fn permission_key(&self) -> Vec<u8> {
        self.options.suffixed(&format!("shorten:{}", self.hold))
    }

    /// Returns the command that permits one shortening within this time.
    pub(super) fn permit(&self, permission: &str, within: Duration) -> (Vec<u8>, Cmd) {
        let key = self.permission_key();
        let mut command = cmd("SET");
        command.arg(&key).arg(permission).arg("PX").arg(millis(within).max(1));
        (key, command)
    }

    /// Returns the call that changes the lease. Without a permission it can only become longer;
    /// with one it is set exactly.
    pub(super) fn extend(&self, lease: Duration, permission: &str) -> ScriptInvocation {
        let ([key, beside], shape) = self.ends();
        let call = EXTEND.on(&[key, beside, self.permission_key()]);
        call.arg(shape).arg(&self.owner_text).arg(&self.hold).arg(millis(lease)).arg(permission)
    }

    /// Returns the call after which the server issues no token up to and including this one.
    pub(super) fn raise_fence(&self, token: Token) -> ScriptInvocation {
        FENCE_RAISE.on(&[self.options.suffixed("fence")]).arg(token.epoch).arg(token.sequence)
    }

    /// Returns `true` if a refused attempt that `waits` leaves an entry at the server.
    pub(super) fn queues_at_server(&self) -> bool {
        matches!(self.options.kind, Kind::Fair | Kind::Write)
    }

    /// Returns the key of the line in which requests of this process wait, or `None` if the queue
    /// is at the server.
    pub(super) fn line(&self) -> Option<Arc<[u8]>> {
        match self.options.kind {
            Kind::Fair => None,
            Kind::Read => Some(self.options.suffixed("readers").into()),
            _ => Some(Arc::clone(&self.options.key)),
        }
    }

    /// Returns `true` if a message on the lock's channel is for this request.
    pub(super) fn is_called(&self, message: &[u8]) -> bool {
        if self.options.kind != Kind::Fair {
            return true;
        }
        let (owner, hold) = (self.owner_text.as_bytes(), self.hold.as_bytes());
        message.strip_prefix(owner).and_then(|rest| rest.strip_prefix(b":")) == Some(hold)
    }
}

/// Returns the call that renews these holds, each for its lease.
pub(super) fn renew(holds: &[(&LockRequest, Duration)]) -> ScriptInvocation {
    let mut keys = Vec::with_capacity(holds.len() * 2);
    let mut shapes = Vec::with_capacity(holds.len());
    for (request, _) in holds {
        let (ends, shape) = request.ends();
        keys.extend(ends);
        shapes.push(shape);
    }
    holds.iter().zip(shapes).fold(RENEW.on(&keys), |call, ((request, lease), shape)| {
        call.arg(shape).arg(&request.owner_text).arg(&request.hold).arg(millis(*lease))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Creates a request for a mutex, for tests that need no server.
    pub(crate) fn mutex(key: &[u8], lease: Duration) -> LockRequest {
        let options = LockOptions {
            kind: Kind::Mutex,
            key: key.into(),
            lease_ttl: lease,
            renewed: true,
            poll_interval: Duration::from_secs(1),
            replicas: None,
        };
        LockRequest::new(Arc::new(options), None, &Randomness::seeded(7))
    }

    #[test]
    fn leases_that_make_no_sense_are_named() {
        for lease in [Duration::ZERO, Duration::from_millis(19), Duration::from_hours(25)] {
            let error = mutex(b"k", lease).options.check().expect_err("refused").to_string();
            assert!(error.contains("lease") && error.contains("20ms"), "{error}");
        }
    }

    #[test]
    fn answers_of_another_form_are_errors() {
        assert!(Answer::read(Value::Array(vec![Value::Int(2)])).is_err());
        assert!(Answer::read(Value::Nil).is_err());
        let busy = Answer::read(Value::Array(vec![Value::Int(0), Value::Int(-1)]));
        assert!(matches!(busy, Ok(Answer::Busy { free_in }) if free_in.is_zero()));
    }
}
