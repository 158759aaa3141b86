//! Page views (PV) and unique visitors (UV), by day of the business zone.
//!
//! A view is put into a bounded queue and counted later, in batches: a request neither waits for
//! Redis nor fails with it. If the queue is full, or Redis does not accept a batch, views are lost,
//! and that is counted. A batch is not sent again, because its views may have been counted before
//! the reply was lost.
//!
//! A visitor is a user, or else a digest of address and browser: there is no cookie, and the only
//! trace of a guest is in a HyperLogLog. So a guest who logs in counts as two visitors that day,
//! and guests with the same browser behind one address count as one.

pub(crate) mod http;
mod jobs;

use std::{
    net::IpAddr,
    ops::RangeInclusive,
    sync::{Mutex, PoisonError},
};

use seawall::social::{Day, VisitsOf};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use crate::{
    app::Context,
    error::{Error, Result},
    jobs::Jobs,
    keys,
};

/// Maximum views waiting to be counted.
const QUEUE: usize = 20_000;
/// Maximum range of days.
const MAX_DAYS: usize = 366;
/// Hexadecimal digits of a guest's digest: 64 bits are plenty for counting.
const GUEST_CHARS: usize = 16;

/// Id of a visitor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Visitor(String);

impl Visitor {
    /// Creates the id of a logged-in user.
    pub(crate) fn user(id: u64) -> Self {
        Visitor(format!("u{id}"))
    }

    /// Creates the id of a guest.
    pub(crate) fn guest(address: IpAddr, agent: &[u8]) -> Self {
        let mut digest = Sha256::new();
        digest.update(address.to_string());
        digest.update([0]);
        digest.update(agent);
        let hex: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Visitor(format!("g{}", &hex[..GUEST_CHARS]))
    }
}

/// One view, with its day.
#[derive(Debug)]
struct View {
    day: Day,
    visitor: Visitor,
}

/// Counts views, and reports their numbers.
#[derive(Debug)]
pub struct Stats {
    context: Context,
    site: VisitsOf,
    queue: mpsc::Sender<View>,
    /// Held here until the job takes it.
    waiting: Mutex<Option<mpsc::Receiver<View>>>,
}

impl Stats {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        let (queue, waiting) = mpsc::channel(QUEUE);
        Ok(Stats {
            site: site(context)?,
            context: context.clone(),
            queue,
            waiting: Mutex::new(Some(waiting)),
        })
    }

    /// Starts counting queued views.
    pub(crate) fn start(&self, jobs: &mut Jobs) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waiting) = waiting {
            let site = self.site.clone();
            jobs.spawn("page views", |stop| jobs::count(site, waiting, stop));
        }
    }

    /// Queues a view for counting; never waits and never fails.
    pub(crate) fn view(&self, visitor: Visitor) {
        let view = View { day: self.context.today(), visitor };
        if self.queue.try_send(view).is_err() {
            jobs::lost(1);
        }
    }

    /// Returns the number of unique visitors in these days: a visitor on two of them counts once.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if Redis is away.
    pub async fn visitors(&self, days: Days) -> Result<u64> {
        Ok(self.site.visitors(days.0).await?)
    }

    /// Returns the number of views in these days.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if Redis is away.
    pub async fn views(&self, days: Days) -> Result<u64> {
        Ok(self.site.views(days.0).await?)
    }
}

/// Returns the counters of the whole site.
pub(crate) fn site(context: &Context) -> Result<VisitsOf> {
    Ok(context.seawall.visits(keys::VISITS).of(keys::VISITS_OF_SITE)?)
}

/// A bounded range of days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Days(RangeInclusive<Day>);

impl Days {
    /// Creates a range from the first to the last day, both included.
    ///
    /// # Errors
    /// [`Error::BadInput`] for more than 366 days, and for an empty range.
    pub fn new(days: RangeInclusive<Day>) -> Result<Self> {
        let mut last = *days.start();
        for _ in 0..MAX_DAYS {
            if last == *days.end() {
                return Ok(Days(days));
            }
            last = last.next();
        }
        Err(Error::bad("BAD_RANGE", "from is not after to, and there are at most 366 days between"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_days_and_not_too_many() {
        let range = |from: &str, to: &str| {
            Days::new(from.parse().expect("a day")..=to.parse().expect("a day"))
        };
        assert!(range("2026-11-16", "2026-11-16").is_ok());
        assert!(range("2024-01-01", "2024-12-31").is_ok(), "a leap year");
        assert!(range("2026-11-16", "2027-11-16").is_ok(), "366 days");
        assert!(range("2026-11-16", "2027-11-17").is_err());
        assert!(range("2026-11-16", "2026-11-15").is_err());
        assert!(range("9999-12-31", "2026-11-15").is_err());
    }

    #[test]
    fn guests_differ_by_address_and_browser() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let one = Visitor::guest(ip("10.0.0.1"), b"a browser");
        assert_eq!(one, Visitor::guest(ip("10.0.0.1"), b"a browser"));
        assert_ne!(one, Visitor::guest(ip("10.0.0.2"), b"a browser"));
        assert_ne!(one, Visitor::guest(ip("10.0.0.1"), b"another"));
        assert!(!one.0.contains("10.0.0.1"));
    }
}
