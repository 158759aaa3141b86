//! The end of a turn: sends replies, ends finished connections, does the host's duties.
//!
//! One lock of the engine collects everything; the log is written before the first reply. A
//! connection whose replies wait for the log is set aside and checked again when the log reports.

use std::{mem, time::Duration};

use seawall_engine::{Engine, HostRequest};

use crate::{
    connection::{Output, Stage},
    error::StopError,
    event_loop::{EventLoop, Sleep},
    hub::{Settled, lock},
    limits,
    notice::Level,
    sockets::{Admission, Sockets},
    turns::Duty,
};

/// For outputs up to this size the engine is not told that they have left.
const UNTOLD_BYTES: usize = 1024;
/// Time that a closing connection may take to accept the rest of its output.
const LINGER_MS: u64 = 10_000;

impl EventLoop {
    /// Sends all pending output. Returns how long the loop may sleep.
    pub(crate) fn flush(&self, until_tick_ms: u64) -> Sleep {
        let mut guard = lock(&self.sockets);
        let sockets = &mut *guard;
        let mut requests = Vec::new();
        for slot in mem::take(&mut sockets.held) {
            sockets.mark(slot);
        }
        loop {
            let (settled, mut sleep, mut dirty) = self.busy_with(Duty::Collect, || {
                self.collect_all(sockets, &mut requests, until_tick_ms)
            });
            self.busy_with(Duty::Log, || self.hub.finish(settled));
            self.busy_with(Duty::Send, || {
                for slot in dirty.drain(..) {
                    self.send(sockets, slot);
                }
                self.tell_unsent(sockets);
            });
            if sockets.dirty.is_empty() {
                sockets.dirty = dirty; // Kept for its capacity.
                drop(guard);
                if !requests.is_empty() {
                    if self.busy_with(Duty::Host, || self.hub.handle(requests)) {
                        let admission = Admission::of(self.hub.core.engine().settings());
                        lock(&self.sockets).admission = admission;
                    }
                    // Clients that got their replies may have more to do.
                    self.hub.core.tick();
                    sleep.timeout = Duration::ZERO;
                }
                return sleep;
            }
        }
    }

    /// Stages all effects and takes all output, under one lock of the engine.
    fn collect_all(
        &self,
        sockets: &mut Sockets,
        requests: &mut Vec<HostRequest>,
        until_tick_ms: u64,
    ) -> (Settled, Sleep, Vec<usize>) {
        let mut engine = self.hub.core.engine();
        let settled = self.hub.settle(&mut engine, None);
        let mut touched = mem::take(&mut sockets.touched);
        self.hub.take_sockets(&mut touched, requests);
        touched.drain(..).for_each(|slot| sockets.mark(slot));
        sockets.touched = touched;
        let dirty = mem::take(&mut sockets.dirty);
        for &slot in &dirty {
            self.collect(sockets, &mut engine, slot, settled.position);
        }
        let sleep = self.sleep(&engine, until_tick_ms);
        (settled, sleep, dirty)
    }

    /// Moves a connection's output out of the engine and reads what the engine requests for it.
    fn collect(&self, sockets: &mut Sockets, engine: &mut Engine, slot: usize, position: u64) {
        let now_ms = sockets.now_ms;
        let Some(connection) = sockets.connections.get_mut(slot) else { return };
        connection.dirty = false;
        if !connection.in_engine {
            return;
        }
        let session = connection.session;
        if connection.stage == Stage::Open && engine.wants_close(session) {
            connection.stage = Stage::Closing;
            connection.active_ms = now_ms;
        }
        connection.take(engine, position);
        if engine.wants_drop(session) {
            connection.stage = Stage::Doomed;
            return;
        }
        connection.told = connection.unsent();
        engine.set_unsent(session, connection.told);
        let Some(output) = engine.output(session) else { return };
        let waiting = connection.unsent() + output.len();
        if waiting > 0 && limits::is_exceeded(connection, engine, waiting, now_ms) {
            let text = format_args!("closing a client with {waiting} bytes of unread output");
            self.hub.notices.tell(Level::Warning, text);
            connection.stage = Stage::Doomed;
            return;
        }
        let paused = !engine.wants_input(session);
        let look_again = (connection.paused && !paused) || (paused && connection.peer_closed);
        connection.paused = paused;
        if look_again && connection.readable {
            sockets.queue(slot);
        }
    }

    /// Reports to the engine how much of the large outputs is still here.
    fn tell_unsent(&self, sockets: &mut Sockets) {
        if sockets.sent.is_empty() {
            return;
        }
        let mut engine = self.hub.core.engine();
        for slot in sockets.sent.drain(..) {
            if let Some(connection) = sockets.connections.get_mut(slot)
                && connection.in_engine
            {
                connection.told = connection.unsent();
                engine.set_unsent(connection.session, connection.told);
            }
        }
    }

    /// Writes a connection's output, and ends the connection if it is due.
    fn send(&self, sockets: &mut Sockets, slot: usize) {
        let executing = sockets.executing.contains(&slot);
        let Some(connection) = sockets.connections.get_mut(slot) else { return };
        if connection.stage != Stage::Open && connection.in_engine && !executing {
            // All its output was taken. A blocked or subscribed session must not stay in the
            // engine.
            self.hub.close(connection.session);
            connection.in_engine = false;
            connection.more = false;
        }
        if connection.unsent() > 0 && !self.hub.is_released(connection.barrier) {
            let trouble = self.hub.log_trouble();
            if trouble.is_none() {
                sockets.held.push(slot);
                return;
            }
            // A write that a reply acknowledges is not in the log: the client gets an error, or is
            // disconnected.
            if self.hub.is_log_lost() || !connection.confess(&trouble.unwrap_or_default()) {
                connection.stage = Stage::Doomed;
            }
        }
        let outcome = match connection.stage {
            Stage::Doomed => Output::Broken,
            Stage::Open | Stage::Closing => sockets.write(slot),
        };
        let Some(connection) = sockets.connections.get_mut(slot) else { return };
        if connection.told > UNTOLD_BYTES && connection.told != connection.unsent() {
            sockets.sent.push(slot);
        }
        match outcome {
            Output::Done if connection.more => sockets.mark(slot),
            Output::Done if connection.stage == Stage::Open || executing => {}
            Output::Done => sockets.remove(&self.hub, slot),
            Output::Blocked => {}
            // Ends for good once its request is finished.
            Output::Broken if executing => connection.stage = Stage::Doomed,
            Output::Broken => sockets.remove(&self.hub, slot),
        }
    }

    /// Returns how long the loop may sleep. Called under the engine's lock, so that an earlier
    /// deadline set later by an in-process caller is noticed and wakes the loop.
    fn sleep(&self, engine: &Engine, until_tick_ms: u64) -> Sleep {
        let deadline = engine.next_deadline();
        let mut timeout_ms = until_tick_ms;
        if let Some(at) = deadline {
            // At least 1 ms: a deadline that has passed may have to wait for a script.
            let left = at.saturating_sub(self.unix_ms()).max(1);
            timeout_ms = timeout_ms.min(left.unsigned_abs());
            self.hub.set_sleep(at);
        } else {
            self.hub.set_sleep(i64::MAX);
        }
        Sleep { timeout: Duration::from_millis(timeout_ms), deadline }
    }

    /// Checks every connection for idle clients, slow readers and connections that fail to end.
    pub(crate) fn sweep(&self) {
        let mut guard = lock(&self.sockets);
        let sockets = &mut *guard;
        sockets.retry_accept();
        let now_ms = sockets.now_ms;
        let mut engine = self.hub.core.engine();
        if let Some(journal) = &self.hub.journal {
            journal.tick(&mut engine);
        }
        let idle_ms = u64::try_from(engine.settings().timeout).unwrap_or(0) * 1000;
        let mut look = mem::take(&mut sockets.touched);
        for (slot, connection) in &mut sockets.connections {
            let quiet_ms = now_ms.saturating_sub(connection.active_ms);
            let overdue = match connection.stage {
                Stage::Open => {
                    idle_ms > 0
                        && quiet_ms > idle_ms
                        && !engine.is_blocked(connection.session)
                        && !engine.is_subscriber(connection.session)
                }
                Stage::Closing => quiet_ms > LINGER_MS,
                Stage::Doomed => true,
            };
            if overdue {
                connection.stage = Stage::Doomed;
            }
            if overdue || connection.soft_since_ms.is_some() {
                look.push(slot);
            }
        }
        drop(engine);
        look.drain(..).for_each(|slot| sockets.mark(slot));
        sockets.touched = look;
    }

    /// Ends everything: sends what can be sent at once, makes the log durable, closes all clients.
    pub(crate) fn say_goodbye(&self) -> Result<(), StopError> {
        let _ = self.flush(0);
        let closed = self.hub.journal.as_ref().map_or(Ok(()), |journal| journal.close());
        // Replies that waited for the log may leave now.
        let _ = self.flush(0);
        let mut sockets = lock(&self.sockets);
        let slots: Vec<usize> = sockets.connections.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            sockets.remove(&self.hub, slot);
        }
        sockets.stop_listening();
        drop(sockets);
        self.hub.set_stopped();
        if let Some(journal) = &self.hub.journal {
            journal.release();
        }
        Ok(closed?)
    }
}
