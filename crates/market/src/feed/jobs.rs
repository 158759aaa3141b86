//! Fills inboxes: a worker on the stream of note events, and a sweep for events that were not
//! appended.
//!
//! An event is acknowledged after all its work is done. Events may be handled in any order and
//! repeatedly: pushing twice changes nothing. If a worker dies, another worker claims its events.
//! While a store is away, events wait without counting as attempts.
//!
//! An event may never have been appended, because the process ended after the commit or Redis was
//! away. The database is the outbox: periodically one process appends the notes published since its
//! mark, minus a margin because a transaction may take a while. The event's reference makes most of
//! these appends no-ops. The mark is stored in Redis for the next leader. It is read when another
//! process may have written it: at the beginning of a term, and after a break, when Redis may have
//! lost events together with it. A slightly old mark costs a few more rows. If the mark is lost,
//! Redis has lost the inboxes as well, and they are rebuilt from the database.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::try_join_all;
use seawall::{
    cmd,
    social::TimelineOf,
    stream::{Delivery, Outcome},
};

use super::{Feed, store};
use crate::{
    error::{Error, Result},
    follows::store as follows,
    jobs::Jobs,
    keys,
    notes::events::Event,
};

/// The consumer group.
const GROUP: &str = "feed";
/// Events handled concurrently.
const CONCURRENCY: usize = 4;
/// Idle time after which another worker claims a dead worker's events.
const CLAIM_AFTER: Duration = Duration::from_secs(15);
/// Retry delay of an event while a store is away.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// Followers per batch.
const BATCH: u32 = 1_000;
/// Interval of the sweep, and its margin.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
const MARGIN_MS: i64 = 60_000;
/// Maximum lag of the mark in Redis while nothing is published.
const MARK_BEHIND_MS: i64 = 60_000;
/// Notes per step of a sweep, and steps per round.
const SWEEP_NOTES: u32 = 500;
const SWEEP_STEPS: usize = 200;
/// Interval between attempts to delete outdated copies.
const REPAIR_EVERY: Duration = Duration::from_secs(1);

/// Time up to which all notes were handed to the feed.
#[derive(Debug, Default, Clone, Copy)]
struct Mark {
    /// Term of this process, and number of Redis returns, when the mark was read.
    read: Option<(u64, u64)>,
    until: i64,
    /// The time as stored in Redis.
    noted: i64,
}

/// Work that an event requests on inboxes.
#[derive(Clone, Copy)]
enum Push {
    In {
        note: u64,
        time: i64,
    },
    Out {
        note: u64,
    },
    /// Deletes the inboxes, which are then rebuilt from the database.
    Forget,
}

/// Starts the worker and the jobs.
pub(crate) fn start(feed: &Arc<Feed>, jobs: &mut Jobs) -> Result<()> {
    let handler = Arc::clone(feed);
    let worker = feed
        .notes
        .events()
        .stream
        .worker(GROUP)
        .consumer(&*feed.context.instance)
        .concurrency(CONCURRENCY)
        .claim_idle(CLAIM_AFTER)
        .spawn(move |event: Delivery<Event>| {
            let feed = Arc::clone(&handler);
            async move { feed.handle(*event.payload()).await }
        })?;
    jobs.spawn("feed", |mut stop| async move {
        stop.asked().await;
        // Unfinished events stay pending for the next run.
        let _ = worker.shutdown().await;
    });
    let sweeper = Arc::clone(feed);
    let (mark, term, breaks) = (Arc::<Mutex<Mark>>::default(), jobs.term(), jobs.breaks());
    jobs.every("feed-sweep", SWEEP_EVERY, move || {
        let (feed, mark) = (Arc::clone(&sweeper), Arc::clone(&mark));
        let at = (term.number(), breaks.returns());
        async move {
            let lock = || mark.lock().unwrap_or_else(PoisonError::into_inner);
            let before = *lock();
            let swept = feed.sweep(before, at).await;
            // After a failed round the mark is read again.
            *lock() = swept.as_ref().map_or_else(|_| Mark::default(), |mark| *mark);
            swept.map(drop)
        }
    });
    let repairer = Arc::clone(feed);
    jobs.spawn("stale copies", |mut stop| async move {
        while !stop.is_asked() {
            repairer.notes.repair().await;
            repairer.follows.repair().await;
            repairer.inboxes.repair().await;
            tokio::select! {
                biased;
                () = stop.asked() => {}
                () = repairer.context.seawall.clock().sleep(REPAIR_EVERY) => {}
            }
        }
    });
    Ok(())
}

impl Feed {
    async fn handle(&self, event: Event) -> Outcome {
        match self.apply(event).await {
            Ok(()) => Outcome::Done,
            Err(Error::Unavailable { what, cause }) => {
                tracing::warn!(?event, what, cause, "an event waits for a store");
                Outcome::Postpone(STORE_PAUSE)
            }
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    async fn apply(&self, event: Event) -> Result<()> {
        match event {
            Event::Posted { note, author, time } => {
                self.notes.pages().rebuild(author).await?;
                let Some(row) = self.notes.rows(&[note]).await?.pop() else { return Ok(()) };
                let done = self.inboxes.wrote.put_all(&[author], &note, row.create_time).await?;
                reached(&done.missed)?;
                self.push(author, Push::In { note, time }).await
            }
            Event::Deleted { note, author, .. } => {
                self.notes.pages().rebuild(author).await?;
                let done = self.inboxes.wrote.remove_all(&[author], &note).await?;
                reached(&done.missed)?;
                self.push(author, Push::Out { note }).await
            }
            Event::Backfill { author, .. } => self.push(author, Push::Forget).await,
        }
    }

    /// Applies a change to the inboxes of all followers, unless they are too many and pull.
    async fn push(&self, author: u64, push: Push) -> Result<()> {
        let db = &self.context.db;
        if !self.inboxes.is_pushed(author, self.context.now()).await? {
            return Ok(());
        }
        let inbox = &self.inboxes.inbox;
        let mut after = -1;
        loop {
            let fans = follows::fans_after(db, author, after, BATCH).await?;
            let Some(&last) = fans.last() else { return Ok(()) };
            after = crate::db::id(last);
            let missed = match push {
                Push::In { note, time } => inbox.put_all(&fans, &note, time).await?.missed,
                Push::Out { note } => inbox.remove_all(&fans, &note).await?.missed,
                Push::Forget => {
                    let of = fans.iter().map(|fan| inbox.of(fan)).collect::<Result<Vec<_>, _>>()?;
                    try_join_all(of.iter().map(TimelineOf::forget)).await?;
                    Vec::new()
                }
            };
            reached(&missed)?;
        }
    }

    /// Appends events for notes published since the mark that may be missing. Returns the next
    /// mark.
    async fn sweep(&self, mut mark: Mark, at: (u64, u64)) -> Result<Mark> {
        let (client, key) = (self.context.seawall.client(), keys::feed_mark());
        let now = self.context.now();
        if mark.read != Some(at) {
            let noted: Option<i64> = client.query(&key, cmd("GET").arg(&key)).await?;
            let until = noted.unwrap_or(now);
            mark = Mark { read: Some(at), until, noted: noted.unwrap_or(0) };
        }
        let (mut from, mut after) = (mark.until.min(now) - MARGIN_MS, 0);
        let mut appended = false;
        for _ in 0..SWEEP_STEPS {
            let found = store::published(&self.context.db, from, after, SWEEP_NOTES).await?;
            for &(item, author) in &found {
                let event = Event::Posted { note: item.note, author, time: item.time };
                let _ = self.notes.events().append(event).await?;
                appended = true;
            }
            match found.last() {
                Some((last, _)) if found.len() == SWEEP_NOTES as usize => {
                    (from, after) = (last.time, last.note);
                }
                _ => {
                    from = now;
                    break;
                }
            }
        }
        mark.until = from;
        if appended || mark.noted < mark.until - MARK_BEHIND_MS {
            client.send(&key, cmd("SET").arg(&key).arg(mark.until)).await?;
            mark.noted = mark.until;
        }
        Ok(mark)
    }
}

/// Fails if an inbox was not reached, so that the event is retried.
fn reached(missed: &[u64]) -> Result<()> {
    if missed.is_empty() {
        return Ok(());
    }
    let cause = format!("{} inboxes could not be reached", missed.len());
    Err(Error::Unavailable { what: "Redis", cause })
}
