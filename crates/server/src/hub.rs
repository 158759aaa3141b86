//! Shared state of the threads that feed the engine.
//!
//! The event loop's thread and the threads of in-process callers execute commands side by side.
//! Each can produce output for sessions of the others: a published message, a list element for a
//! blocked client. A thread that fed the engine *settles* afterwards: it stages the effects in the
//! log, and routes the sessions with new output. An in-process session is woken through its waker.
//! A session on a socket is put on the list of the event loop, which is woken only if it sleeps.
//!
//! Locks, in the order they are taken: the loop's sockets, the engine, the exchange, a session's
//! wakers. Wakers run with none of them held.
//!
//! Invariant: output leaves the engine only after the effects before it were staged, under the same
//! engine lock. So a reply never overtakes the write it acknowledges.

use std::{
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    task::Waker,
};

use seawall_engine::{Core, Engine, Garbage, HostRequest, SessionId};

use crate::{
    cleaner::Cleaner,
    journal::Journal,
    limits,
    notice::{Level, Notices},
};

/// Takes a lock whose holder may have panicked: the guarded data are lists that stay usable.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shared state of an in-process session.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// The session left more output unread than allowed; the output was dropped and the stream
    /// ends.
    pub(crate) overflowed: bool,
    /// Waits for output.
    pub(crate) reader: Option<Waker>,
    /// Waits until the session accepts input again.
    pub(crate) writer: Option<Waker>,
}

/// Drops the output of an in-process session that is above its hard limit. Returns `true` if it
/// was.
///
/// Limit: the soft limit does not apply to in-process sessions.
pub(crate) fn drop_overflow(engine: &mut Engine, session: SessionId) -> bool {
    let limit = limits::of(engine, session);
    let Some(output) = engine.output(session) else { return false };
    let over = limits::judge(limit, output.len() as u64, 0, &mut None);
    if over {
        engine.drop_output(session);
    }
    over
}

/// Destination of a session's output.
#[derive(Debug, Clone)]
pub(crate) enum Route {
    /// A connection of the event loop, by its slot.
    Socket(usize),
    /// A stream in this process.
    Local(Arc<Mutex<Waiting>>),
}

/// State for settling, guarded by one lock that is taken under the engine's.
#[derive(Default)]
struct Exchange {
    /// Indexed by session slot.
    routes: Vec<Option<Route>>,
    /// Slots of connections that the event loop must check.
    sockets: Vec<usize>,
    /// The engine's requests to its host.
    requests: Vec<HostRequest>,
    touched: Vec<SessionId>,
    effects: Vec<u8>,
}

/// The shared state of one server.
pub(crate) struct Hub {
    pub(crate) core: Arc<Core>,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) notices: Notices,
    exchange: Mutex<Exchange>,
    /// Wakes the event loop; a [`Host`](crate::Host) has none.
    waker: Option<mio::Waker>,
    /// When the event loop wakes by itself, in unix milliseconds.
    sleeps_until: AtomicI64,
    /// In-process tasks whose replies wait for the log.
    held: Mutex<Vec<Waker>>,
    /// The engine was told to refuse writes.
    refusing: AtomicBool,
    /// A script was aborted during shutdown; nothing is logged from there on.
    abandoned: AtomicBool,
    /// Frees large values on a thread; `None` frees them at once.
    cleaner: Option<Cleaner>,
    stopping: AtomicBool,
    stopped: AtomicBool,
}

/// Work that remains once the engine's lock is released.
#[derive(Default)]
#[must_use = "waiting tasks are only woken by `finish`"]
pub(crate) struct Settled {
    /// Everything up to this position must be written before output that was taken now is
    /// delivered.
    pub(crate) position: u64,
    wakers: Vec<Waker>,
    wake_loop: bool,
    garbage: Vec<Garbage>,
}

impl Hub {
    pub(crate) fn new(
        core: Arc<Core>,
        journal: Option<Arc<dyn Journal>>,
        notices: Notices,
        waker: Option<mio::Waker>,
    ) -> Self {
        Self {
            core,
            journal,
            notices,
            exchange: Mutex::default(),
            sleeps_until: AtomicI64::new(i64::MAX),
            held: Mutex::default(),
            refusing: AtomicBool::new(false),
            cleaner: waker.is_some().then(Cleaner::default),
            waker,
            abandoned: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        }
    }

    /// Sets where the output of a new session goes.
    pub(crate) fn add_route(&self, session: SessionId, route: Route) {
        let mut exchange = lock(&self.exchange);
        let slot = session.index();
        if exchange.routes.len() <= slot {
            exchange.routes.resize(slot + 1, None);
        }
        exchange.routes[slot] = Some(route);
    }

    /// Ends a session and removes its route.
    pub(crate) fn close(&self, session: SessionId) {
        // The route goes first: once the engine has freed the slot, another thread may reuse it.
        if let Some(route) = lock(&self.exchange).routes.get_mut(session.index()) {
            *route = None;
        }
        self.core.close(session);
    }

    /// Stages effects and routes new output. Called under the engine's lock by the thread that fed
    /// it.
    ///
    /// `own` is the session of an in-process caller, which handles its own output. The event loop
    /// passes `None` and then calls [`Hub::take_sockets`].
    pub(crate) fn settle(&self, engine: &mut Engine, own: Option<SessionId>) -> Settled {
        let mut settled = Settled::default();
        let mut guard = lock(&self.exchange);
        let exchange = &mut *guard;
        settled.position = self.stage(engine, &mut exchange.effects);
        settled.garbage = engine.take_garbage();
        engine.take_requests(&mut exchange.requests);
        engine.take_touched(&mut exchange.touched);
        let mut for_loop = !exchange.requests.is_empty();
        for session in exchange.touched.drain(..) {
            if Some(session) == own {
                continue;
            }
            match exchange.routes.get(session.index()) {
                Some(Some(Route::Socket(slot))) => {
                    exchange.sockets.push(*slot);
                    for_loop = true;
                }
                Some(Some(Route::Local(waiting))) => {
                    let mut waiting = lock(waiting);
                    waiting.overflowed |=
                        drop_overflow(engine, session) || engine.wants_drop(session);
                    settled.wakers.extend(waiting.reader.take());
                    settled.wakers.extend(waiting.writer.take());
                }
                _ => {}
            }
        }
        if own.is_some() {
            let earlier = engine
                .next_deadline()
                .is_some_and(|deadline| deadline < self.sleeps_until.load(Ordering::Relaxed));
            settled.wake_loop = for_loop || earlier;
        }
        settled
    }

    /// Does what must not be done under the engine's lock: writes the log and wakes tasks.
    pub(crate) fn finish(&self, settled: Settled) {
        self.commit(settled.position);
        for waker in settled.wakers {
            waker.wake();
        }
        if let Some(cleaner) = self.cleaner.as_ref().filter(|_| !settled.garbage.is_empty()) {
            cleaner.drop_later(settled.garbage);
        }
        if settled.wake_loop {
            self.wake_loop();
        }
    }

    /// Moves the connections with new output, and the requests to the host, out of the exchange.
    pub(crate) fn take_sockets(&self, sockets: &mut Vec<usize>, requests: &mut Vec<HostRequest>) {
        let mut exchange = lock(&self.exchange);
        sockets.append(&mut exchange.sockets);
        requests.append(&mut exchange.requests);
    }

    /// Returns `true` if commands have requested something of their host.
    pub(crate) fn has_requests(&self) -> bool {
        !lock(&self.exchange).requests.is_empty()
    }

    /// Records when the event loop wakes by itself. Called under the engine's lock.
    pub(crate) fn set_sleep(&self, until_unix_ms: i64) {
        self.sleeps_until.store(until_unix_ms, Ordering::Relaxed);
    }

    /// Ends the event loop's sleep.
    pub(crate) fn wake_loop(&self) {
        if let Some(Err(error)) = self.waker.as_ref().map(mio::Waker::wake) {
            self.notices.tell(Level::Warning, format_args!("cannot wake the event loop: {error}"));
        }
    }

    /// Returns `true` if replies taken at `position` may be delivered.
    pub(crate) fn is_released(&self, position: u64) -> bool {
        self.journal.as_ref().is_none_or(|journal| journal.released() >= position)
    }

    /// Returns why the log accepts nothing at the moment, if so: replies would wait for it without
    /// end.
    pub(crate) fn log_trouble(&self) -> Option<String> {
        let failure = self.journal.as_ref().and_then(|journal| journal.failure());
        failure.map(|error| error.to_string())
    }

    /// Returns `true` if replies that wait for the log would never be released.
    pub(crate) fn is_log_lost(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.is_lost())
    }

    /// Counts a rejected client.
    pub(crate) fn count_rejected(&self) {
        self.core.engine().count_rejected_connection();
    }

    /// Wakes `waker` when the log has progressed. Check [`Hub::is_released`] again afterwards.
    pub(crate) fn wait_for_log(&self, waker: &Waker) {
        lock(&self.held).push(waker.clone());
    }

    /// Lets the log wake the sessions whose replies wait for it.
    pub(crate) fn listen_to_log(self: &Arc<Self>) {
        let Some(journal) = &self.journal else { return };
        let weak = Arc::downgrade(self);
        journal.listen(Arc::new(move || {
            if let Some(hub) = weak.upgrade() {
                hub.log_moved();
            }
        }));
    }

    /// Called by the log when it has progressed or failed.
    fn log_moved(&self) {
        for waker in mem::take(&mut *lock(&self.held)) {
            waker.wake();
        }
        self.wake_loop();
    }

    /// Requests the end of the event loop; a running script is aborted too.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.abort_script();
        self.wake_loop();
    }

    /// Aborts a running script and discards its effects: a script is kept completely or not at all.
    pub(crate) fn abort_script(&self) {
        let mut engine = self.core.engine();
        // Effects from before the script are kept.
        let settled = self.settle(&mut engine, None);
        if engine.abort_script() {
            self.abandoned.store(true, Ordering::Relaxed);
        }
        drop(engine);
        self.finish(settled);
    }

    /// Returns `true` if the event loop was asked to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Marks the server as ended and wakes all tasks that wait for it.
    pub(crate) fn set_stopped(&self) {
        self.stopped.store(true, Ordering::Release);
        let locals: Vec<_> = lock(&self.exchange)
            .routes
            .iter()
            .flatten()
            .filter_map(|route| match route {
                Route::Local(waiting) => Some(Arc::clone(waiting)),
                Route::Socket(_) => None,
            })
            .collect();
        for waiting in locals {
            let (reader, writer) = {
                let mut waiting = lock(&waiting);
                (waiting.reader.take(), waiting.writer.take())
            };
            reader.into_iter().chain(writer).for_each(Waker::wake);
        }
        for waker in mem::take(&mut *lock(&self.held)) {
            waker.wake();
        }
    }

    /// Returns `true` if the server has ended.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Passes the engine's new effects to the log. Returns the position after them.
    fn stage(&self, engine: &mut Engine, effects: &mut Vec<u8>) -> u64 {
        let Some(journal) = &self.journal else { return 0 };
        if self.abandoned.load(Ordering::Relaxed) {
            return u64::MAX; // Never released: unlogged effects are never acknowledged.
        }
        effects.clear();
        let count = engine.take_effects(effects);
        if count == 0 && self.refusing.load(Ordering::Relaxed) {
            // Refusals and reads wait for nothing: the writes before them are not acknowledged.
            return journal.released();
        }
        // A rewrite stages effects too, so only the log knows the position.
        journal.stage(effects)
    }

    /// Writes what was staged. After a failure the engine refuses writes.
    fn commit(&self, position: u64) {
        if let Some(journal) = &self.journal
            && position != u64::MAX
            && journal.commit(position).is_err()
        {
            self.check_log();
        }
    }

    /// Makes the engine refuse writes while the log cannot accept them, and notifies the operator.
    pub(crate) fn check_log(&self) {
        let Some(journal) = &self.journal else { return };
        let failure = journal.failure();
        if self.refusing.swap(failure.is_some(), Ordering::Relaxed) == failure.is_some() {
            return;
        }
        match &failure {
            Some(error) => {
                let text = format_args!("the log failed, writes are refused: {error}");
                self.notices.tell(Level::Warning, text);
            }
            None => {
                let text = format_args!("the log works again, writes are taken");
                self.notices.tell(Level::Notice, text);
            }
        }
        let text = failure.map(|error| format!("MISCONF Errors writing to the AOF file: {error}"));
        self.core.engine().refuse_writes(text);
    }
}
