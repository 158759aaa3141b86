//! Settles debts: every process deletes outdated copies once Redis answers.
//!
//! There is no lock: settling twice has the effect of once, and a killed lock owner would delay all
//! other processes. A process settles before its first request and then every [`EVERY`]; without
//! debts that is one small query. Copies are deleted, and rebuilt one by one when they are read,
//! under their usual leases. So an outage is not followed by a load spike on the database.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use seawall::cache::Invalidation;

use super::{Debt, store};
use crate::{
    accounts::Accounts,
    app::Context,
    error::{Error, Result},
    feed::inboxes::Inboxes,
    follows::Follows,
    jobs::Jobs,
    notes::Notes,
    shops::Shops,
};

/// Interval between searches for debts.
const EVERY: Duration = Duration::from_secs(1);
/// Rows per query, and queries per round.
const BATCH: i64 = 500;
const BATCHES: usize = 1_000;
/// Copies deleted concurrently.
const TOGETHER: usize = 32;

/// Owners of the copies.
#[derive(Debug)]
pub(crate) struct Settler {
    pub(crate) context: Context,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) shops: Arc<Shops>,
    pub(crate) notes: Arc<Notes>,
    pub(crate) follows: Follows,
    pub(crate) inboxes: Inboxes,
}

/// Starts looking for debts.
pub(crate) fn start(settler: &Arc<Settler>, jobs: &mut Jobs) {
    let settler = Arc::clone(settler);
    jobs.spawn("debts", |mut stop| async move {
        while !stop.is_asked() {
            if let Err(error) = settler.settle_all().await {
                tracing::debug!(%error, "debts wait");
            }
            tokio::select! {
                biased;
                () = stop.asked() => {}
                () = settler.context.seawall.clock().sleep(EVERY) => {}
            }
        }
    });
}

impl Settler {
    /// Settles all debts. A debt that fails by itself does not delay the others.
    pub(crate) async fn settle_all(&self) -> Result<()> {
        let mut after = -1;
        for _ in 0..BATCHES {
            let owed = store::after(&self.context.db, after, BATCH).await?;
            let Some(last) = owed.last() else { return Ok(()) };
            after = last.row;
            // While Redis is away this is one command a second, not one per debt.
            self.context.ping().await?;
            let mut rows: HashMap<Debt, Vec<i64>> = HashMap::new();
            for owed in &owed {
                rows.entry(owed.debt).or_default().push(owed.row);
            }
            let debts: Vec<Debt> = rows.keys().copied().collect();
            let mut settled = HashSet::new();
            for together in debts.chunks(TOGETHER) {
                let results = join_all(together.iter().map(|debt| self.settle(*debt))).await;
                for (debt, result) in together.iter().zip(results) {
                    match result {
                        Ok(()) => drop(settled.insert(*debt)),
                        Err(error) => tracing::warn!(?debt, %error, "a debt is not settled yet"),
                    }
                }
            }
            let mut done: Vec<i64> =
                settled.iter().filter_map(|debt| rows.get(debt)).flatten().copied().collect();
            // In a fixed order, so that two processes doing the same cannot deadlock.
            done.sort_unstable();
            store::delete(&self.context.db, &done).await?;
            tracing::info!(rows = done.len(), "what Redis was not told is settled");
        }
        Ok(())
    }

    async fn settle(&self, debt: Debt) -> Result<()> {
        match debt {
            Debt::Profile(user) => self.accounts.settle(user).await,
            Debt::Shop(shop) => applied(self.shops.settle(shop).await?),
            Debt::Map(kind) => self.shops.settle_map(kind).await,
            Debt::Note(note) => applied(self.notes.settle(note).await?),
            Debt::Pages { author, notes } => {
                applied(self.notes.pages().moved(author, notes).await?)
            }
            Debt::Likes(note) => self.notes.settle_likes(note).await,
            Debt::Follows(user) => self.follows.settle(user).await,
            Debt::Feed(reader) => self.inboxes.settle(reader).await,
            Debt::Backfill { author, time } => self.follows.settle_backfill(author, time).await,
        }
    }
}

/// Fails for an invalidation that is only queued: the debt remains.
pub(crate) fn applied(told: Invalidation) -> Result<()> {
    match told {
        Invalidation::Applied(_) => Ok(()),
        Invalidation::Queued => {
            Err(Error::Unavailable { what: "Redis", cause: "an invalidation waits".to_owned() })
        }
    }
}
