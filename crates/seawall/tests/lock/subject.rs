//! A lock of any kind behind one face, for trials that treat all kinds alike.

use std::time::Duration;

use seawall::{
    Error, Seawall,
    lock::{
        AcquireOutcome, Extension, Guard, Lock, MultiAcquireOutcome, MultiGuard, OwnerId,
        QuorumAcquireOutcome, QuorumGuard, Release, Token,
    },
};

/// Permits of the semaphore.
const PERMITS: u32 = 2;
/// More readers than there ever are.
const READERS: u32 = 1000;

/// What kind of lock is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Mutex,
    Fair,
    ReadWrite,
    Semaphore,
    Quorum,
    Multi,
}

impl Kind {
    pub(crate) const ALL: [Kind; 6] =
        [Kind::Mutex, Kind::Fair, Kind::ReadWrite, Kind::Semaphore, Kind::Quorum, Kind::Multi];

    pub(crate) fn named(name: &str) -> Self {
        let found = Kind::ALL.into_iter().find(|kind| format!("{kind:?}") == name);
        found.expect("a kind's name")
    }

    /// How much weight may be held at once.
    pub(crate) fn capacity(self) -> u32 {
        match self {
            Kind::Semaphore => PERMITS,
            Kind::ReadWrite => READERS,
            _ => 1,
        }
    }

    /// The keys in which a hold of this weight has its end, at each server.
    pub(crate) fn end_keys(self, name: &str, weight: u32) -> Vec<String> {
        match self {
            Kind::Mutex => vec![format!("lock:{{{name}}}")],
            Kind::Fair => vec![format!("fair:{{{name}}}")],
            Kind::ReadWrite if weight == READERS => vec![format!("rw:{{{name}}}")],
            Kind::ReadWrite => vec![format!("rw:{{{name}}}:readers")],
            Kind::Semaphore => vec![format!("semaphore:{{{name}}}")],
            Kind::Quorum => vec![format!("quorum:{{{name}}}")],
            Kind::Multi => parts(name).iter().map(|part| format!("lock:{{{part}}}")).collect(),
        }
    }
}

/// The names of a multi-lock.
fn parts(name: &str) -> [String; 3] {
    ["1", "2", "3"].map(|part| format!("{name}.{part}"))
}

/// How a lock is to be held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) lease: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) fixed: bool,
}

/// A lock and the handles through which it is reached: one, or one for each primary of a quorum.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) handles: Vec<Seawall>,
}

impl Subject {
    pub(crate) fn new(kind: Kind, name: &str, handles: Vec<Seawall>) -> Self {
        Subject { kind, name: name.to_owned(), handles }
    }

    /// Tries once without a time, and waits at most so long with one.
    pub(crate) async fn acquire(
        &self,
        settings: Settings,
        shared: bool,
        within: Option<Duration>,
    ) -> Result<Option<Held>, Error> {
        let (handle, name) = (&self.handles[0], self.name.as_str());
        let lock = match self.kind {
            Kind::Mutex => handle.lock(name),
            Kind::Fair => handle.fair_lock(name),
            Kind::ReadWrite if shared => handle.rw_lock(name).read(),
            Kind::ReadWrite => handle.rw_lock(name).write(),
            Kind::Semaphore => handle.semaphore(name, PERMITS),
            Kind::Quorum => return self.acquire_quorum(settings, within).await,
            Kind::Multi => return self.acquire_several(settings, within).await,
        };
        let weight = match self.kind {
            Kind::ReadWrite if !shared => READERS,
            _ => 1,
        };
        let attempt = acquire_one(lock, settings, within).await?;
        Ok(attempt.acquired().map(|guard| {
            let owner = guard.owner().to_string();
            Held { grip: Grip::One(guard), weight, owner, fixed: settings.fixed }
        }))
    }

    async fn acquire_several(
        &self,
        settings: Settings,
        within: Option<Duration>,
    ) -> Result<Option<Held>, Error> {
        let owner = OwnerId::random();
        let several = self.handles[0].multi_lock(parts(&self.name)).owner(owner);
        let several = several.lease_ttl(settings.lease).poll_interval(settings.poll_interval);
        let attempt = match within {
            None => several.try_acquire().await?,
            Some(within) => several.acquire(within).await?,
        };
        let held = |guard| Held {
            grip: Grip::Several(guard),
            weight: 1,
            owner: owner.to_string(),
            fixed: false,
        };
        Ok(MultiAcquireOutcome::acquired(attempt).map(held))
    }

    async fn acquire_quorum(
        &self,
        settings: Settings,
        within: Option<Duration>,
    ) -> Result<Option<Held>, Error> {
        let lock = Seawall::quorum_lock(&self.handles, self.name.as_str())?;
        let lock = lock.lease_ttl(settings.lease).poll_interval(settings.poll_interval);
        let attempt = match within {
            None => lock.try_acquire().await?,
            Some(within) => lock.acquire(within).await?,
        };
        let held = |guard| Held {
            grip: Grip::Quorum(guard),
            weight: 1,
            owner: String::new(),
            fixed: false,
        };
        Ok(QuorumAcquireOutcome::acquired(attempt).map(held))
    }
}

async fn acquire_one(
    lock: Lock,
    settings: Settings,
    within: Option<Duration>,
) -> Result<AcquireOutcome, Error> {
    let mut lock = lock.lease_ttl(settings.lease).poll_interval(settings.poll_interval);
    if settings.fixed {
        lock = lock.fixed();
    }
    match within {
        None => lock.try_acquire().await,
        Some(within) => lock.acquire(within).await,
    }
}

enum Grip {
    One(Guard),
    Several(MultiGuard),
    Quorum(QuorumGuard),
}

/// A lock that is held.
pub(crate) struct Held {
    grip: Grip,
    pub(crate) weight: u32,
    /// Who the server knows it by; empty when that cannot be told.
    pub(crate) owner: String,
    /// Whether nobody renews it.
    pub(crate) fixed: bool,
}

impl Held {
    pub(crate) fn token(&self) -> Token {
        match &self.grip {
            Grip::One(guard) => guard.token(),
            Grip::Several(guard) => guard.tokens()[0],
            Grip::Quorum(guard) => guard.token(),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        match &self.grip {
            Grip::One(guard) => guard.is_lost(),
            Grip::Several(guard) => guard.is_lost(),
            Grip::Quorum(guard) => guard.is_lost(),
        }
    }

    pub(crate) fn valid_for(&self) -> Duration {
        match &self.grip {
            Grip::One(guard) => guard.valid_for(),
            Grip::Several(guard) => guard.valid_for(),
            Grip::Quorum(guard) => guard.valid_for(),
        }
    }

    pub(crate) async fn lost(&self) {
        match &self.grip {
            Grip::One(guard) => guard.lost().await,
            Grip::Several(guard) => guard.lost().await,
            Grip::Quorum(guard) => guard.lost().await,
        }
    }

    pub(crate) async fn extend(&self, lease: Duration) -> Result<Extension, Error> {
        match &self.grip {
            Grip::One(guard) => guard.extend(lease).await,
            Grip::Several(guard) => guard.extend(lease).await,
            Grip::Quorum(guard) => guard.extend(lease).await,
        }
    }

    pub(crate) async fn release(self) -> Result<Release, Error> {
        match self.grip {
            Grip::One(guard) => guard.release().await,
            Grip::Several(guard) => guard.release().await,
            Grip::Quorum(guard) => Ok(guard.release().await),
        }
    }
}
