//! What holders of a lock saw, and whether it can be true.
//!
//! Every process appends to one file: when it asked for the lock, took it and under which token, each moment at
//! which it still believed to hold it, and when it was told of the loss. The clock is the machine's
//! monotonic one, the same for all. A hold is the time from the first of these moments to the last;
//! since both were taken while the holder believed to hold, holds that overlap and together weigh more
//! than the lock allows are a broken promise, whatever the reason.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use rustix::time::{ClockId, clock_gettime};
use seawall::lock::Token;

use crate::subject::Held;

/// Now, on the clock that all processes share.
pub(crate) fn now_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).expect("after boot") * 1_000_000_000
        + u64::try_from(now.tv_nsec).expect("a part of a second")
}

/// The file that a process writes its part of the history to.
pub(crate) struct Recorder {
    file: File,
    worker: String,
}

impl Recorder {
    pub(crate) fn open(path: &Path, worker: &str) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Recorder { file: file.expect("the history can be written"), worker: worker.to_owned() }
    }

    /// A lock was taken that was asked for at this moment.
    pub(crate) fn acquired(&mut self, at_nanos: u64, asked_nanos: u64, held: &Held) {
        self.write(at_nanos, "acquired", held.token(), &format!("{asked_nanos} {}", held.weight));
    }

    pub(crate) fn note(&mut self, at_nanos: u64, what: &str, token: Token) {
        self.write(at_nanos, what, token, "- -");
    }

    /// One line in one write: lines of several processes do not mix.
    fn write(&mut self, at_nanos: u64, what: &str, token: Token, more: &str) {
        let (worker, Token { epoch, sequence }) = (&self.worker, token);
        let line = format!("{at_nanos} {worker} {what} {epoch} {sequence} {more}\n");
        self.file.write_all(line.as_bytes()).expect("the history can be written");
    }
}

/// A resource that refuses holders of the past: a file with the highest token so far.
pub(crate) struct Resource {
    path: PathBuf,
    /// Whether it looks at tokens at all; one that does not is a planted bug.
    looks: bool,
}

impl Resource {
    pub(crate) fn new(path: &Path, looks: bool) -> Self {
        Resource { path: path.to_owned(), looks }
    }

    /// Writes under a token; false when it is refused.
    pub(crate) fn write(&self, token: Token) -> bool {
        let mut file = self.turn();
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).expect("a file");
        file.read_to_string(&mut text).expect("text");
        let highest = text.lines().last().map_or(0, |line| line.parse().expect("a token"));
        let accepted = !self.looks || token.to_u64() >= highest;
        if accepted {
            writeln!(file, "{}", token.to_u64()).expect("written");
        }
        accepted
    }

    /// While this is kept nobody is in the middle of a write.
    pub(crate) fn turn(&self) -> File {
        let options = OpenOptions::new().create(true).append(true).read(true).open(&self.path);
        let file = options.expect("the resource is there");
        file.lock().expect("one writer at a time");
        file
    }

    /// The tokens of all writes that were accepted, in order.
    pub(crate) fn accepted(&self) -> Vec<u64> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        text.lines().map(|line| line.parse().expect("a token")).collect()
    }
}

/// One hold as its holder saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) worker: String,
    pub(crate) token: Token,
    /// When it was asked for: the server gave it out after this.
    pub(crate) asked_nanos: u64,
    pub(crate) from_nanos: u64,
    pub(crate) to_nanos: u64,
    pub(crate) lost: bool,
    /// How much of the lock's capacity it takes.
    pub(crate) weight: u32,
}

/// All that was seen.
#[derive(Debug)]
pub(crate) struct History {
    /// How much weight may be held at once: 1 of a mutex, the permits of a semaphore; a writer takes
    /// all that readers could.
    pub(crate) capacity: u32,
    pub(crate) holds: Vec<Seen>,
    pub(crate) accepted: Vec<u64>,
    /// Writes that the resource refused.
    pub(crate) refused: usize,
}

impl History {
    pub(crate) fn of(capacity: u32, mut holds: Vec<Seen>) -> Self {
        holds.sort_by_key(|seen| seen.from_nanos);
        History { capacity, holds, accepted: Vec::new(), refused: 0 }
    }

    pub(crate) fn read(path: &Path, resource: &Resource, capacity: u32) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut holds = Vec::new();
        let mut refused = 0;
        // By worker: its last hold is the one that its lines speak of.
        let mut open: BTreeMap<String, Seen> = BTreeMap::new();
        for line in text.lines() {
            let [at, worker, what, epoch, sequence, asked, weight] =
                line.split(' ').collect::<Vec<_>>().try_into().expect("seven words");
            let number = |text: &str| text.parse::<u64>().expect("a number");
            let at = number(at);
            match what {
                "acquired" => {
                    let seen = Seen {
                        worker: worker.to_owned(),
                        token: Token { epoch: number(epoch), sequence: number(sequence) },
                        asked_nanos: number(asked),
                        from_nanos: at,
                        to_nanos: at,
                        lost: false,
                        weight: weight.parse().expect("a number"),
                    };
                    holds.extend(open.insert(worker.to_owned(), seen));
                }
                "valid" => open.get_mut(worker).expect("it holds").to_nanos = at,
                "lost" => open.get_mut(worker).expect("it held").lost = true,
                "refused" => refused += 1,
                other => panic!("{other} is no word of a history"),
            }
        }
        holds.extend(open.into_values());
        History { accepted: resource.accepted(), refused, ..History::of(capacity, holds) }
    }

    /// What cannot be true, if anything.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = self.order_faults();
        // Ends come before beginnings of the same moment.
        let mut moments: Vec<(u64, bool, &Seen)> = Vec::with_capacity(self.holds.len() * 2);
        for seen in self.holds.iter().filter(|seen| seen.to_nanos > seen.from_nanos) {
            moments.extend([(seen.from_nanos, true, seen), (seen.to_nanos, false, seen)]);
        }
        moments.sort_by_key(|(at, begins, _)| (*at, *begins));
        let mut holding: Vec<&Seen> = Vec::new();
        for (_, begins, seen) in moments {
            if !begins {
                holding.retain(|held| *held != seen);
                continue;
            }
            holding.push(seen);
            if holding.iter().map(|held| u64::from(held.weight)).sum::<u64>() > self.capacity.into()
            {
                let limit = self.capacity;
                faults.push(format!("two at once, or more than {limit}: {holding:?}"));
            }
        }
        faults
    }

    /// The same without exclusion: what holds even over a server that lost its data.
    pub(crate) fn order_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut by_token: Vec<&Seen> = self.holds.iter().collect();
        by_token.sort_by_key(|seen| seen.token);
        for pair in by_token.windows(2).filter(|pair| pair[0].token.epoch == pair[1].token.epoch) {
            faults.push(format!("tokens do not rise: {:?} and {:?}", pair[0], pair[1]));
        }
        // Who asked after another one held has a higher token; and so has who holds alone after it.
        self.compare(&mut faults, |seen| seen.from_nanos, |seen| seen.asked_nanos, |_, _| true);
        let alone = |before: &Seen, after: &Seen| self.is_alone(before) || self.is_alone(after);
        self.compare(&mut faults, |seen| seen.to_nanos, |seen| seen.from_nanos, alone);
        if !self.accepted.is_sorted() {
            faults.push("the resource accepted a token of the past".to_owned());
        }
        faults
    }

    fn is_alone(&self, seen: &Seen) -> bool {
        seen.weight == self.capacity
    }

    /// Compares the token of each hold with the highest of those that were there before it.
    fn compare(
        &self,
        faults: &mut Vec<String>,
        was_there: impl Fn(&Seen) -> u64,
        came: impl Fn(&Seen) -> u64,
        follow: impl Fn(&Seen, &Seen) -> bool,
    ) {
        let mut before: Vec<&Seen> = self.holds.iter().collect();
        before.sort_by_key(|seen| was_there(seen));
        let mut after = before.clone();
        after.sort_by_key(|seen| came(seen));
        let mut before = before.into_iter().peekable();
        // The highest of all, and of those that held alone.
        let mut highest: [Option<&Seen>; 2] = [None, None];
        for seen in after {
            while let Some(earlier) = before.next_if(|earlier| was_there(earlier) < came(seen)) {
                let higher =
                    |than: Option<&Seen>| than.is_none_or(|than| earlier.token > than.token);
                if higher(highest[0]) {
                    highest[0] = Some(earlier);
                }
                if self.is_alone(earlier) && higher(highest[1]) {
                    highest[1] = Some(earlier);
                }
            }
            for earlier in highest.into_iter().flatten() {
                if earlier != seen && follow(earlier, seen) && seen.token <= earlier.token {
                    faults.push(format!("tokens do not rise: {earlier:?} then {seen:?}"));
                }
            }
        }
    }
}

fn seen(worker: &str, epoch: u64, from_nanos: u64, to_nanos: u64) -> Seen {
    let token = Token { epoch, sequence: epoch };
    let (worker, asked_nanos) = (worker.to_owned(), from_nanos - 1);
    Seen { worker, token, asked_nanos, from_nanos, to_nanos, lost: false, weight: 1 }
}

#[test]
fn a_history_in_which_holders_follow_each_other_is_fine() {
    let holds = vec![seen("a", 1, 10, 20), seen("b", 2, 20, 30), seen("a", 5, 31, 31)];
    let history = History { accepted: vec![1, 1, 2, 5], ..History::of(1, holds) };
    assert_eq!(history.faults(), Vec::<String>::new());
}

#[test]
fn overlaps_and_tokens_that_fall_are_found() {
    let holds = vec![seen("a", 1, 10, 50), seen("b", 2, 20, 30), seen("c", 3, 40, 45)];
    assert_eq!(History::of(1, holds).faults().len(), 2, "a long hold overlaps all within it");
    let holds = vec![seen("a", 2, 10, 20), seen("b", 2, 21, 30)];
    assert!(!History::of(1, holds).faults().is_empty(), "the same token twice");
    let holds = vec![seen("a", 3, 10, 20), seen("b", 2, 31, 32)];
    let faults = History::of(1, holds).order_faults();
    assert!(faults.iter().any(|fault| fault.contains("tokens do not rise")), "{faults:?}");
    let stale = History { accepted: vec![1, 3, 2], ..History::of(1, Vec::new()) };
    assert_eq!(stale.faults().len(), 1);
}

#[test]
fn permits_readers_and_writers_are_weighed() {
    let two = vec![seen("a", 1, 10, 50), seen("b", 2, 20, 30)];
    assert_eq!(History::of(2, two.clone()).faults(), Vec::<String>::new());
    let three = [two.clone(), vec![seen("c", 3, 25, 26)]].concat();
    assert_eq!(History::of(2, three).faults().len(), 1, "three hold two permits");
    let mut writer = seen("w", 3, 45, 60);
    writer.weight = 9;
    let with_writer = [two, vec![writer.clone()]].concat();
    assert_eq!(History::of(9, with_writer).faults().len(), 1, "a writer beside a reader");
    writer.token.epoch = 1;
    let later = vec![seen("r", 2, 10, 20), writer];
    assert!(!History::of(9, later).faults().is_empty(), "a writer with a token of the past");
    // Two permits that were asked for together may be noted in any order.
    let mut late = seen("late", 1, 40, 50);
    late.asked_nanos = 5;
    let together = vec![seen("early", 2, 10, 20), late];
    assert_eq!(History::of(2, together).faults(), Vec::<String>::new());
}
