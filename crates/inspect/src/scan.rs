//! Walks over all keys of all servers, page by page, at a limited rate.
//!
//! Servers are walked one after the other: the rate applies to the whole survey, and nodes that
//! share a machine are not all loaded at once. A page is one `SCAN`; the survey queries its keys on
//! the same connection before the next page.

use std::{sync::Arc, time::Duration};

use redis::{Pipeline, Value, cmd};
use seawall_client::{
    client::{Client, DedicatedConnection},
    error::{Error, Result},
};

use super::{
    Kind, Role, Source,
    pace::Pace,
    place::{COMMAND_LIMIT, Place, places},
    seen::Seen,
};

/// Keys per page, without a rate.
const PAGE: u64 = 500;
/// A page has at most a second's keys divided by this, so that a low rate is steady.
const PAGES_A_SECOND: u64 = 20;

/// Which keys to walk, on which servers, and how fast.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) pattern: Option<String>,
    pub(super) kind: Option<Kind>,
    pub(super) rate: u64,
    pub(super) source: Source,
    pub(super) max_latency: Duration,
}

impl Default for Route {
    fn default() -> Self {
        Route {
            pattern: None,
            kind: None,
            rate: 10_000,
            source: Source::default(),
            max_latency: Duration::from_millis(50),
        }
    }
}

/// Progress of a survey.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Keys that were examined.
    pub seen: u64,
    /// Keys that existed when the survey began.
    pub total: u64,
    /// The server that is being asked.
    pub node: Arc<str>,
    /// Set during a pause: how long the server took to answer.
    pub slow: Option<Duration>,
}

/// Some keys of one server.
pub(super) struct Page {
    /// Index of the place that they came from.
    pub(super) at: usize,
    pub(super) node: Arc<str>,
    pub(super) keys: Vec<Vec<u8>>,
}

/// A walk over all keys.
pub(super) struct Walk {
    route: Route,
    places: Vec<Place>,
    /// Index of the current place.
    at: usize,
    cursor: u64,
    begun: bool,
    pace: Pace,
    seen: Seen,
    pub(super) progress: Progress,
    pub(super) duplicates: u64,
    pub(super) notes: Vec<String>,
}

impl Walk {
    pub(super) async fn begin(client: &Client, route: &Route) -> Result<Self> {
        let mut places = places(client, route.source).await?;
        let notes = places.iter_mut().filter_map(|place| place.note.take()).collect();
        let node = places.first().map_or_else(|| "".into(), |place| Arc::clone(&place.name));
        let total = places.iter().map(|place| place.keys).sum();
        Ok(Walk {
            pace: Pace::new(route.rate, route.max_latency, client.network_clock())?,
            route: route.clone(),
            places,
            at: 0,
            cursor: 0,
            begun: false,
            seen: Seen::default(),
            progress: Progress { seen: 0, total, node, slow: None },
            duplicates: 0,
            notes,
        })
    }

    /// Returns the servers of the walk.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&Arc<str>, Role)> {
        self.places.iter().map(|place| (&place.name, place.role))
    }

    /// Returns the places of the walk, in order.
    pub(super) fn places_mut(&mut self) -> &mut [Place] {
        &mut self.places
    }

    /// Like `places_mut`, for reading.
    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Continues with the next server.
    pub(super) fn leave(&mut self) {
        self.cursor = 0;
    }

    /// Returns how long it paused.
    pub(super) fn paused(&self) -> Duration {
        self.pace.paused()
    }

    /// Returns the next keys, or `None` after the last ones. A page may be empty.
    pub(super) async fn next(&mut self, mut watch: impl FnMut(&Progress)) -> Result<Option<Page>> {
        while self.begun && self.cursor == 0 {
            self.at += 1;
            self.begun = false;
        }
        let Some(place) = self.places.get_mut(self.at) else {
            if self.seen.forgot() {
                self.notes.push(format!(
                    "more than {} keys: later ones may be counted twice",
                    super::seen::REMEMBERED
                ));
            }
            return Ok(None);
        };
        if !self.begun {
            self.pace.turn();
            // Redis: from 7.2 on, `CLIENT NO-TOUCH` keeps a connection from changing idle times.
            let untouched = cmd("CLIENT").arg("NO-TOUCH").arg("ON").take();
            match place.connection.send::<Value>(&untouched, COMMAND_LIMIT).await {
                Ok(_) | Err(Error::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.progress.node = Arc::clone(&place.name);
        let progress = &mut self.progress;
        let paused = self.pace.heed(&mut place.connection, COMMAND_LIMIT, |trip| {
            progress.slow = Some(trip);
            watch(progress);
        });
        paused.await?;
        self.progress.slow = None;
        let count = match self.route.rate {
            0 => PAGE,
            rate => (rate / PAGES_A_SECOND).clamp(1, PAGE),
        };
        let mut command = cmd("SCAN");
        command.arg(self.cursor).arg("COUNT").arg(count);
        if let Some(pattern) = &self.route.pattern {
            command.arg("MATCH").arg(pattern);
        }
        if let Some(kind) = self.route.kind {
            command.arg("TYPE").arg(kind.name());
        }
        let (cursor, keys): (u64, Vec<Vec<u8>>) =
            place.connection.send(&command, COMMAND_LIMIT).await?;
        self.cursor = cursor;
        self.begun = true;
        let returned = keys.len() as u64;
        // With a filter the server examines more keys than it returns.
        let filtered = self.route.pattern.is_some() || self.route.kind.is_some();
        let cost = if filtered { returned.max(count) } else { returned };
        self.pace.admit(cost).await?;
        let seen = &mut self.seen;
        let keys: Vec<_> = keys.into_iter().filter(|key| seen.note(key)).collect();
        self.duplicates += returned - keys.len() as u64;
        self.progress.seen += keys.len() as u64;
        Ok(Some(Page { at: self.at, node: Arc::clone(&self.progress.node), keys }))
    }

    /// Sends commands about the keys of the page to the server that it came from.
    pub(super) async fn ask(&mut self, commands: &Pipeline) -> Result<Vec<Result<Value>>> {
        self.connection().send_all(commands, COMMAND_LIMIT).await
    }

    fn connection(&mut self) -> &mut DedicatedConnection {
        &mut self.places.get_mut(self.at).expect("a page came from it").connection
    }
}
