//! Where invalidations wait that Redis did not take, so that a restart does not lose them.
//!
//! A log does not belong to one process: other processes write to it, and so does the transaction that changes
//! a row. So it is read again and again, and what was carried out is removed row by row, by the row's
//! id: a row that was not carried out is never removed.

use std::{io, pin::Pin};

/// What a [`RecoveryLog`] answers.
pub type LogFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// One row of a [`RecoveryLog`]: an invalidation that is still to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryRow {
    /// Names the row; at least 1, and no later row has the same.
    pub id: u64,
    /// The entry's name in Redis ([`Cache::entry_name`](crate::Cache::entry_name)); an empty one stands
    /// for all entries of the cache.
    pub entry: Vec<u8>,
}

/// Keeps entries whose invalidation is still to be done, across restarts.
///
/// An outbox table is the best one, because the transaction that changes a row can add to it. Every
/// process that has the cache reads the log once a second, invalidates what it finds and removes those
/// rows; two that do so at once do the same thing twice, which is harmless. Here it is in memory, with
/// the SQL that it stands for:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::{collections::BTreeMap, sync::{Arc, Mutex}};
/// use seawall::{Seawall, cache::{Cache, LogFuture, RecoveryLog, RecoveryRow}};
///
/// #[derive(Default)]
/// struct Outbox {
///     rows: Mutex<BTreeMap<u64, (String, Vec<u8>)>>, // id auto_increment, cache, entry
/// }
///
/// impl RecoveryLog for Outbox {
///     fn add<'a>(&'a self, cache: &'a str, entries: &'a [Vec<u8>]) -> LogFuture<'a, ()> {
///         Box::pin(async move {
///             // insert into outbox (cache, entry) values (…, …), …
///             let mut rows = self.rows.lock().unwrap();
///             for entry in entries {
///                 let id = rows.keys().last().map_or(1, |last| last + 1);
///                 rows.insert(id, (cache.to_owned(), entry.clone()));
///             }
///             Ok(())
///         })
///     }
///
///     fn load<'a>(&'a self, cache: &'a str, after: u64, limit: usize) -> LogFuture<'a, Vec<RecoveryRow>> {
///         Box::pin(async move {
///             // select id, entry from outbox where cache = … and id > … order by id limit …
///             let rows = self.rows.lock().unwrap();
///             let ours = rows.range(after + 1..).filter(|(_, row)| row.0 == cache).take(limit);
///             Ok(ours.map(|(id, row)| RecoveryRow { id: *id, entry: row.1.clone() }).collect())
///         })
///     }
///
///     fn remove<'a>(&'a self, _cache: &'a str, ids: &'a [u64]) -> LogFuture<'a, ()> {
///         Box::pin(async move {
///             // delete from outbox where id in (…)
///             self.rows.lock().unwrap().retain(|id, _| !ids.contains(id));
///             Ok(())
///         })
///     }
/// }
///
/// let outbox = Arc::new(Outbox::default());
/// let seawall = Seawall::connect("embedded:").await?;
/// let shops: Cache<u64, String> = seawall.cache("shop").recovery_log(outbox.clone()).build()?;
/// // In the transaction that changes shop 42:
/// outbox.add("shop", &[shops.entry_name(&42)?]).await?;
/// // It is invalidated in the background, whatever becomes of this process.
/// while !outbox.rows.lock().unwrap().is_empty() {
///     tokio::time::sleep(std::time::Duration::from_millis(5)).await;
/// }
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub trait RecoveryLog: Send + Sync {
    /// Adds a row for each of these entries of a cache; they are on stable storage when this is done.
    ///
    /// # Errors
    /// When they could not be written.
    fn add<'a>(&'a self, cache: &'a str, entries: &'a [Vec<u8>]) -> LogFuture<'a, ()>;

    /// Returns the rows of a cache with an id above `after`, whichever process added them: those with
    /// the lowest ids, at most `limit`. Fewer than that means that there are no more.
    ///
    /// # Errors
    /// When they cannot be read.
    fn load<'a>(
        &'a self,
        cache: &'a str,
        after: u64,
        limit: usize,
    ) -> LogFuture<'a, Vec<RecoveryRow>>;

    /// Removes these rows of a cache, and no others: they were carried out. A row that is not there any
    /// more is no error.
    ///
    /// # Errors
    /// When that could not be written; the rows will be carried out once more.
    fn remove<'a>(&'a self, cache: &'a str, ids: &'a [u64]) -> LogFuture<'a, ()>;
}
