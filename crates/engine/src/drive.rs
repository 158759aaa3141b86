//! The shell around the engine that hosts hold: a lock, and the driver of scripts.
//!
//! Scripts run outside the engine's lock, on the thread that fed them: `redis.call` takes the lock
//! for one command. Meanwhile the engine knows that a script runs (`Engine::script`), so that
//! requests of other sessions wait, or, when the script is past its time, are told so; that is how
//! SCRIPT KILL can arrive. Nothing here needs more than one thread; it only allows it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::Clock;
use crate::engine::{Engine, Options};
use crate::script::ScriptJob;
use crate::session::{Peer, SessionId};

type BusyHook = Box<dyn Fn() + Send + Sync>;

/// An engine that can be shared between threads.
pub struct Core {
    engine: Mutex<Engine>,
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
        Arc::new(Core {
            engine: Mutex::new(Engine::new(options, clock)),
            busy_hook: Mutex::new(None),
        })
    }

    /// The engine itself, for draining output and log.
    pub fn engine(&self) -> MutexGuard<'_, Engine> {
        // A panic while the lock was held is a bug of ours; the state is still the best there is.
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

    /// Gives a session input; every request that is whole and may run now is run.
    pub fn feed(&self, id: SessionId, input: &[u8]) {
        let mut engine = self.engine();
        engine.refresh_time();
        let job = engine.feed(id, input);
        self.drive(engine, job);
    }

    /// Does what time demands; to be called every 100 ms and at [`Engine::next_deadline`].
    pub fn tick(&self) {
        let mut engine = self.engine();
        engine.refresh_time();
        let job = engine.tick();
        self.drive(engine, job);
    }

    /// Sets what is called every few milliseconds from inside a script that is past its time; the
    /// host serves its sockets there.
    pub fn set_busy_hook(&self, hook: BusyHook) {
        *self.busy_hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook);
    }

    /// Runs scripts until none is left to run.
    fn drive<'a>(&'a self, mut engine: MutexGuard<'a, Engine>, mut job: Option<Box<ScriptJob>>) {
        while let Some(script) = job {
            let session = script.session;
            drop(engine);
            let reply = self.run_script(*script);
            engine = self.engine();
            job = engine.script_done(session, &reply);
        }
        engine.broadcast_invalidations();
    }

    fn run_script(&self, _job: ScriptJob) -> Vec<u8> {
        b"-ERR not built yet\r\n".to_vec()
    }
}
