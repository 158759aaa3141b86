//! The "database" of the oracle: a version for each key, in the test's own process, that worker
//! processes reach through a socket.
//!
//! It also knows what must be seen. One lock orders everything: a writer reports an invalidation
//! after it was applied, a reader asks for the *floor* before it reads. So the floor is never higher
//! than what the reader must see, whichever processes and clocks are involved.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};

/// First levels follow an invalidation within this time.
const CONVERGENCE: Duration = Duration::from_secs(1);
const REQUEST_BYTES: usize = 25;
const REPLY_BYTES: usize = 24;
/// Violations that are kept in full.
const MAX_KEPT: usize = 20;

/// What the workers are to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
#[repr(u64)]
pub(crate) enum Phase {
    /// Read and write while things break.
    Faults = 0,
    /// Redis answers (messages may get lost): first levels must converge.
    Calm = 1,
    /// The same without new writes; those under way are finished.
    Quiet = 2,
    /// The last write is a while ago; everything must be as promised.
    Settled = 3,
    Stop = 4,
}

#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Op {
    Load = 0,
    Commit = 1,
    Applied = 2,
    Queued = 3,
    Floor = 4,
    Violation = 5,
    Count = 6,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Tally {
    Reads = 0,
    StrongReads = 1,
    ReadErrors = 2,
    FromLocal = 3,
    Stale = 4,
    Settled = 5,
    /// Writers that have seen that there is nothing more to write.
    WritersDone = 6,
}

const TALLIES: usize = 7;

#[derive(Default)]
struct Row {
    version: u64,
    /// When which version's invalidation was applied, the last seconds of it.
    floors: VecDeque<(Instant, u64)>,
    floor: u64,
    floor_before: u64,
    /// Applied or queued, and when.
    promised: u64,
    promised_at: Option<Instant>,
}

impl Row {
    fn promise(&mut self, version: u64) {
        if version > self.promised {
            self.promised = version;
            self.promised_at = Some(Instant::now());
        }
    }
}

struct Shared {
    rows: Mutex<Vec<Row>>,
    phase: AtomicU64,
    loads: AtomicU64,
    applied: AtomicU64,
    queued: AtomicU64,
    violations: AtomicU64,
    kept: Mutex<Vec<String>>,
    tallies: [AtomicU64; TALLIES],
}

/// The server's side.
pub(crate) struct Database {
    shared: Arc<Shared>,
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl Database {
    pub(crate) fn start(folder: &Path, keys: usize) -> Self {
        let path = folder.join("database.sock");
        let listener = UnixListener::bind(&path).expect("a socket in an own folder");
        let shared = Arc::new(Shared {
            rows: Mutex::new((0..keys).map(|_| Row::default()).collect()),
            phase: AtomicU64::new(0),
            loads: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            violations: AtomicU64::new(0),
            kept: Mutex::default(),
            tallies: Default::default(),
        });
        let served = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(Arc::clone(&served), stream));
            }
        });
        Database { shared, path, task }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.path
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.shared.phase.store(phase as u64, Ordering::SeqCst);
    }

    pub(crate) fn count(&self, tally: Tally) -> u64 {
        self.shared.tallies[tally as usize].load(Ordering::SeqCst)
    }

    pub(crate) fn loads(&self) -> u64 {
        self.shared.loads.load(Ordering::SeqCst)
    }

    pub(crate) fn applied(&self) -> u64 {
        self.shared.applied.load(Ordering::SeqCst)
    }

    pub(crate) fn queued(&self) -> u64 {
        self.shared.queued.load(Ordering::SeqCst)
    }

    pub(crate) fn violations(&self) -> u64 {
        self.shared.violations.load(Ordering::SeqCst)
    }

    pub(crate) fn kept(&self) -> Vec<String> {
        self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn rows(&self) -> MutexGuard<'_, Vec<Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, op: u8, key: u64, a: u64, b: u64) -> [u64; 3] {
        let mut rows = self.rows();
        let row = usize::try_from(key).ok().and_then(|key| rows.get_mut(key));
        match (op, row) {
            (op, Some(row)) if op == Op::Load as u8 => {
                self.loads.fetch_add(1, Ordering::SeqCst);
                [row.version, 0, 0]
            }
            (op, Some(row)) if op == Op::Commit as u8 => {
                row.version += 1;
                [row.version, 0, 0]
            }
            (op, Some(row)) if op == Op::Applied as u8 => {
                self.applied.fetch_add(1, Ordering::SeqCst);
                row.floor = row.floor.max(a);
                row.promise(a);
                let floor = row.floor;
                row.floors.push_back((Instant::now(), floor));
                [0; 3]
            }
            (op, Some(row)) if op == Op::Queued as u8 => {
                self.queued.fetch_add(1, Ordering::SeqCst);
                row.promise(a);
                [0; 3]
            }
            (op, Some(row)) if op == Op::Floor as u8 => {
                while let Some(&(at, floor)) = row.floors.front()
                    && at.elapsed() >= CONVERGENCE
                {
                    row.floor_before = floor;
                    row.floors.pop_front();
                }
                let phase = self.phase.load(Ordering::SeqCst);
                let before =
                    if phase >= Phase::Settled as u64 { row.promised } else { row.floor_before };
                [row.floor, before, phase]
            }
            (op, Some(row)) if op == Op::Violation as u8 => {
                self.violations.fetch_add(1, Ordering::SeqCst);
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() < MAX_KEPT {
                    let (kind, worker) = (b & 0xff, b >> 8);
                    kept.push(format!(
                        "worker {worker}, key {key}: read {} where {} was due; kind {kind:x}; source at {}; \
                         {} was promised {:?} ago",
                        a >> 32, a & 0xffff_ffff, row.version, row.promised,
                        row.promised_at.map(|at| at.elapsed())
                    ));
                }
                [0; 3]
            }
            (op, _) if op == Op::Count as u8 => {
                if let Some(tally) = self.tallies.get(usize::try_from(a).unwrap_or(usize::MAX)) {
                    tally.fetch_add(b, Ordering::SeqCst);
                }
                [0; 3]
            }
            _ => [0; 3],
        }
    }
}

async fn serve(shared: Arc<Shared>, mut stream: UnixStream) {
    let mut request = [0; REQUEST_BYTES];
    // A worker that was killed ends its connections.
    while stream.read_exact(&mut request).await.is_ok() {
        let word = |at: usize| {
            u64::from_be_bytes(request[at..at + 8].try_into().expect("eight of 25 bytes"))
        };
        let answer = shared.answer(request[0], word(1), word(9), word(17));
        let mut reply = [0; REPLY_BYTES];
        for (part, word) in reply.chunks_exact_mut(8).zip(answer) {
            part.copy_from_slice(&word.to_be_bytes());
        }
        if stream.write_all(&reply).await.is_err() {
            return;
        }
    }
}

/// The floor of a key, and what else a reader must know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floor {
    /// What every strong read must see.
    pub(crate) now: u64,
    /// What was the floor a second ago; once settled, everything that was promised.
    pub(crate) before: u64,
    pub(crate) phase: Phase,
}

/// A worker's side; connections are reused.
#[derive(Clone)]
pub(crate) struct Client {
    path: Arc<PathBuf>,
    idle: Arc<Mutex<Vec<UnixStream>>>,
}

impl Client {
    pub(crate) fn new(path: &Path) -> Self {
        Client { path: Arc::new(path.to_owned()), idle: Arc::default() }
    }

    async fn ask(&self, op: Op, key: u64, a: u64, b: u64) -> io::Result<[u64; 3]> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut stream = match idle {
            Some(stream) => stream,
            None => UnixStream::connect(&*self.path).await?,
        };
        let mut request = [0; REQUEST_BYTES];
        request[0] = op as u8;
        for (part, word) in request[1..].chunks_exact_mut(8).zip([key, a, b]) {
            part.copy_from_slice(&word.to_be_bytes());
        }
        stream.write_all(&request).await?;
        let mut reply = [0; REPLY_BYTES];
        stream.read_exact(&mut reply).await?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        let word = |at: usize| u64::from_be_bytes(reply[at..at + 8].try_into().expect("eight"));
        Ok([word(0), word(8), word(16)])
    }

    pub(crate) async fn load(&self, key: u64) -> io::Result<u64> {
        Ok(self.ask(Op::Load, key, 0, 0).await?[0])
    }

    pub(crate) async fn commit(&self, key: u64) -> io::Result<u64> {
        Ok(self.ask(Op::Commit, key, 0, 0).await?[0])
    }

    pub(crate) async fn applied(&self, key: u64, version: u64) -> io::Result<()> {
        self.ask(Op::Applied, key, version, 0).await.map(drop)
    }

    pub(crate) async fn queued(&self, key: u64, version: u64) -> io::Result<()> {
        self.ask(Op::Queued, key, version, 0).await.map(drop)
    }

    pub(crate) async fn floor(&self, key: u64) -> io::Result<Floor> {
        let [now, before, phase] = self.ask(Op::Floor, key, 0, 0).await?;
        let phase = match phase {
            0 => Phase::Faults,
            1 => Phase::Calm,
            2 => Phase::Quiet,
            3 => Phase::Settled,
            _ => Phase::Stop,
        };
        Ok(Floor { now, before, phase })
    }

    pub(crate) async fn violation(
        &self,
        key: u64,
        got: u64,
        due: u64,
        kind_and_worker: u64,
    ) -> io::Result<()> {
        self.ask(Op::Violation, key, got << 32 | due, kind_and_worker).await.map(drop)
    }

    pub(crate) async fn count(&self, tally: Tally, by: u64) -> io::Result<()> {
        self.ask(Op::Count, 0, tally as u64, by).await.map(drop)
    }
}
