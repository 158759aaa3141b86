//! When the connection to Redis was lost and was back: heard of, not asked for.
//!
//! The toolkit keeps one connection for messages and looks after it once a second. One that is closed is
//! noticed at once, one that is silent within three seconds. Whoever has to know that Redis was away, or
//! may have forgotten something, listens here: an idle market in which each of them asked for itself
//! sent more of that than of everything else.
//!
//! Limit: on a Cluster this is the connection to one server of several; who depends on all of them
//! looks as well ([`Breaks::hears_all`]).

use seawall::{
    Seawall,
    client::{Event, Topology},
};
use tokio::sync::watch;

use crate::keys;

/// How often the connection was lost, and was back after that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    lost: u64,
    back: u64,
}

/// Hears of breaks; a cheap clone.
#[derive(Debug, Clone)]
pub(crate) struct Breaks {
    counts: watch::Receiver<Counts>,
    hears_all: bool,
}

impl Breaks {
    /// What listens, and the work of doing so.
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
                    // The first one says that it begins.
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

    /// Whether a break of every server is heard.
    pub(crate) fn hears_all(&self) -> bool {
        self.hears_all
    }

    /// How often Redis was lost.
    pub(crate) fn losses(&self) -> u64 {
        self.counts.borrow().lost
    }

    /// How often it was back.
    pub(crate) fn returns(&self) -> u64 {
        self.counts.borrow().back
    }

    /// Waits until Redis was lost once more than so often; for ever once the market ends.
    pub(crate) async fn lost(&mut self, losses: u64) {
        self.until(|counts| counts.lost != losses).await;
    }

    /// Waits until it was back once more than so often; for ever once the market ends.
    pub(crate) async fn back(&mut self, returns: u64) {
        self.until(|counts| counts.back != returns).await;
    }

    async fn until(&mut self, happened: impl FnMut(&Counts) -> bool) {
        if self.counts.wait_for(happened).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
