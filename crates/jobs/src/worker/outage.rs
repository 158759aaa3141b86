//! Pauses after Redis did not answer.

use std::time::Duration;

use seawall_client::error::Result;
use seawall_resilience::{
    Backoff,
    clock::{Clock, Moment},
};

/// Delays after Redis did not answer: doubled from the shorter one up to the longer one.
const PAUSES: Backoff = Backoff::doubling(Duration::from_millis(20), Duration::from_secs(1));

/// Says when Redis is asked again after a command that failed.
#[derive(Debug)]
pub(crate) struct Outage {
    clock: Clock,
    pauses: Backoff,
    not_before: Moment,
}

impl Outage {
    /// Creates the state of a task that begins now, with pauses by this clock.
    pub(crate) fn new(clock: &Clock) -> Self {
        Outage { not_before: clock.now(), clock: clock.clone(), pauses: PAUSES }
    }

    /// Notes whether Redis carried out what was sent.
    pub(crate) fn note<T>(&mut self, reply: &Result<T>) {
        match reply {
            Ok(_) => self.answered(),
            Err(_) => {
                self.failed();
            }
        }
    }

    /// Notes that Redis answered: the next pause is a short one.
    pub(crate) fn answered(&mut self) {
        self.pauses.reset();
    }

    /// Notes a failure, and returns the pause that begins now.
    pub(crate) fn failed(&mut self) -> Duration {
        let pause = self.pauses.pause();
        self.not_before = self.clock.now() + pause;
        pause
    }

    /// Returns the end of the pause.
    pub(crate) fn not_before(&self) -> Moment {
        self.not_before
    }

    /// Waits until the pause is over.
    pub(crate) async fn over(&self) {
        self.clock.sleep_until(self.not_before).await;
    }
}

#[cfg(test)]
mod tests {
    use seawall_client::error::Error;

    use super::*;

    #[test]
    fn pauses_grow_until_redis_answers() {
        let (clock, time) = Clock::manual();
        let mut outage = Outage::new(&clock);
        assert_eq!(outage.not_before(), clock.now());
        let failed: Result<()> = Err(Error::Closed);
        let mut pause = || {
            outage.note(&failed);
            let pause = outage.not_before().since(clock.now());
            time.advance(pause);
            u64::try_from(pause.as_millis()).expect("small")
        };
        assert_eq!([(); 8].map(|()| pause()), [20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        outage.note(&Ok(()));
        assert_eq!(outage.failed(), Duration::from_millis(20));
    }
}
