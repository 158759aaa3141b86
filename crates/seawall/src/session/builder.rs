//! Settings of sessions, checked when they are built.

use std::{marker::PhantomData, time::Duration};

use seawall_client::{
    Handle,
    error::{Error, Result},
    lifetime::LONGEST,
    member::Member,
};

use super::Sessions;

impl<M: Member> Sessions<M> {
    /// Returns a builder for sessions with this name.
    #[must_use]
    pub fn builder(handle: &Handle, name: impl Into<String>) -> SessionsBuilder<M> {
        SessionsBuilder {
            handle: handle.clone(),
            name: name.into(),
            idle: Duration::from_secs(30 * 60),
            longest: Duration::from_secs(7 * 24 * 3600),
            slides: 8,
            most: 100,
            user: PhantomData,
        }
    }
}

/// Settings of [`Sessions`].
#[derive(Debug, Clone)]
pub struct SessionsBuilder<M> {
    pub(super) handle: Handle,
    pub(super) name: String,
    pub(super) idle: Duration,
    pub(super) longest: Duration,
    pub(super) slides: u32,
    pub(super) most: usize,
    user: PhantomData<fn(M) -> M>,
}

impl<M: Member> SessionsBuilder<M> {
    /// Sets how long a session lives without being read. Default: 30 minutes.
    #[must_use]
    pub fn idle_ttl(mut self, time: Duration) -> Self {
        self.idle = time;
        self
    }

    /// Sets the longest lifetime of a session. Default: 7 days.
    #[must_use]
    pub fn max_ttl(mut self, time: Duration) -> Self {
        self.longest = time;
        self
    }

    /// Sets how often a session is extended at most in one idle time. Default: 8.
    ///
    /// A read extends the session only if the last extension is at least `idle_ttl / slides` ago.
    #[must_use]
    pub fn slides(mut self, count: u32) -> Self {
        self.slides = count;
        self
    }

    /// Sets the number of sessions per user; opening one more ends the oldest. Default: 100.
    #[must_use]
    pub fn max_per_user(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Builds the sessions.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that is out of range.
    pub fn build(self) -> Result<Sessions<M>> {
        if self.idle < Duration::from_millis(10) || self.longest < self.idle {
            return Err(Error::Invalid(format!(
                "sessions: idle_ttl is {:?} and max_ttl {:?}: at least 10 ms, and not less than idle_ttl",
                self.idle, self.longest
            )));
        }
        if self.longest > LONGEST {
            return Err(Error::Invalid(format!(
                "sessions: max_ttl is {:?}, the most is ten years",
                self.longest
            )));
        }
        if self.slides < 2 || self.most == 0 || self.most > 1000 {
            return Err(Error::Invalid(
                "sessions: slides is at least 2 (with 1 a session is extended only when it has ended), \
                 per_user 1 to 1,000"
                    .into(),
            ));
        }
        self.handle.needs_every_key("sessions");
        Ok(Sessions::new(self))
    }
}
