//! The database of the trials: a file of lines `reference payload`, one transaction at a time.
//!
//! It stands for a table with a unique key on the reference: whoever applies an entry looks for its
//! reference and writes it in one step. A process that is killed anywhere leaves a whole line or none.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
    sync::Mutex,
};

/// Whether references are looked at; a ledger that does not is a planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Unique,
    Ignored,
}

/// One process's view of the ledger.
pub(crate) struct Ledger {
    inner: Mutex<Inner>,
    key: Key,
}

struct Inner {
    file: File,
    known: HashSet<String>,
    read_to: u64,
}

impl Ledger {
    pub(crate) fn open(path: &Path, key: Key) -> Self {
        let file = OpenOptions::new().create(true).append(true).read(true).open(path);
        let file = file.expect("the ledger can be opened");
        Ledger { inner: Mutex::new(Inner { file, known: HashSet::new(), read_to: 0 }), key }
    }

    /// Applies a payload unless its reference was applied before.
    pub(crate) fn apply(&self, reference: &str, payload: u64) {
        let mut inner = self.inner.lock().expect("no panic in a transaction");
        inner.file.lock().expect("one transaction at a time");
        inner.catch_up();
        if self.key == Key::Ignored || !inner.known.contains(reference) {
            // One write: lines do not mix, and are there whole or not at all.
            let line = format!("{reference} {payload}\n");
            inner.file.write_all(line.as_bytes()).expect("written");
        }
        inner.file.unlock().expect("held");
    }
}

impl Inner {
    /// Reads what others have written.
    fn catch_up(&mut self) {
        let mut text = String::new();
        self.file.seek(SeekFrom::Start(self.read_to)).expect("a file");
        self.file.read_to_string(&mut text).expect("text");
        self.read_to += text.len() as u64;
        let references = text.lines().filter_map(|line| line.split(' ').next());
        self.known.extend(references.map(str::to_owned));
    }
}

/// How often each payload was applied.
pub(crate) fn applied(path: &Path) -> BTreeMap<u64, u64> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let (_, payload) = line.rsplit_once(' ').expect("a reference and a payload");
        *counts.entry(payload.parse().expect("a number")).or_default() += 1;
    }
    counts
}

/// A digest over numbers and how often each occurs, whatever their order.
pub(crate) fn digest(counts: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    counts.into_iter().fold(0, |sum, (number, times)| {
        let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        sum ^ (mixed ^ (mixed >> 31)).wrapping_mul(times)
    })
}
