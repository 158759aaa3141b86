//! A disk that can lose power, fill up and fail, for tests and simulations.
//!
//! It distinguishes synced bytes from unsynced ones, and synced names from unsynced ones. A
//! [`SimDisk::power_cut`] keeps what was synced, a random part of what was not, and sometimes
//! garbage after it, as a real disk may. All randomness comes from the seed.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::disk::{Disk, DiskFile};

/// Faults to inject.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Bytes that fit on the disk.
    pub capacity_bytes: Option<u64>,
    /// Which writes fail, counted from 1; a random part of the bytes is in the file nevertheless.
    pub failing_writes: Vec<u64>,
    /// Which file syncs fail, counted from 1; the unsynced bytes are then lost at the next cut.
    pub failing_syncs: Vec<u64>,
    /// The planted bug: syncs report success and do nothing.
    pub drops_syncs: bool,
}

/// A simulated directory.
#[derive(Debug, Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Name tables since the last directory sync, oldest first.
    unsynced_names: Vec<BTreeMap<String, usize>>,
    faults: Faults,
    writes: u64,
    syncs: u64,
    random: u64,
}

#[derive(Debug, Default, Clone)]
struct Inode {
    data: Vec<u8>,
    synced: Vec<u8>,
    /// Whether `data` no longer begins with `synced`: set if synced bytes were cut or overwritten.
    diverged: bool,
    /// A sync failed: dirty pages are gone although the file still reads well.
    lost_from: Option<usize>,
}

impl SimDisk {
    /// An empty disk whose randomness follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let state = State { random: seed ^ 0x9e37_79b9_7f4a_7c15, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Replaces the faults; the counts continue.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Returns how many writes and file syncs were requested so far.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.writes, state.syncs)
    }

    /// Returns the bytes of a file as they read now.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        Some(state.inodes[*state.names.get(name)?].data.clone())
    }

    /// Creates a file, durably.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        let inode = Inode { data: bytes.to_vec(), synced: bytes.to_vec(), ..Inode::default() };
        state.inodes.push(inode);
        let number = state.inodes.len() - 1;
        state.names.insert(name.to_owned(), number);
        state.durable_names.insert(name.to_owned(), number);
    }

    /// Returns the disk that a restart finds after a power cut now. This disk is not changed.
    pub fn power_cut(&self, seed: u64) -> Self {
        let old = self.state();
        let cut = Self::new(seed);
        let mut new = cut.state();
        // The directory is journaled: a prefix of its changes survives.
        let kept = new.below(old.unsynced_names.len() as u64 + 1) as usize;
        let names = kept.checked_sub(1).map_or(&old.durable_names, |i| &old.unsynced_names[i]);
        for (name, &number) in names {
            let data = new.survivor(&old.inodes[number]);
            new.inodes.push(Inode { synced: data.clone(), data, ..Inode::default() });
            let number = new.inodes.len() - 1;
            new.names.insert(name.clone(), number);
        }
        new.durable_names = new.names.clone();
        drop(new);
        cut
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds the simulated disk")
    }
}

impl State {
    fn next_random(&mut self) -> u64 {
        // SplitMix64: small, and good enough to choose where to cut.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next_random() % bound.max(1)
    }

    fn survivor(&mut self, inode: &Inode) -> Vec<u8> {
        let reachable = inode.lost_from.unwrap_or(inode.data.len()).min(inode.data.len());
        let base = if inode.diverged {
            let pairs = inode.data.iter().zip(&inode.synced);
            pairs.take_while(|(a, b)| a == b).count()
        } else {
            inode.synced.len()
        };
        if inode.diverged && self.below(2) == 0 {
            return inode.synced.clone();
        }
        let unsynced = reachable.saturating_sub(base);
        let kept = base + self.below(unsynced as u64 + 1) as usize;
        let mut data = inode.data[..kept].to_vec();
        let garbage = self.below(64) as usize;
        // Garbage appears where unsynced bytes were, or where blocks were allocated for them.
        if inode.data.len() > base || inode.diverged {
            match self.below(3) {
                0 => data.resize(kept + garbage, 0),
                1 => (0..garbage).for_each(|_| data.push(self.next_random() as u8)),
                _ => {}
            }
        }
        data
    }

    fn used(&self) -> u64 {
        self.names.values().map(|&number| self.inodes[number].data.len() as u64).sum()
    }

    fn renamed(&mut self) {
        let names = self.names.clone();
        self.unsynced_names.push(names);
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let number = self.state().names.get(name).copied();
        Ok(number.map(|number| {
            let file: Arc<dyn DiskFile> = Arc::new(SimFile { disk: self.clone(), number });
            file
        }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.inodes.push(Inode::default());
        let number = state.inodes.len() - 1;
        state.names.insert(name.to_owned(), number);
        state.renamed();
        drop(state);
        Ok(Arc::new(SimFile { disk: self.clone(), number }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let number = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), number);
        state.renamed();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.names.remove(name);
        state.renamed();
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.state();
        if !state.faults.drops_syncs {
            state.durable_names = state.names.clone();
            state.unsynced_names.clear();
        }
        Ok(())
    }

    fn fresh_id(&self) -> u128 {
        let mut state = self.state();
        u128::from(state.next_random()) << 64 | u128::from(state.next_random())
    }

    fn display(&self, name: &str) -> String {
        name.to_owned()
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    number: usize,
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.state();
        let data = &state.inodes[self.number].data;
        let from = (offset as usize).min(data.len());
        let length = buffer.len().min(data.len() - from);
        buffer[..length].copy_from_slice(&data[from..from + length]);
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.writes += 1;
        let mut taken = bytes.len();
        let count = state.writes;
        let fails = state.faults.failing_writes.contains(&count);
        if fails {
            taken = state.below(bytes.len() as u64 + 1) as usize;
        }
        if let Some(capacity) = state.faults.capacity_bytes {
            let growth_at = offset.max(state.inodes[self.number].data.len() as u64);
            let overwritten = (growth_at - offset) as usize;
            let room = capacity.saturating_sub(state.used()) as usize + overwritten;
            taken = taken.min(room);
        }
        let inode = &mut state.inodes[self.number];
        let from = offset as usize;
        inode.diverged |= from < inode.synced.len();
        let end = (from + taken).max(inode.data.len());
        inode.data.resize(end, 0);
        inode.data[from..from + taken].copy_from_slice(&bytes[..taken]);
        // As real systems do: a short write first, and the error when no more byte fits.
        if fails || (taken == 0 && !bytes.is_empty()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(taken)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.state().inodes[self.number].data.len() as u64)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let inode = &mut state.inodes[self.number];
        inode.data.resize(size as usize, 0);
        inode.diverged |= inode.data.len() < inode.synced.len();
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.syncs += 1;
        let count = state.syncs;
        if state.faults.drops_syncs {
            return Ok(());
        }
        let fails = state.faults.failing_syncs.contains(&count);
        let inode = &mut state.inodes[self.number];
        if fails {
            inode.lost_from.get_or_insert(inode.synced.len());
            return Err(io::Error::other("injected sync failure"));
        }
        if inode.lost_from.is_some() {
            // A later sync "succeeds" without the pages that were dropped: the trap of retrying.
            return Ok(());
        }
        if inode.diverged {
            inode.synced.clone_from(&inode.data);
            inode.diverged = false;
        } else {
            let from = inode.synced.len();
            let (synced, data) = (&mut inode.synced, &inode.data);
            synced.extend_from_slice(&data[from..]);
        }
        Ok(())
    }
}
