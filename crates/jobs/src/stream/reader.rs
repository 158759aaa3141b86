//! The part of a worker that reads entries.
//!
//! Whenever its connection is opened anew, the reader creates missing groups and goes once through
//! the entries that are pending under its own name: an earlier run was killed, or a reply was lost.
//! Then it waits for new entries, and regularly looks for entries that other workers left behind.
//!
//! Entries that an earlier run or another worker left may have been begun. Entries that are pending
//! after the first pass and not in flight were not begun: the reply that delivered them was lost.

use std::{convert::Infallible, sync::Arc, time::Duration};

use redis::Value;
use seawall_client::error::{Error, Result};
use seawall_resilience::clock::Moment;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::{
    builder::Retention,
    entry::EntryId,
    in_flight::Place,
    intake::{GroupConsumer, Known, Taken},
};
use crate::worker::Outage;

/// Pages that one look claims, for each stream.
const CLAIM_PAGES: usize = 16;
/// How often the metrics are updated, and how often old consumers are removed.
const SHOW_EVERY: Duration = Duration::from_secs(5);
const FORGET_EVERY: Duration = Duration::from_secs(600);

pub(super) struct Reader<T> {
    consumer: Arc<GroupConsumer<T>>,
    dispatch: mpsc::UnboundedSender<Vec<Taken>>,
    stop: watch::Receiver<bool>,
    /// Cursor at which the next look begins, for each stream.
    cursors: Vec<EntryId>,
    look_at: Moment,
    show_at: Moment,
    forget_at: Moment,
    /// Number of settled entries when the streams were last trimmed.
    trimmed_at: u64,
    outage: Outage,
    /// Whether the server may have carried out a read whose reply was lost.
    unsure: bool,
    /// Whether everything that an earlier run left has been taken.
    settled_in: bool,
}

/// Why a session ended.
enum End {
    Asked,
    Failed(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        End::Failed(error)
    }
}

impl<T> Reader<T> {
    pub(super) fn new(
        consumer: Arc<GroupConsumer<T>>,
        dispatch: mpsc::UnboundedSender<Vec<Taken>>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let now = consumer.clock.now();
        Reader {
            cursors: vec![EntryId::ZERO; consumer.streams.len()],
            look_at: now,
            show_at: now,
            forget_at: now,
            trimmed_at: 0,
            outage: Outage::new(consumer.client.network_clock()),
            unsure: false,
            settled_in: false,
            consumer,
            dispatch,
            stop,
        }
    }

    /// Reads until it is told to stop.
    pub(super) async fn run(mut self) {
        loop {
            let Err(end) = self.session().await;
            match end {
                End::Asked => break,
                End::Failed(Error::Closed) => return,
                End::Failed(error) => {
                    tracing::debug!(group = %self.consumer.settings.group, %error, "reading begins anew");
                    if self.rest().await {
                        break;
                    }
                }
            }
        }
        if self.unsure
            && let Err(error) = self.go_through_own(Pages::One).await
        {
            tracing::debug!(%error, "what the last read brought stays pending");
        }
    }

    async fn session(&mut self) -> Result<Infallible, End> {
        self.consumer.ensure_groups().await?;
        let mut connection = self.consumer.client.dedicated(&self.consumer.streams[0].key).await?;
        let patience = self.consumer.client.response_timeout();
        // Without permission for `CLIENT ID`, the end of a blocking read is awaited instead.
        let client_id = connection.send::<u64>(redis::cmd("CLIENT").arg("ID"), patience).await.ok();
        self.go_through_own(Pages::All).await?;
        self.settled_in = true;
        self.unsure = false;
        let read = self.consumer.read_command();
        let limit = self.consumer.poll_interval() + patience;
        let mut stop = self.stop.clone();
        loop {
            if self.consumer.clock.now() >= self.look_at {
                self.look().await?;
                self.look_at = self.consumer.clock.now() + self.consumer.poll_interval();
            }
            let room = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return Err(End::Asked),
                room = Arc::clone(&self.consumer.room).acquire_many_owned(self.consumer.page()) => room,
                () = self.consumer.clock.sleep_until(self.look_at) => continue,
            };
            let Ok(room) = room else { return Err(End::Asked) };
            self.unsure = true;
            let reply = {
                let reading = connection.send::<Value>(&read, limit);
                tokio::pin!(reading);
                let in_time = tokio::select! {
                    biased;
                    reply = &mut reading => Some(reply?),
                    _ = stop.wait_for(|stop| *stop) => None,
                };
                match in_time {
                    Some(reply) => reply,
                    // If the read were dropped now, the server could still carry it out and the
                    // reply would be lost.
                    None => {
                        self.interrupt(client_id).await;
                        reading.await?
                    }
                }
            };
            self.unsure = false;
            self.outage.answered();
            self.hand_over(self.consumer.sort(reply)?, room);
        }
    }

    /// Unblocks a blocking read, so that its reply arrives at once.
    async fn interrupt(&self, client_id: Option<u64>) {
        let Some(client_id) = client_id else { return };
        let mut unblock = redis::cmd("CLIENT");
        unblock.arg("UNBLOCK").arg(client_id);
        if let Err(error) = self.consumer.client.send(&self.consumer.streams[0].key, &unblock).await
        {
            tracing::debug!(%error, "a read is waited for");
        }
    }

    /// Goes through the entries that are pending under this consumer's name and not in flight.
    ///
    /// It goes through them once, by id, and not until none is left: entries that fail stay
    /// pending.
    async fn go_through_own(&mut self, pages: Pages) -> Result<()> {
        for stream in 0..self.consumer.streams.len() {
            let mut after = EntryId::ZERO;
            loop {
                let room =
                    Arc::clone(&self.consumer.room).acquire_many_owned(self.consumer.page()).await;
                let Ok(room) = room else { return Ok(()) };
                let page = self.consumer.own(stream, after).await?;
                let Some(last) = page.last() else { break };
                after = *last;
                let now = self.consumer.clock.now();
                let ours = self.consumer.in_flight.take(page, |id| Place { stream, id: *id }, now);
                if !ours.is_empty() {
                    self.take_again(stream, ours, room).await?;
                }
                if pages == Pages::One {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Begins entries again that were put in flight a moment ago.
    async fn take_again(
        &self,
        stream: usize,
        ids: Vec<EntryId>,
        mut room: OwnedSemaphorePermit,
    ) -> Result<()> {
        let places: Vec<Place> = ids.iter().map(|id| Place { stream, id: *id }).collect();
        let known = if self.settled_in { Known::InRedis } else { Known::OfAnEarlierRun };
        let taken = self.consumer.retake(stream, ids.into_iter().map(|id| (id, known))).await;
        let mut taken =
            taken.inspect_err(|_| self.consumer.in_flight.release(places.iter().copied()))?;
        let gone = places.iter().filter(|place| !taken.iter().any(|one| one.place == **place));
        self.consumer.in_flight.release(gone.copied());
        self.consumer.meter.taken_over(taken.len());
        taken.iter_mut().for_each(|one| one.room = room.split(1));
        // The dispatcher ends after the reader.
        let _ = self.dispatch.send(taken);
        Ok(())
    }

    /// Passes entries on, except those that are in flight already; returns their number.
    fn hand_over(&self, entries: Vec<Taken>, mut room: OwnedSemaphorePermit) -> usize {
        if entries.is_empty() {
            return 0;
        }
        let now = self.consumer.clock.now();
        let mut fresh = self.consumer.in_flight.take(entries, |taken| taken.place, now);
        fresh.iter_mut().for_each(|taken| taken.room = room.split(1));
        let count = fresh.len();
        let _ = self.dispatch.send(fresh);
        count
    }

    /// Does the regular work. Only failures that affect entries end the session.
    async fn look(&mut self) -> Result<()> {
        let consumer = Arc::clone(&self.consumer);
        for stream in 0..consumer.streams.len() {
            self.claim(stream).await?;
        }
        self.trim().await;
        let now = consumer.clock.now();
        if now >= self.show_at {
            self.show_at = now + SHOW_EVERY;
            consumer.show().await;
        }
        if now >= self.forget_at {
            self.forget_at = now + FORGET_EVERY;
            if let Err(error) = consumer.forget_consumers(None).await {
                tracing::debug!(%error, "consumers of the past stay in the group's list");
            }
        }
        Ok(())
    }

    /// Takes over entries that were left behind, as far as there is room.
    async fn claim(&mut self, stream: usize) -> Result<()> {
        let each = u32::try_from(self.consumer.each).unwrap_or(u32::MAX);
        for _ in 0..CLAIM_PAGES {
            let Ok(room) = Arc::clone(&self.consumer.room).try_acquire_many_owned(each) else {
                break;
            };
            let (cursor, taken) = self.consumer.claim(stream, self.cursors[stream]).await?;
            self.cursors[stream] = cursor;
            let count = self.hand_over(taken, room);
            self.consumer.meter.taken_over(count);
            if cursor == EntryId::ZERO {
                break;
            }
        }
        Ok(())
    }

    /// Drops settled entries, if any were settled since the last time. A failure is not fatal.
    async fn trim(&mut self) {
        let counts = self.consumer.meter.counts();
        let settled = counts.handled + counts.dead_letters;
        if self.consumer.settings.retention == Retention::All || settled == self.trimmed_at {
            return;
        }
        self.trimmed_at = settled;
        for stream in &self.consumer.streams {
            if let Err(error) = stream.trim(self.consumer.settings.retention).await {
                tracing::debug!(stream = %stream.name, %error, "not trimmed");
                return;
            }
        }
    }

    /// Waits a little, longer each time. Returns `true` if it is told to stop meanwhile.
    async fn rest(&mut self) -> bool {
        self.outage.failed();
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => true,
            () = self.outage.over() => false,
        }
    }
}

/// How far to go through the pending entries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    One,
    All,
}
