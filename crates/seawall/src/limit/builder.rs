//! Settings of a limiter, checked when it is built.

use std::time::Duration;

use seawall_client::{
    Handle,
    error::{Error, Result},
};

use super::{Limiter, policy::Policy};

/// What a limiter does while Redis is unavailable. None of the choices lets everything pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WhenAway {
    /// A local limiter with this process's share of the limit decides.
    #[default]
    LocalShare,
    /// Everything is refused: for logins and purchases.
    Refuse,
    /// Returns [`Error::Unavailable`], for callers that distinguish "too often" from "not now".
    Fail,
}

impl Limiter {
    /// Returns a builder for a limiter.
    ///
    /// The name is part of its keys; the policy is a [`Rate`](super::Rate) or a
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
    /// Sets the number of processes that share the limit. Default: 1.
    ///
    /// While Redis is unavailable each of them allows this share of the limit, but at least one at
    /// a time.
    #[must_use]
    pub fn instances(mut self, count: u32) -> Self {
        self.instances = count;
        self
    }

    /// Never asks Redis: the limit (or its share, see [`LimiterBuilder::instances`]) applies to
    /// this process alone.
    #[must_use]
    pub fn local(mut self) -> Self {
        self.local = true;
        self
    }

    /// Sets what happens while Redis is unavailable. Default: [`WhenAway::LocalShare`].
    #[must_use]
    pub fn when_away(mut self, choice: WhenAway) -> Self {
        self.when_away = choice;
        self
    }

    /// Sets how long Redis may be silent before checks are decided locally. Default: 250 ms.
    ///
    /// If Redis answers other checks and only this process is slow, a check waits for its answer up
    /// to the response timeout of the handle.
    #[must_use]
    pub fn redis_timeout(mut self, limit: Duration) -> Self {
        self.patience = limit;
        self
    }

    /// Asks Redis each time, even about subjects that it refused a moment ago.
    ///
    /// By default a refusal is remembered for as long as Redis said that it holds. Then a
    /// [`Limiter::forget`] in another process takes that long to have an effect here.
    #[must_use]
    pub fn ask_always(mut self) -> Self {
        self.remember = false;
        self
    }

    /// Sets the number of subjects for which this process keeps a meter. Default: 65,536.
    ///
    /// Subjects beyond that share one meter while Redis is unavailable.
    #[must_use]
    pub fn subjects(mut self, count: usize) -> Self {
        self.subjects = count;
        self
    }

    /// Builds the limiter.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that is out of range.
    pub fn build(self) -> Result<Limiter> {
        let whole = self.policy.algorithm(1)?;
        let share = self.policy.algorithm(self.instances)?;
        if self.patience.is_zero() {
            return Err(Error::Invalid("redis_timeout is zero: Redis could never answer".into()));
        }
        if self.subjects == 0 {
            return Err(Error::Invalid("subjects is 0: all of them would share one meter".into()));
        }
        let key = self.handle.key("limit", &self.name)?;
        Ok(Limiter::new(self, key, whole, share))
    }
}
