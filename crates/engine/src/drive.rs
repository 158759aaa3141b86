//! The shell around the engine that hosts use: a lock, and the driver of scripts.
//!
//! Scripts run outside the engine's lock, on the thread that fed them: `redis.call` takes the lock
//! for one command. Meanwhile the engine knows that a script runs (`Engine::script`), so requests
//! of other sessions wait or, if the script is past its time limit, get an error; that is how
//! SCRIPT KILL can arrive. Nothing here needs more than one thread; it only allows it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::clock::Clock;
use crate::engine::scripting::Pace;
use crate::engine::{Engine, Options};
use crate::resp::Protocol;
use crate::script::{self, Finished, LogLevel, ScriptHost, ScriptJob, Tick, Vm};
use crate::session::{Peer, SessionId};

type BusyHook = Box<dyn Fn() + Send + Sync>;

/// An engine that can be shared between threads.
pub struct Core {
    engine: Mutex<Engine>,
    /// Locked while a script runs; never while the engine is.
    vm: Mutex<Vm>,
    /// Scripts call back through this.
    me: Weak<Core>,
    busy_hook: Mutex<Option<BusyHook>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}

impl Core {
    /// A new engine with empty databases.
    #[must_use]
    pub fn new(options: Options, clock: Arc<dyn Clock>) -> Arc<Core> {
        Arc::new_cyclic(|me| Core {
            engine: Mutex::new(Engine::new(options, clock)),
            vm: Mutex::new(Vm::new()),
            me: me.clone(),
            busy_hook: Mutex::new(None),
        })
    }

    /// The engine itself, for draining output and log.
    pub fn engine(&self) -> MutexGuard<'_, Engine> {
        // A panic while the lock was held is a bug; the state is still the best available.
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session.
    pub fn open(&self, peer: Peer) -> SessionId {
        let mut engine = self.engine();
        engine.refresh_time();
        engine.open(peer)
    }

    /// Ends a session.
    pub fn close(&self, id: SessionId) {
        self.engine().close(id);
    }

    /// Feeds input to a session; every complete request that may run now is run.
    pub fn feed(&self, id: SessionId, input: &[u8]) {
        let mut engine = self.engine();
        engine.refresh_time();
        let job = engine.feed(id, input);
        self.drive(engine, job);
    }

    /// Does the periodic work; must be called every 100 ms and at [`Engine::next_deadline`].
    pub fn tick(&self) {
        let mut engine = self.engine();
        engine.refresh_time();
        let job = engine.tick();
        self.drive(engine, job);
    }

    /// Sets the function that is called every few milliseconds from inside a script that is past
    /// its time limit; the host serves its sockets there.
    pub fn set_busy_hook(&self, hook: BusyHook) {
        *self.busy_hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook);
    }

    /// Runs scripts until none is left to run.
    fn drive<'a>(&'a self, mut engine: MutexGuard<'a, Engine>, mut job: Option<Box<ScriptJob>>) {
        while let Some(script) = job {
            drop(engine);
            let finished = self.run_script(*script);
            engine = self.engine();
            job = engine.script_done(&finished);
        }
        engine.broadcast_invalidations();
    }

    fn run_script(&self, job: ScriptJob) -> Finished {
        let host: Arc<dyn ScriptHost> = match self.me.upgrade() {
            Some(core) => core,
            None => Arc::new(script::Nobody),
        };
        let mut vm = self.vm.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = script::run(&mut vm, &job, &host);
        Finished { job, ended }
    }
}

impl ScriptHost for Core {
    fn call(&self, protocol: u8, args: &[&[u8]], reply: &mut Vec<u8>) {
        let protocol = if protocol == 3 { Protocol::Resp3 } else { Protocol::Resp2 };
        self.engine().script_call(protocol, args, reply);
    }

    fn may_call(&self, args: &[&[u8]]) -> Option<bool> {
        self.engine().find_for_script(args).map(|_| true)
    }

    fn set_repl(&self, to_log: bool, _to_replicas: bool) {
        if let Some(script) = &mut self.engine().script {
            script.logged = to_log;
        }
    }

    fn log(&self, level: LogLevel, message: &[u8]) {
        self.engine().script_logged(level, message);
    }

    fn tick(&self) -> Tick {
        let (pace, tick) = self.engine().script_tick();
        if pace == Pace::Quiet || tick == Tick::Kill {
            return tick;
        }
        if let Some(hook) = &*self.busy_hook.lock().unwrap_or_else(PoisonError::into_inner) {
            hook();
        }
        self.engine().script_tick().1
    }
}
