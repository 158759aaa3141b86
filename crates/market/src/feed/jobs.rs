//! What fills inboxes: a worker on the stream of notes' events, and a sweep for what was not told.
//!
//! An event is settled after everything that it asks for is done, in any order and as often as it is
//! delivered: pushing twice changes nothing. A worker that dies leaves its events to its successor.
//! When a store is away events wait without counting as tried.
//!
//! An event may never have been appended: the process ended after the commit, or Redis was away. The
//! database is the outbox: every so often one process appends what was published since its mark, a
//! margin earlier because a transaction may take its time; the reference of an event makes sure that
//! most of this has no effect. The mark is left in Redis for who leads next, and read when that may be
//! another: at the beginning of a term, and after a break, when Redis may have forgotten events along
//! with it. One that is a little old costs a few more rows. If the mark is lost Redis has lost the
//! inboxes as well, and they are rebuilt from the database.

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
/// Events at once.
const CONCURRENCY: usize = 4;
/// When a colleague takes over what a dead worker left.
const CLAIM_AFTER: Duration = Duration::from_secs(15);
/// When an event is tried again because a store was away.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// Fans of one batch.
const BATCH: u32 = 1_000;
/// How often the sweep looks, and how far back.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
const MARGIN_MS: i64 = 60_000;
/// How far the mark in Redis may lie behind while nothing is published.
const MARK_BEHIND_MS: i64 = 60_000;
/// Notes of one step of a sweep, and steps of one round.
const SWEEP_NOTES: u32 = 500;
const SWEEP_STEPS: usize = 200;
/// How often copies that could not follow are tried to be forgotten.
const REPAIR_EVERY: Duration = Duration::from_secs(1);

/// Until when all notes were handed to the feed.
#[derive(Debug, Default, Clone, Copy)]
struct Mark {
    /// The term of this process, and how often Redis was back after a break, when it was read.
    read: Option<(u64, u64)>,
    until: i64,
    /// The same, as Redis has it.
    noted: i64,
}

/// What an event asks to be done with inboxes.
#[derive(Clone, Copy)]
enum Push {
    In {
        note: u64,
        time: i64,
    },
    Out {
        note: u64,
    },
    /// They are read from the database anew.
    Forget,
}

/// Starts everything.
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
        .run(move |event: Delivery<Event>| {
            let feed = Arc::clone(&handler);
            async move { feed.handle(*event.payload()).await }
        })?;
    jobs.spawn("feed", |mut stop| async move {
        stop.asked().await;
        // What was not finished stays pending for the next run.
        let _ = worker.stop().await;
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
            // What a round that failed has seen is read anew.
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

    /// Does something with the inboxes of all fans, unless they are too many and pull.
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

    /// Appends what was published since a mark and may not have been told; returns the next mark.
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

/// Whoever could not be reached is tried again.
fn reached(missed: &[u64]) -> Result<()> {
    if missed.is_empty() {
        return Ok(());
    }
    let cause = format!("{} inboxes could not be reached", missed.len());
    Err(Error::Unavailable { what: "Redis", cause })
}
