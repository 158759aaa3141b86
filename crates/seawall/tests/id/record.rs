//! The record of what everybody got, and the judge of it.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use seawall::{
    Result,
    id::{Id, Ids},
};

/// Ids of one process, in the order in which they were returned.
#[derive(Default)]
pub(crate) struct Process {
    largest: AtomicU64,
    ids: Mutex<Vec<u64>>,
    falls: AtomicU64,
}

impl Process {
    /// Takes one id and notes it; a call that began after another ended must get a larger one.
    pub(crate) async fn take(&self, ids: &Ids) -> Result<Id> {
        let before = self.largest.load(Ordering::SeqCst);
        let id = ids.next().await?;
        if id.as_u64() <= before {
            self.falls.fetch_add(1, Ordering::SeqCst);
        }
        self.largest.fetch_max(id.as_u64(), Ordering::SeqCst);
        self.ids.lock().expect("no panic").push(id.as_u64());
        Ok(id)
    }

    /// Takes several, one after the other.
    pub(crate) async fn take_many(&self, ids: &Ids, count: usize) {
        for _ in 0..count {
            self.take(ids).await.expect("an id");
        }
    }
}

/// Unique over all processes, rising in each.
pub(crate) fn judge<'a>(processes: impl IntoIterator<Item = &'a Process>) -> Result<usize, String> {
    let mut seen = HashSet::new();
    for (number, process) in processes.into_iter().enumerate() {
        let falls = process.falls.load(Ordering::SeqCst);
        if falls > 0 {
            return Err(format!("process {number} got {falls} ids that were not larger"));
        }
        for id in process.ids.lock().expect("no panic").iter() {
            if !seen.insert(*id) {
                return Err(format!("{id} was handed out twice, the second time to {number}"));
            }
            if *id > i64::MAX as u64 {
                return Err(format!("{id} is negative"));
            }
        }
    }
    Ok(seen.len())
}
