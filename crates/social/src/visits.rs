//! Visits: page views (PV) and distinct visitors (UV), per day.
//!
//! ```text
//! visits:{NAME:SUBJECT}:pv:20261116   counter
//! visits:{NAME:SUBJECT}:uv:20261116   HyperLogLog, 12 KB at most, 0.81 % standard error
//! ```
//!
//! A range is a union, not a sum: a visitor that comes on two days counts once. PFCOUNT over
//! several keys computes that union, and needs them in one slot. So all days of a subject share its
//! hash tag, and subjects spread over the Cluster.
//!
//! UV is safe to retry after a lost reply, PV is not: it counts every call that arrives, and is
//! never sent twice from here.

use std::time::Duration;

use redis::{Cmd, cmd};
use seawall_client::{
    Handle, KeyPart,
    client::Script,
    error::{Error, Result},
    lifetime,
    member::Member,
};

use super::{
    Day, SLICE,
    template::{Template, beside},
};

/// The longest range.
const MAX_DAYS: usize = 400;

static VISIT: Script = Script::new(include_str!("script/visit.lua"));

impl Visits {
    /// Creates visits with this name.
    #[must_use]
    pub fn new(handle: &Handle, name: impl Into<String>) -> Visits {
        Visits { template: Template::new(handle, "visits", name), lifetime: None }
    }
}

/// Visits of all subjects; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, social::Day};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let home = seawall.visits("page").of("home")?;
/// let (monday, tuesday): (Day, Day) = ("2026-11-16".parse()?, "2026-11-17".parse()?);
/// home.visit(monday, &7_u64).await?;
/// home.visit(tuesday, &7_u64).await?;
/// home.visit(tuesday, &8_u64).await?;
/// assert_eq!(home.views(monday..=tuesday).await?, 3);
/// assert_eq!(home.visitors(monday..=tuesday).await?, 2);
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Visits {
    template: Template,
    lifetime: Option<Duration>,
}

impl Visits {
    /// Sets how long a day is kept after its last visit. Default: forever.
    #[must_use]
    pub fn ttl(mut self, time: Duration) -> Self {
        self.lifetime = Some(time);
        self
    }

    /// Returns the visits of one subject: a page, a shop, the whole site.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the subject is empty or too long, or the lifetime is below a
    /// millisecond or above ten years.
    pub fn of(&self, subject: &(impl KeyPart + ?Sized)) -> Result<VisitsOf> {
        let lifetime = self.lifetime.map(|time| lifetime::millis("ttl", time));
        let lifetime_millis = lifetime.transpose()?.unwrap_or(0);
        let key = self.template.key(subject)?;
        Ok(VisitsOf { template: self.template.clone(), key, lifetime_millis })
    }
}

/// The visits of one subject.
#[derive(Debug, Clone)]
pub struct VisitsOf {
    template: Template,
    key: Vec<u8>,
    lifetime_millis: u64,
}

impl VisitsOf {
    /// Counts one view by a visitor.
    ///
    /// # Errors
    /// If Redis does not answer: the view may have been counted.
    pub async fn visit(&self, day: Day, visitor: &impl Member) -> Result<()> {
        self.visit_all(day, std::slice::from_ref(visitor)).await
    }

    /// Counts one view by each of these visitors, in slices of [`SLICE`].
    ///
    /// # Errors
    /// As [`VisitsOf::visit`], for some of them.
    pub async fn visit_all(&self, day: Day, visitors: &[impl Member]) -> Result<()> {
        for slice in visitors.chunks(SLICE) {
            let keys = [self.day_key("uv", day), self.day_key("pv", day)];
            let mut call = VISIT.on(&keys).arg(self.lifetime_millis);
            for visitor in slice {
                call = call.arg(&*visitor.to_member()?);
            }
            self.template.client().run(&call).await?;
        }
        Ok(())
    }

    /// Returns the number of distinct visitors over these days, with an error of about 0.8 %.
    ///
    /// # Errors
    /// If Redis does not answer; [`Error::Invalid`] for more than 400 days.
    pub async fn visitors(&self, days: std::ops::RangeInclusive<Day>) -> Result<u64> {
        match self.over(days, "PFCOUNT", "uv")? {
            None => Ok(0),
            Some(command) => self.template.client().query(&self.key, &command).await,
        }
    }

    /// Returns the number of views on these days.
    ///
    /// # Errors
    /// As [`VisitsOf::visitors`].
    pub async fn views(&self, days: std::ops::RangeInclusive<Day>) -> Result<u64> {
        let Some(command) = self.over(days, "MGET", "pv")? else { return Ok(0) };
        let counts: Vec<Option<u64>> = self.template.client().query(&self.key, &command).await?;
        Ok(counts.into_iter().flatten().sum())
    }

    /// Returns a command over a range of days, or `None` if the range is empty.
    fn over(
        &self,
        days: std::ops::RangeInclusive<Day>,
        name: &str,
        kind: &'static str,
    ) -> Result<Option<Cmd>> {
        let count = days.end().days_from(*days.start());
        if count > MAX_DAYS {
            return Err(Error::Invalid(format!(
                "{count} days in one range, {MAX_DAYS} are allowed"
            )));
        }
        let mut command = cmd(name);
        let mut day = *days.start();
        for _ in 0..count {
            command.arg(self.day_key(kind, day));
            day = day.next();
        }
        Ok((count > 0).then_some(command))
    }

    fn day_key(&self, kind: &str, day: Day) -> Vec<u8> {
        beside(&self.key, &format!(":{kind}:{day}"))
    }
}
