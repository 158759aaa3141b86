//! One connection shared by many tasks.
//!
//! The throughput of a connection depends on how many commands share one write and one read.
//! Callers therefore append their commands to one buffer, and the task that drives the connection
//! lets all other ready tasks run once before it writes: 64 callers need a handful of system calls
//! instead of 64. A lone caller is not delayed. When many replies arrive at once, only a few
//! callers are answered before the next commands are written, so the server is busy again while the
//! other callers still read their replies. Benchmarks against the client library's own multiplexed
//! connection: docs/benchmarks-toolkit.md.
//!
//! Replies arrive in the order of the commands, so a queue of waiting callers is sufficient. A
//! caller that gave up keeps its place in the queue. The driver enforces time-outs with one timer
//! for all callers: the caller that has waited longest is first in the queue.
//!
//! A caller learns whether its command may have been executed: commands that were still in the
//! buffer when the connection ended were certainly not.

use std::{
    collections::VecDeque,
    future::poll_fn,
    mem,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::{future::BoxFuture, task::AtomicWaker};
use redis::{Cmd, Pipeline};
use seawall_resilience::clock::{Clock, Moment};
use tokio::{io::AsyncWrite, sync::oneshot};
use tokio_util::io::poll_read_buf;

use super::{
    replies::{Replies, Reply},
    transport::ByteStream,
};
use crate::error::{Error, Result};

/// Maximum number of callers waiting on one connection. Beyond that the server is so far behind
/// that further replies would come too late.
const MAX_WAITING: usize = 1 << 18;
/// Number of callers answered before commands are written again. A lower number means more system
/// calls; with a higher number server and callers take turns instead of working concurrently.
const ANSWERS_AT_ONCE: usize = 16;
/// A buffer larger than this is freed instead of reused.
const KEPT_BYTES: usize = 256 * 1024;

/// A connection. Dropping it ends it, even while callers wait for replies.
pub(crate) struct MultiplexedConnection {
    shared: Arc<Shared>,
    driver: tokio::task::AbortHandle,
}

struct Shared {
    /// Unique number of the connection.
    number: u64,
    outbox: Mutex<Outbox>,
    driver: AtomicWaker,
    /// Number of reads that returned data.
    heard: AtomicU64,
    /// Number of reads that returned nothing.
    looked: AtomicU64,
}

/// Commands that the driver has not taken yet.
#[derive(Default)]
struct Outbox {
    bytes: Vec<u8>,
    callers: Vec<Caller>,
    /// Callers whose commands the driver took but has not answered yet.
    in_flight: usize,
    /// The driver has been woken but has not run yet.
    told: bool,
    /// Why no more commands are accepted.
    ended: Option<Arc<str>>,
}

/// A caller that waits for the next replies.
enum Caller {
    One(oneshot::Sender<Result<Reply>>),
    Several {
        replies: usize,
        so_far: Vec<Reply>,
        answer: oneshot::Sender<Result<Vec<Reply>>>,
    },
    /// The caller has already received a time-out error.
    Late {
        replies: usize,
    },
}

impl Caller {
    fn fail(self, error: Error) {
        // A caller that is gone need not be notified.
        match self {
            Caller::One(answer) => drop(answer.send(Err(error))),
            Caller::Several { answer, .. } => drop(answer.send(Err(error))),
            Caller::Late { .. } => {}
        }
    }

    /// Notifies the caller of an error and keeps its place in the queue.
    fn give_up(&mut self, error: Error) {
        let replies = match self {
            Caller::One(_) => 1,
            Caller::Several { replies, so_far, .. } => *replies - so_far.len(),
            Caller::Late { replies } => *replies,
        };
        mem::replace(self, Caller::Late { replies }).fail(error);
    }
}

impl Shared {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Shared {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            outbox: Mutex::default(),
            driver: AtomicWaker::new(),
            heard: AtomicU64::new(0),
            looked: AtomicU64::new(0),
        }
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Activity counters of a connection.
///
/// If `looked` changed between two samples and `heard` did not, the server was silent. If `looked`
/// did not change either, this process is behind and has not read the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulse {
    connection: u64,
    /// Number of reads that returned data from the server.
    pub heard: u64,
    /// Number of reads that found nothing.
    pub looked: u64,
}

impl Pulse {
    /// Returns `true` if something arrived after `earlier` on the same connection.
    pub fn goes_on_after(self, earlier: Pulse) -> bool {
        self.connection == earlier.connection && self.heard != earlier.heard
    }
}

impl MultiplexedConnection {
    /// Starts a connection over a stream. `patience` is the time-out for replies.
    pub(super) fn over(
        stream: Box<dyn ByteStream>,
        patience: Option<Duration>,
        clock: &Clock,
    ) -> Self {
        let shared = Arc::new(Shared::new());
        let driver = Driver::new(Arc::clone(&shared), stream, patience, clock.clone());
        let driver = tokio::spawn(driver.run()).abort_handle();
        MultiplexedConnection { shared, driver }
    }

    /// Returns the number of reads that returned data. If it does not change while a caller waits,
    /// the server is silent.
    pub(crate) fn heard(&self) -> u64 {
        self.shared.heard.load(Ordering::Relaxed)
    }

    /// Returns the activity counters.
    pub(crate) fn pulse(&self) -> Pulse {
        let looked = self.shared.looked.load(Ordering::Relaxed);
        Pulse { connection: self.shared.number, heard: self.heard(), looked }
    }

    /// Makes the driver read the connection once more.
    pub(crate) fn look(&self) {
        self.shared.driver.wake();
    }

    /// Returns `true` if commands are still accepted.
    pub(crate) fn is_open(&self) -> bool {
        self.shared.outbox().ended.is_none()
    }

    /// Sends one command.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Reply> {
        let (answer, reply) = oneshot::channel();
        self.submit(Caller::One(answer), |bytes| command.write_packed_command(bytes))?;
        reply.await.unwrap_or_else(|_| Err(given_up()))
    }

    /// Sends several commands in one write and returns a reply for each.
    pub(crate) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Reply>> {
        let replies = commands.len();
        if replies == 0 {
            return Ok(Vec::new());
        }
        let (answer, reply) = oneshot::channel();
        let caller = Caller::Several { replies, so_far: Vec::with_capacity(replies), answer };
        self.submit(caller, |bytes| {
            commands.cmd_iter().for_each(|command| command.write_packed_command(bytes));
        })?;
        reply.await.unwrap_or_else(|_| Err(given_up()))
    }

    fn submit(&self, caller: Caller, write: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let mut outbox = self.shared.outbox();
        if let Some(cause) = &outbox.ended {
            return Err(Error::Unavailable(Arc::clone(cause)));
        }
        if outbox.in_flight + outbox.callers.len() >= MAX_WAITING {
            return Err(Error::Unavailable("too many commands wait for the server".into()));
        }
        write(&mut outbox.bytes);
        outbox.callers.push(caller);
        if !mem::replace(&mut outbox.told, true) {
            drop(outbox);
            self.shared.driver.wake();
        }
        Ok(())
    }
}

impl Drop for MultiplexedConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The connection was replaced while a caller waited.
fn given_up() -> Error {
    Error::Indeterminate { waited: Duration::ZERO, cause: "the connection was given up".into() }
}

/// Reads from and writes to the stream.
struct Driver {
    shared: Arc<Shared>,
    stream: Box<dyn ByteStream>,
    replies: Replies,
    /// Waiting callers in the order of replies, with the time at which the driver took their
    /// commands.
    waiting: VecDeque<(Caller, Moment)>,
    /// Number of callers at the front of the queue that have received a time-out error.
    late: usize,
    outgoing: Vec<u8>,
    /// Number of bytes of `outgoing` that the stream accepted.
    written: usize,
    /// Other tasks have been allowed to run before the pending commands are written.
    held_back: bool,
    /// More data may have arrived than has been read.
    unread: bool,
    patience: Option<Duration>,
    clock: Clock,
    timer: Option<BoxFuture<'static, ()>>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The driver ended by itself or with its runtime: nothing else would notify the waiting
        // callers.
        self.end("the connection's task ended".into());
    }
}

impl Driver {
    fn new(
        shared: Arc<Shared>,
        stream: Box<dyn ByteStream>,
        patience: Option<Duration>,
        clock: Clock,
    ) -> Self {
        Driver {
            shared,
            stream,
            replies: Replies::default(),
            waiting: VecDeque::new(),
            late: 0,
            outgoing: Vec::new(),
            written: 0,
            held_back: false,
            unread: false,
            patience,
            clock,
            timer: None,
        }
    }

    async fn run(mut self) {
        let cause: Arc<str> = poll_fn(|cx| self.poll(cx)).await.into();
        tracing::debug!(%cause, "a connection ended");
        self.end(cause);
    }

    /// Rejects further commands and notifies all waiting callers.
    fn end(&mut self, cause: Arc<str>) {
        let mut outbox = self.shared.outbox();
        let cause = Arc::clone(outbox.ended.get_or_insert(cause));
        outbox.bytes = Vec::new();
        let unsent = mem::take(&mut outbox.callers);
        drop(outbox);
        let now = self.clock.now();
        for (caller, since) in self.waiting.drain(..) {
            let cause = Arc::clone(&cause);
            caller.fail(Error::Indeterminate { waited: now.since(since), cause });
        }
        for caller in unsent {
            caller.fail(Error::Unavailable(Arc::clone(&cause)));
        }
    }

    /// Returns `Ready` with the reason when the connection ends.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        if let Poll::Ready(cause) = self.read(cx) {
            return Poll::Ready(cause);
        }
        // Registered before the outbox is checked: a caller that comes after the check finds a
        // waker.
        self.shared.driver.register(cx.waker());
        if !self.take(cx) {
            return Poll::Pending;
        }
        if let Poll::Ready(Err(error)) = self.write(cx) {
            return Poll::Ready(error.to_string());
        }
        // A caller whose reply has arrived is not late: after a stall of this process there may be
        // many.
        if !self.unread {
            self.watch_the_time(cx);
        }
        Poll::Pending
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        loop {
            let before = self.waiting.len();
            loop {
                match self.replies.next() {
                    Ok(Some(reply)) if !self.waiting.is_empty() => self.answer(reply),
                    Ok(None) => break,
                    _ => return Poll::Ready("the server's replies make no sense".to_owned()),
                }
                if before - self.waiting.len() == ANSWERS_AT_ONCE {
                    break;
                }
            }
            let answered = before - self.waiting.len();
            if answered > 0 {
                self.shared.outbox().in_flight -= answered;
            }
            if answered == ANSWERS_AT_ONCE {
                // The answered callers run first; what they send is written without delay.
                self.held_back = true;
                self.unread = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let read = poll_read_buf(Pin::new(&mut self.stream), cx, self.replies.room());
            self.unread = false;
            if read.is_pending() {
                self.shared.looked.fetch_add(1, Ordering::Relaxed);
            }
            match ready!(read) {
                Ok(0) => return Poll::Ready("the server closed the connection".to_owned()),
                Ok(_) => {}
                Err(error) => return Poll::Ready(error.to_string()),
            }
            self.shared.heard.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Delivers a reply to the first caller in the queue.
    fn answer(&mut self, reply: Reply) {
        let Some((caller, _)) = self.waiting.front_mut() else { return };
        let missing = match caller {
            Caller::One(_) => 0,
            Caller::Several { replies, so_far, .. } => *replies - so_far.len() - 1,
            Caller::Late { replies } => {
                *replies -= 1;
                *replies
            }
        };
        if missing > 0 {
            if let Caller::Several { so_far, .. } = caller {
                so_far.push(reply);
            }
            return;
        }
        self.late = self.late.saturating_sub(1);
        match self.waiting.pop_front() {
            Some((Caller::One(answer), _)) => drop(answer.send(Ok(reply))),
            Some((Caller::Several { mut so_far, answer, .. }, _)) => {
                so_far.push(reply);
                drop(answer.send(Ok(so_far)));
            }
            _ => {}
        }
    }

    /// Takes the pending commands. Returns `false` if other tasks should run first, because they
    /// may add more.
    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        let mut outbox = self.shared.outbox();
        if outbox.callers.is_empty() {
            return true;
        }
        let alone = outbox.callers.len() == 1 && self.waiting.is_empty();
        if !alone && !mem::replace(&mut self.held_back, true) {
            cx.waker().wake_by_ref();
            return false;
        }
        self.held_back = false;
        outbox.told = false;
        outbox.in_flight += outbox.callers.len();
        let now = self.clock.now();
        self.waiting.extend(outbox.callers.drain(..).map(|caller| (caller, now)));
        if self.written == self.outgoing.len() {
            self.outgoing.clear();
            self.written = 0;
            mem::swap(&mut self.outgoing, &mut outbox.bytes);
        } else {
            self.outgoing.append(&mut outbox.bytes);
        }
        if outbox.bytes.capacity() > KEPT_BYTES {
            outbox.bytes = Vec::new();
        }
        true
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        if self.written == self.outgoing.len() {
            return Poll::Ready(Ok(()));
        }
        while self.written < self.outgoing.len() {
            let rest = &self.outgoing[self.written..];
            let count = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if count == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Notifies callers that have waited too long. The timer is set for the first caller in the
    /// queue and checked when it fires: usually all callers have been answered by then.
    fn watch_the_time(&mut self, cx: &mut Context<'_>) {
        let Some(patience) = self.patience else { return };
        loop {
            let Some((_, since)) = self.waiting.get(self.late) else { return };
            let due = *since + patience;
            let timer = match &mut self.timer {
                Some(timer) => timer,
                None => {
                    let clock = self.clock.clone();
                    self.timer.insert(Box::pin(async move { clock.sleep_until(due).await }))
                }
            };
            if timer.as_mut().poll(cx).is_pending() {
                return;
            }
            self.timer = None;
            let now = self.clock.now();
            while let Some((caller, since)) = self.waiting.get_mut(self.late)
                && *since + patience <= now
            {
                caller.give_up(Error::Indeterminate {
                    waited: patience,
                    cause: "the server did not answer in time".into(),
                });
                self.late += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
