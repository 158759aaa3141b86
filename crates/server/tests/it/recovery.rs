//! What a log is worth after truncation, bit flips, power cuts, failed syncs and full disks.
//!
//! The counts are a twentieth of the goals; `SEAWALL_SOAK=1` runs them in full. Everything random
//! is seeded, and a failure prints its seed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use seawall_engine::effects::{Effects, Operation};
use seawall_server::aof::sim::{Faults, SimDisk};
use seawall_server::aof::{
    Clock, LOG_FILE, Loaded, Log, LogError, Options, Policy, Verdict, check, load, repair,
};

fn soak(full: u64) -> u64 {
    if std::env::var_os("SEAWALL_SOAK").is_some() { full } else { full.div_ceil(20) }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

/// A clock that tests move.
#[derive(Clone, Default)]
struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn advance(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }

    fn clock(&self) -> Clock {
        let clock = self.clone();
        Arc::new(move || Duration::from_millis(clock.now_ms()))
    }
}

fn open(disk: &SimDisk, policy: Policy, clock: &ManualClock) -> Log {
    let loaded = load(disk, LOG_FILE, |_| Ok(()), |_, _| {}).expect("no damage");
    let options = Options { policy, background: false };
    Log::open(Arc::new(disk.clone()), loaded, options, clock.clock()).expect("room for a header")
}

fn record(number: u64, bytes: usize) -> Effects {
    let mut effects = Effects::new();
    effects.push(0, &["SET".as_bytes(), &number.to_le_bytes(), &vec![number as u8; bytes]]);
    effects
}

fn append(log: &Log, number: u64, bytes: usize) -> u64 {
    let position = log.stage(record(number, bytes).as_bytes());
    log.commit(position).expect("room");
    position
}

/// The numbers of the records that a start finds.
fn numbers(disk: &SimDisk) -> Result<(Vec<u64>, Loaded), LogError> {
    let mut numbers = Vec::new();
    let apply = |operation: Operation<'_>| {
        let key = operation.args().nth(1).expect("SET has a key");
        numbers.push(u64::from_le_bytes(key.try_into().expect("eight bytes")));
        Ok(())
    };
    let loaded = load(disk, LOG_FILE, apply, |_, _| {})?.unwrap_or_default();
    Ok((numbers, loaded))
}

fn first(count: usize) -> Vec<u64> {
    (0..count as u64).collect()
}

/// A log of `records` records; where each begins, and where the last one ends.
fn sample(records: u64, bytes: usize) -> (Vec<u8>, Vec<usize>) {
    let disk = SimDisk::new(records);
    let log = open(&disk, Policy::No, &ManualClock::default());
    let size = || disk.contents(LOG_FILE).expect("a log").len();
    let mut bounds = vec![size()];
    for number in 0..records {
        append(&log, number, bytes);
        bounds.push(size());
    }
    (disk.contents(LOG_FILE).expect("a log"), bounds)
}

fn with(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(0);
    disk.put(LOG_FILE, bytes);
    disk
}

fn assert_truncation(bytes: &[u8], bounds: &[usize], length: usize) {
    let (found, loaded) = numbers(&with(&bytes[..length])).expect("a truncation is no damage");
    let whole = bounds.iter().filter(|&&bound| bound <= length).count().saturating_sub(1);
    assert_eq!(found, first(whole), "cut to {length} bytes");
    let end = if length < bounds[0] { 0 } else { bounds[whole] };
    assert_eq!(loaded.end, end as u64);
    let dropped = loaded.torn.map_or(0, |torn| torn.bytes);
    assert_eq!(dropped, (length - end) as u64, "a start says what it drops");
}

/// Flips a bit and demands that it is refused with the right offset, dropped as a torn end with a
/// report, or harmless.
fn assert_flip(bytes: &[u8], bounds: &[usize], bit: usize) {
    let mut flipped = bytes.to_vec();
    flipped[bit / 8] ^= 1 << (bit % 8);
    let records = bounds.len() - 1;
    let hit = bounds.iter().filter(|&&bound| bound <= bit / 8).count();
    match numbers(&with(&flipped)) {
        Err(LogError::Damaged { offset, next_valid, .. }) => {
            assert!(hit < records, "bit {bit}: nothing valid follows the last record");
            assert_eq!((offset, next_valid), (bounds[hit - 1] as u64, bounds[hit] as u64));
        }
        Err(error) => panic!("bit {bit}: {error}"),
        Ok((found, loaded)) => match loaded.torn {
            Some(torn) => {
                assert_eq!(hit, records, "bit {bit}: only the last record can look torn");
                assert_eq!(torn.offset, bounds[hit - 1] as u64);
                assert_eq!(found, first(records - 1));
            }
            None => {
                assert_eq!(hit, 0, "bit {bit}: only the doubled header forgives");
                assert_eq!(found, first(records));
            }
        },
    }
}

#[test]
fn every_truncation_loads_as_a_prefix() {
    let (bytes, bounds) = sample(12, 10);
    (0..=bytes.len()).for_each(|length| assert_truncation(&bytes, &bounds, length));
}

#[test]
fn every_bit_flip_is_detected_or_harmless() {
    let (bytes, bounds) = sample(12, 10);
    (0..bytes.len() * 8).for_each(|bit| assert_flip(&bytes, &bounds, bit));
}

#[test]
fn samples_of_a_large_log_are_as_safe() {
    let (bytes, bounds) = sample(300, 3000);
    let mut random = Random(17);
    for _ in 0..soak(2000) {
        assert_truncation(&bytes, &bounds, random.below(bytes.len() as u64 + 1) as usize);
        assert_flip(&bytes, &bounds, random.below(bytes.len() as u64 * 8) as usize);
    }
}

#[test]
fn records_above_the_read_buffer_survive_and_verify() {
    let (bytes, bounds) = sample(3, 1_500_000);
    assert_eq!(numbers(&with(&bytes)).expect("whole").0, [0, 1, 2]);
    let inside = (bounds[1] + 900_000) * 8;
    for bit in [bounds[1] * 8 + 3, bounds[1] * 8 + 28, inside, bounds[2] * 8 - 1] {
        assert_flip(&bytes, &bounds, bit);
    }
    assert_truncation(&bytes, &bounds, bounds[2] + 700_000);
}

#[test]
fn writing_goes_on_behind_a_torn_end() {
    let (bytes, bounds) = sample(5, 20);
    let disk = with(&bytes[..bounds[3] + 9]);
    let log = open(&disk, Policy::No, &ManualClock::default());
    append(&log, 3, 20);
    assert_eq!(numbers(&disk).expect("whole").0, [0, 1, 2, 3]);
}

#[test]
fn stale_bytes_of_an_older_file_do_not_verify() {
    // The older file's third record stands exactly where this one's third would go.
    let (old, bounds) = sample(5, 20);
    let (new, same_bounds) = sample(2, 20);
    assert_eq!(bounds[..3], same_bounds);
    let bytes = [&new, &old[bounds[2]..]].concat();
    let (found, loaded) = numbers(&with(&bytes)).expect("a torn end");
    assert_eq!(found, [0, 1]);
    assert_eq!(loaded.torn.expect("reported").bytes, (old.len() - bounds[2]) as u64);
}

#[test]
fn check_reports_and_repair_cuts_and_keeps() {
    let (mut bytes, bounds) = sample(6, 20);
    bytes[bounds[2] + 20] ^= 1;
    let disk = with(&bytes);
    let report = check(&disk, LOG_FILE).expect("readable").expect("a log");
    assert_eq!((report.records, report.operations, report.last_sequence), (2, 2, 2));
    let Verdict::Damaged { next_valid, .. } = report.verdict else { panic!("{report}") };
    assert_eq!(next_valid, bounds[3] as u64);
    let said = numbers(&disk).expect_err("refused").to_string();
    assert!(said.contains(&format!("at offset {}", bounds[2])), "{said}");
    assert!(said.contains("--check --repair"), "{said}");
    let side = repair(&disk, LOG_FILE, &report).expect("room").expect("something to cut");
    assert_eq!(disk.contents(&side).expect("kept"), &bytes[bounds[2]..]);
    assert_eq!(numbers(&disk).expect("repaired").0, [0, 1]);
    let after = check(&disk, LOG_FILE).expect("readable").expect("a log");
    assert_eq!(after.verdict, Verdict::Whole);
    assert_eq!(repair(&disk, LOG_FILE, &after).expect("nothing to do"), None);
}

#[test]
fn a_damaged_header_is_refused_and_set_aside_by_repair() {
    let (mut bytes, _) = sample(3, 20);
    bytes[20] ^= 1;
    bytes[56] ^= 1;
    let disk = with(&bytes);
    assert!(matches!(numbers(&disk), Err(LogError::Header { .. })));
    let report = check(&disk, LOG_FILE).expect("readable").expect("a log");
    let side = repair(&disk, LOG_FILE, &report).expect("room").expect("something to cut");
    assert_eq!(disk.contents(&side).expect("kept"), bytes);
    assert_eq!(numbers(&disk).expect("empty").0, [0u64; 0]);
    assert!(matches!(numbers(&with(b"*1\r\n$4\r\nPING\r\n")), Err(LogError::Foreign { .. })));
}

/// One server's lives on a simulated disk; returns how many acknowledged records a cut lost, and
/// over how many milliseconds their acknowledgements spread.
fn lose_power(seed: u64, policy: Policy, faults: &Faults) -> (usize, u64) {
    let mut random = Random(seed);
    let mut disk = SimDisk::new(seed);
    let clock = ManualClock::default();
    // When each record was acknowledged; none is missing, so the index is its number.
    let mut acknowledged: Vec<u64> = Vec::new();
    let mut written = 0;
    // Several lives, because recovery itself must leave a log that the next one can trust.
    for life in 0..=random.below(3) {
        disk.set_faults(faults.clone());
        let log = open(&disk, policy, &clock);
        let base = written;
        for _ in 0..random.below(40) {
            match random.below(4) {
                0 => log.turn(),
                1 => clock.advance(random.below(400)),
                _ => {
                    append(&log, written, random.below(60) as usize);
                    written += 1;
                }
            }
            let released = (base + log.released()) as usize;
            acknowledged.resize(released.max(acknowledged.len()), clock.now_ms());
        }
        disk = disk.power_cut(seed.wrapping_mul(31) + life);
        let found = match numbers(&disk) {
            Err(_) if faults.drops_syncs => return (acknowledged.len().max(1), 0),
            found => found.expect("a power cut leaves no damage").0,
        };
        let kept = found.len();
        assert_eq!(found, first(kept), "seed {seed}");
        if let (Some(lost), Some(last)) = (acknowledged.get(kept), acknowledged.last()) {
            return (acknowledged.len() - kept, last - lost);
        }
        // What survived without an acknowledgement is simply there.
        written = kept as u64;
        acknowledged.resize(kept, clock.now_ms());
    }
    (0, 0)
}

#[test]
fn always_loses_nothing_acknowledged_in_a_power_cut() {
    for seed in 0..soak(10_000) {
        assert_eq!(lose_power(seed, Policy::Always, &Faults::default()).0, 0, "seed {seed}");
    }
}

#[test]
fn everysec_loses_at_most_a_second() {
    let mut lost = 0;
    for seed in 0..soak(10_000) {
        let (records, spread) = lose_power(seed, Policy::EverySecond, &Faults::default());
        lost += records;
        assert!(spread <= 1000, "seed {seed}: {spread} ms of acknowledged writes are gone");
    }
    assert!(lost > 0, "a run that loses nothing proves nothing about the bound");
}

#[test]
fn the_checker_catches_a_dropped_sync() {
    let planted = Faults { drops_syncs: true, ..Faults::default() };
    let lost: usize = (0..100).map(|seed| lose_power(seed, Policy::Always, &planted).0).sum();
    assert!(lost > 0, "the planted bug went unnoticed");
}

#[test]
fn a_failed_sync_refuses_writes_until_restart() {
    for policy in [Policy::Always, Policy::EverySecond] {
        let disk = SimDisk::new(3);
        let clock = ManualClock::default();
        let log = open(&disk, policy, &clock);
        append(&log, 0, 10);
        clock.advance(600);
        log.turn();
        assert_eq!(log.released(), 1);
        let (_, syncs) = disk.counts();
        disk.set_faults(Faults { failing_syncs: vec![syncs + 1], ..Faults::default() });
        append(&log, 1, 10);
        let released = log.released();
        clock.advance(600);
        log.turn();
        assert!(log.failure().is_some() && log.needs_rewrite());
        for _ in 0..5 {
            clock.advance(600);
            log.turn();
            let position = log.stage(record(2, 10).as_bytes());
            assert!(log.commit(position).is_err(), "writes are refused");
        }
        assert_eq!(log.released(), released, "a later sync that succeeds proves nothing");
        assert!(log.close().is_err());
        let (found, _) = numbers(&disk.power_cut(1)).expect("no damage");
        assert_eq!(found, [0], "the dirty pages were dropped");
    }
}

#[test]
fn a_full_disk_stops_acknowledging_and_recovers() {
    let disk = SimDisk::new(4);
    let clock = ManualClock::default();
    let log = open(&disk, Policy::Always, &clock);
    append(&log, 0, 10);
    log.turn();
    let used = disk.contents(LOG_FILE).expect("a log").len() as u64;
    disk.set_faults(Faults { capacity_bytes: Some(used + 30), ..Faults::default() });
    let position = log.stage(record(1, 100).as_bytes());
    let refused = log.commit(position).expect_err("full").to_string();
    assert!(refused.contains("storage"), "{refused}");
    assert_eq!(disk.contents(LOG_FILE).expect("a log").len() as u64, used, "cut back");
    clock.advance(200);
    log.turn();
    assert!(log.failure().is_some() && !log.needs_rewrite());
    assert_eq!(log.released(), 1);
    disk.set_faults(Faults::default());
    clock.advance(200);
    log.turn();
    log.turn();
    assert!(log.failure().is_none(), "it recovers by itself");
    assert_eq!(log.released(), position);
    append(&log, 2, 10);
    assert_eq!(numbers(&disk).expect("whole").0, [0, 1, 2], "the held write is not lost");
}

#[test]
fn failed_writes_never_tear_the_middle() {
    for seed in 0..soak(4000) {
        let mut random = Random(seed);
        let disk = SimDisk::new(seed);
        let clock = ManualClock::default();
        let log = open(&disk, Policy::Always, &clock);
        let (writes, _) = disk.counts();
        let failing_writes = (0..6).map(|_| writes + 1 + random.below(30)).collect();
        disk.set_faults(Faults { failing_writes, ..Faults::default() });
        for number in 0..20 {
            let position = log.stage(record(number, random.below(100) as usize).as_bytes());
            while log.commit(position).is_err() {
                clock.advance(150);
            }
            log.turn();
        }
        assert!(log.failure().is_none());
        let (found, loaded) = numbers(&disk.power_cut(seed)).expect("no damage");
        assert_eq!(found, first(20), "seed {seed}");
        assert_eq!(loaded.torn, None);
    }
}

#[test]
fn a_thread_syncs_groups_and_wakes_the_host() {
    let disk = SimDisk::new(8);
    let options = Options { policy: Policy::Always, background: true };
    let started = Instant::now();
    let clock: Clock = Arc::new(move || started.elapsed());
    let log = Log::open(Arc::new(disk.clone()), None, options, clock).expect("an empty disk");
    let woken = Arc::new((Mutex::new(()), Condvar::new()));
    let listener = Arc::clone(&woken);
    log.listen(Arc::new(move || {
        let _held = listener.0.lock().expect("no waiter panics");
        listener.1.notify_all();
    }));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (log, woken) = (&log, &woken);
            scope.spawn(move || {
                for number in 0..200 {
                    let position = append(log, thread * 1000 + number, 20);
                    let mut held = woken.0.lock().expect("no waiter panics");
                    while log.released() < position {
                        let patience = Duration::from_secs(20);
                        let (guard, late) = woken.1.wait_timeout(held, patience).expect("no panic");
                        assert!(!late.timed_out(), "nobody said that {position} is durable");
                        held = guard;
                    }
                }
            });
        }
    });
    let survivor = disk.power_cut(1);
    assert_eq!(numbers(&survivor).expect("no damage").0.len(), 800);
    log.close().expect("all is durable");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let (mut headed, bounds) = sample(1, 1);
        headed.truncate(bounds[0]);
        headed.extend_from_slice(&bytes);
        for disk in [with(&bytes), with(&headed)] {
            let _ = check(&disk, LOG_FILE).map(|report| report.map(|report| report.to_string()));
            let _ = load(&disk, LOG_FILE, |_| Ok(()), |_, _| {});
        }
    }

    #[test]
    fn arbitrary_damage_never_loads_wrong_records(
        fills in prop::collection::vec((0usize..2000, any::<u8>(), 0usize..40), 1..6)
    ) {
        let (mut bytes, _) = sample(12, 30);
        for (at, value, length) in fills {
            let at = at % bytes.len();
            let end = (at + length).min(bytes.len());
            bytes[at..end].fill(value);
        }
        if let Ok((found, _)) = numbers(&with(&bytes)) {
            prop_assert_eq!(&found, &first(found.len()));
        }
    }
}
