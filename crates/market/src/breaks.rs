//! Reports when the connection to Redis was lost and restored, by notification instead of polling.
//!
//! The toolkit keeps one pub/sub connection and checks it once a second. A closed connection is
//! noticed at once, a silent one within three seconds. Components that must know that Redis was
//! away, or may have lost data, listen here. When each of them polled for itself, an idle market
//! sent more polls than all other commands.
//!
//! Limit: on a Cluster this is the connection to one of several servers. A component that depends
//! on all of them must poll as well ([`Breaks::hears_all`]).

use seawall::{
    Seawall,
    client::{Event, Topology},
};
use tokio::sync::watch;

use crate::keys;

/// How often the connection was lost and restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    lost: u64,
    back: u64,
}

/// Receives connection breaks; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Breaks {
    counts: watch::Receiver<Counts>,
    hears_all: bool,
}

impl Breaks {
    /// Returns the receiver, and the future that drives it.
    pub(crate) fn listen(seawall: &Seawall) -> (Self, impl Future<Output = ()> + use<>) {
        let (sender, counts) = watch::channel(Counts::default());
        let mut messages = seawall.client().pubsub().join(keys::BREAKS);
        let listening = async move {
            while let Some(event) = messages.next().await {
                sender.send_if_modified(|counts| match event {
                    Event::Interrupted => {
                        counts.lost += 1;
                        true
                    }
                    // The first event only reports that the subscription began.
                    Event::Resumed if counts.back < counts.lost => {
                        counts.back = counts.lost;
                        true
                    }
                    _ => false,
                });
            }
        };
        let hears_all = seawall.client().topology() != Topology::Cluster;
        (Breaks { counts, hears_all }, listening)
    }

    /// Returns `true` if a break of any server is reported.
    pub(crate) fn hears_all(&self) -> bool {
        self.hears_all
    }

    /// Returns how often the connection was lost.
    pub(crate) fn losses(&self) -> u64 {
        self.counts.borrow().lost
    }

    /// Returns how often the connection was restored.
    pub(crate) fn returns(&self) -> u64 {
        self.counts.borrow().back
    }

    /// Waits until the number of losses differs from `losses`; forever once the market shuts down.
    pub(crate) async fn lost(&mut self, losses: u64) {
        self.until(|counts| counts.lost != losses).await;
    }

    /// Waits until the number of returns differs from `returns`; forever once the market shuts
    /// down.
    pub(crate) async fn back(&mut self, returns: u64) {
        self.until(|counts| counts.back != returns).await;
    }

    async fn until(&mut self, happened: impl FnMut(&Counts) -> bool) {
        if self.counts.wait_for(happened).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
