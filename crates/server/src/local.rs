//! A connection inside the process: no socket, no thread hop.
//!
//! A write feeds the engine on the caller's thread, so the reply is usually there when the write
//! returns, and the next read takes it. A read that finds nothing registers its waker with the hub,
//! which wakes it when another session, the event loop or a timer produces output.
//!
//! The session's whole output is swapped for an empty buffer, if possible by the very write that
//! produced it, and then read piece by piece without a lock. The two buffers alternate and keep
//! their capacity up to a limit.

use std::{
    io, mem,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use seawall_engine::{Ack, Engine, Output, Peer, SessionId, Transport};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::acks;
use crate::hub::{Hub, Route, Settled, Waiting, drop_overflow, lock};

/// A drained buffer above this capacity is given back to the allocator.
const KEPT_CAPACITY: usize = 64 * 1024;

/// An in-process connection to the engine that speaks RESP.
///
/// Dropping it closes the session, as closing a socket would.
///
/// # Cancel safety
/// A write is executed when `poll_write` returns; dropping the future later undoes nothing.
pub struct LocalStream {
    hub: Arc<Hub>,
    session: SessionId,
    waiting: Arc<Mutex<Waiting>>,
    inbox: Output,
    /// The parts of `inbox` that acknowledge changes.
    acks: Vec<Ack>,
    /// Position of the log that `inbox` waits for.
    barrier: u64,
    /// The session ends once its output is read.
    ending: bool,
    /// The session accepts no input at the moment.
    full: bool,
    /// Output was dropped because too much was left unread.
    overflowed: bool,
    /// The session was closed.
    closed: bool,
}

impl LocalStream {
    pub(crate) fn open(hub: Arc<Hub>) -> Self {
        let peer =
            Peer { addr: "local".into(), local_addr: "local".into(), transport: Transport::Local };
        let session = hub.core.open(peer);
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        hub.add_route(session, Route::Local(Arc::clone(&waiting)));
        Self {
            hub,
            session,
            waiting,
            inbox: Output::default(),
            acks: Vec::new(),
            barrier: 0,
            ending: false,
            full: false,
            overflowed: false,
            closed: false,
        }
    }

    /// Copies the rest of the inbox to `buf`.
    fn serve(&mut self, buf: &mut ReadBuf<'_>) {
        while !self.inbox.is_empty() && buf.remaining() > 0 {
            let front = self.inbox.front();
            let count = front.len().min(buf.remaining());
            buf.put_slice(&front[..count]);
            self.inbox.advance(count);
        }
        if self.inbox.is_empty() {
            self.inbox.clear(KEPT_CAPACITY);
        }
    }

    /// Settles what this stream fed, and takes the session's output if the inbox is empty.
    fn collect(&mut self, hub: &Hub, engine: &mut Engine) -> Settled {
        // Effects go first; see the hub's invariant.
        let settled = hub.settle(engine, Some(self.session));
        if self.inbox.is_empty()
            && let Some(output) = engine.output(self.session)
        {
            mem::swap(output, &mut self.inbox);
            self.barrier = settled.position;
            self.acks.clear();
            engine.take_acks(self.session, &mut self.acks);
        }
        // Output that does not fit into the inbox is limited like any client's unread output.
        self.overflowed |= drop_overflow(engine, self.session) || engine.wants_drop(self.session);
        engine.set_unsent(self.session, self.inbox.len());
        self.ending = self.overflowed || engine.wants_close(self.session);
        self.full = !engine.wants_input(self.session);
        settled
    }

    /// Ends the session; idempotent.
    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.hub.close(self.session);
            let settled = self.hub.settle(&mut self.hub.core.engine(), Some(self.session));
            self.hub.finish(settled);
        }
    }
}

impl AsyncRead for LocalStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.inbox.is_empty() && !this.closed {
            if this.hub.is_stopped() {
                return Poll::Ready(Ok(()));
            }
            let hub = Arc::clone(&this.hub);
            let mut engine = hub.core.engine();
            let settled = this.collect(&hub, &mut engine);
            let mut waiting = lock(&this.waiting);
            this.overflowed |= waiting.overflowed;
            let wait = this.inbox.is_empty() && !this.ending && !this.overflowed;
            if wait {
                // Registered under the engine's lock, so no output can slip in between.
                waiting.reader = Some(cx.waker().clone());
            }
            drop(waiting);
            drop(engine);
            hub.finish(settled);
            if wait {
                return Poll::Pending;
            }
        }
        if this.overflowed {
            this.close();
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if this.inbox.is_empty() {
            // The session has ended, and all its output is read.
            this.close();
            return Poll::Ready(Ok(()));
        }
        if !this.hub.is_released(this.barrier) {
            this.hub.wait_for_log(cx.waker());
            if !this.hub.is_released(this.barrier) {
                let lost = this.hub.is_log_lost() || this.hub.is_stopped();
                let trouble = this.hub.log_trouble();
                if !lost && trouble.is_none() {
                    return Poll::Pending;
                }
                // A write that a reply acknowledges is not in the log: the client gets an error, or
                // is disconnected.
                let why = trouble.unwrap_or_default();
                if lost || !acks::confess(&mut this.inbox, &mut this.acks, &why) {
                    this.close();
                    return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                }
            }
        }
        this.serve(buf);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.closed || this.hub.is_stopped() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if this.ending {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let hub = Arc::clone(&this.hub);
        if this.full {
            let engine = hub.core.engine();
            if !engine.wants_input(this.session) {
                lock(&this.waiting).writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
        hub.core.feed(this.session, buf);
        let settled = this.collect(&hub, &mut hub.core.engine());
        hub.finish(settled);
        // A task that reads on another thread waits for the output of this write.
        let reader = lock(&this.waiting).reader.take();
        if let Some(reader) = reader {
            reader.wake();
        }
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the session. Replies produced so far can still be read.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.closed {
            let hub = Arc::clone(&this.hub);
            let mut engine = hub.core.engine();
            let settled = hub.settle(&mut engine, Some(this.session));
            let known = this.acks.len();
            let output = engine.output(this.session);
            let before = output.map_or(0, |output| this.inbox.append(output));
            engine.take_acks(this.session, &mut this.acks);
            acks::shift(&mut this.acks[known..], before);
            drop(engine);
            this.barrier = settled.position;
            hub.finish(settled);
            this.close();
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for LocalStream {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for LocalStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalStream").field("session", &self.session).finish_non_exhaustive()
    }
}
