//! Settings of a limiter, checked when it is built.

use std::time::Duration;

use seawall_client::{
    Handle,
    error::{Error, Result},
};

use super::{Limiter, policy::Policy};

/// What a limiter does while Redis is away. Nothing of it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WhenAway {
    /// A local limiter with this process's share of the limit.
    #[default]
    LocalShare,
    /// Everything is refused: for logins and purchases.
    Refuse,
    /// [`Error::Unavailable`], for those who want to tell "too often" from "not now".
    Fail,
}

impl Limiter {
    /// Begins a limiter: its name is part of its keys, its policy a [`Rate`](super::Rate) or a
    /// [`Window`](super::Window). All processes that use the name must use the same policy.
    #[must_use]
    pub fn builder(
        handle: &Handle,
        name: impl Into<String>,
        policy: impl Into<Policy>,
    ) -> LimiterBuilder {
        LimiterBuilder {
            handle: handle.clone(),
            name: name.into(),
            policy: policy.into(),
            instances: 1,
            local: false,
            when_away: WhenAway::default(),
            patience: Duration::from_millis(250),
            remember: true,
            subjects: 65_536,
        }
    }
}

/// Settings of a [`Limiter`].
#[derive(Debug, Clone)]
pub struct LimiterBuilder {
    pub(super) handle: Handle,
    pub(super) name: String,
    pub(super) policy: Policy,
    instances: u32,
    pub(super) local: bool,
    pub(super) when_away: WhenAway,
    pub(super) patience: Duration,
    pub(super) remember: bool,
    pub(super) subjects: usize,
}

impl LimiterBuilder {
    /// How many processes share the limit; 1 without it. When Redis is away each of them allows this
    /// part of it, but at least one at a time.
    #[must_use]
    pub fn instances(mut self, count: u32) -> Self {
        self.instances = count;
        self
    }

    /// Never asks Redis: the limit (or its share, see [`LimiterBuilder::instances`]) holds in this
    /// process.
    #[must_use]
    pub fn local(mut self) -> Self {
        self.local = true;
        self
    }

    /// What happens while Redis is away; the local share without it.
    #[must_use]
    pub fn when_away(mut self, choice: WhenAway) -> Self {
        self.when_away = choice;
        self
    }

    /// How long Redis may be silent before checks are decided here. Default: 250 ms. While Redis answers
    /// other checks, one that is behind in this process waits for its answer, until the response time-out
    /// of the handle.
    #[must_use]
    pub fn patience(mut self, limit: Duration) -> Self {
        self.patience = limit;
        self
    }

    /// Asks Redis each time, also about subjects that it refused a moment ago. Without this a
    /// refusal is remembered for as long as Redis said that it holds: [`Limiter::forget`] in another
    /// process then takes that long to be noticed here.
    #[must_use]
    pub fn ask_always(mut self) -> Self {
        self.remember = false;
        self
    }

    /// For how many subjects this process keeps a meter; 65,536 without it. Subjects beyond that
    /// share one while Redis is away.
    #[must_use]
    pub fn subjects(mut self, count: usize) -> Self {
        self.subjects = count;
        self
    }

    /// Builds it.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that makes no sense.
    pub fn build(self) -> Result<Limiter> {
        let whole = self.policy.algorithm(1)?;
        let share = self.policy.algorithm(self.instances)?;
        if self.patience.is_zero() {
            return Err(Error::Invalid("patience is zero: Redis could never answer".into()));
        }
        if self.subjects == 0 {
            return Err(Error::Invalid("subjects is 0: all of them would share one meter".into()));
        }
        let key = self.handle.key("limit", &self.name)?;
        Ok(Limiter::new(self, key, whole, share))
    }
}
