//! What holders of a lock saw, and whether it can be true.
//!
//! Every process appends to one file: when it took the lock and under which token, each moment at
//! which it still believed to hold it, and when it was told of the loss. The clock is the machine's
//! monotonic one, the same for all. A hold is the time from the first of these moments to the last;
//! since both were taken while the holder believed to hold, two holds that overlap are a broken
//! promise, whatever the reason.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use rustix::time::{ClockId, clock_gettime};
use seawall::lock::Token;

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

    /// One line in one write: lines of several processes do not mix.
    pub(crate) fn note(&mut self, at_nanos: u64, what: &str, token: Token) {
        let worker = &self.worker;
        let line = format!("{at_nanos} {worker} {what} {} {}\n", token.epoch, token.sequence);
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
    pub(crate) from_nanos: u64,
    pub(crate) to_nanos: u64,
    pub(crate) lost: bool,
}

/// All that was seen.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) holds: Vec<Seen>,
    pub(crate) accepted: Vec<u64>,
    /// Writes that the resource refused.
    pub(crate) refused: usize,
}

impl History {
    pub(crate) fn read(path: &Path, resource: &Resource) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut history = History { accepted: resource.accepted(), ..History::default() };
        // By worker: its last hold is the one that its lines speak of.
        let mut open: BTreeMap<String, Seen> = BTreeMap::new();
        for line in text.lines() {
            let [at, worker, what, epoch, sequence] =
                line.split(' ').collect::<Vec<_>>().try_into().expect("five words");
            let number = |text: &str| text.parse::<u64>().expect("a number");
            let at = number(at);
            match what {
                "acquired" => {
                    let seen = Seen {
                        worker: worker.to_owned(),
                        token: Token { epoch: number(epoch), sequence: number(sequence) },
                        from_nanos: at,
                        to_nanos: at,
                        lost: false,
                    };
                    history.holds.extend(open.insert(worker.to_owned(), seen));
                }
                "valid" => open.get_mut(worker).expect("it holds").to_nanos = at,
                "lost" => open.get_mut(worker).expect("it held").lost = true,
                "refused" => history.refused += 1,
                other => panic!("{other} is no word of a history"),
            }
        }
        history.holds.extend(open.into_values());
        history.holds.sort_by_key(|seen| seen.from_nanos);
        history
    }

    /// What cannot be true, if anything.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = self.order_faults();
        let mut longest: Option<&Seen> = None;
        for seen in &self.holds {
            if let Some(before) = longest
                && before.to_nanos > seen.from_nanos
            {
                faults.push(format!("two at once: {before:?} and {seen:?}"));
            }
            if longest.is_none_or(|before| seen.to_nanos > before.to_nanos) {
                longest = Some(seen);
            }
        }
        faults
    }

    /// The same without exclusion: what holds even over a server that lost its data.
    pub(crate) fn order_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for pair in self.holds.windows(2) {
            if pair[1].token <= pair[0].token {
                faults.push(format!("tokens do not rise: {:?} then {:?}", pair[0], pair[1]));
            }
        }
        if !self.accepted.is_sorted() {
            faults.push("the resource accepted a token of the past".to_owned());
        }
        faults
    }
}

fn seen(worker: &str, epoch: u64, from_nanos: u64, to_nanos: u64) -> Seen {
    let token = Token { epoch, sequence: epoch };
    Seen { worker: worker.to_owned(), token, from_nanos, to_nanos, lost: false }
}

#[test]
fn a_history_in_which_holders_follow_each_other_is_fine() {
    let holds = vec![seen("a", 1, 10, 20), seen("b", 2, 20, 30), seen("a", 5, 31, 31)];
    let history = History { holds, accepted: vec![1, 1, 2, 5], refused: 0 };
    assert_eq!(history.faults(), Vec::<String>::new());
}

#[test]
fn overlaps_and_tokens_that_fall_are_found() {
    let holds = vec![seen("a", 1, 10, 50), seen("b", 2, 20, 30), seen("c", 3, 40, 45)];
    let overlapping = History { holds, ..History::default() };
    assert_eq!(overlapping.faults().len(), 2, "a long hold overlaps all within it");
    let holds = vec![seen("a", 2, 10, 20), seen("b", 2, 21, 30)];
    assert_eq!(History { holds, ..History::default() }.faults().len(), 1);
    let stale = History { accepted: vec![1, 3, 2], ..History::default() };
    assert_eq!(stale.faults().len(), 1);
}
