//! The servers that all tests share: one redis-server, one Sentinel set, one Cluster.
//!
//! Each test is a process of its own, and a Cluster takes a second to start; so they are started
//! once, before the tests, and named to them by the environment. They end with this task however it
//! ends: at the end of a value's life, or on a signal.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use seawall_testkit::backend::{Backend, Stand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

use crate::outcome::{Context, Failure, Outcome};

/// The running servers; dropped, they are gone.
pub(crate) struct Stands {
    running: Arc<Mutex<Vec<Stand>>>,
    environment: Vec<(&'static str, OsString)>,
    signals: Handle,
}

impl Stands {
    /// Starts all of them side by side.
    pub(crate) fn start() -> Outcome<Self> {
        let started = Instant::now();
        let running: Arc<Mutex<Vec<Stand>>> = Arc::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let watched = Arc::clone(&running);
        thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                stop(&watched);
                // Ends this task as the signal would have done.
                let _ = emulate_default_handler(signal);
            }
        });
        let mut stands = Self { running, environment: Vec::new(), signals: handle };
        let shared = Backend::all().into_iter().filter_map(|b| Some((b, b.variable()?)));
        let starting: Vec<_> = shared
            .map(|(backend, variable)| (variable, thread::spawn(move || Stand::private(backend))))
            .collect();
        for (variable, starting) in starting {
            let stand =
                starting.join().map_err(|_| Failure::new("a shared server's start failed"))?;
            let stand = stand.context("cannot start the servers that the tests share")?;
            stands.environment.push((variable, stand.url().into()));
            lock(&stands.running).push(stand);
        }
        println!("ok    shared servers ({:.1} s)", started.elapsed().as_secs_f64());
        Ok(stands)
    }

    /// What the tests must find in their environment.
    pub(crate) fn environment(&self) -> &[(&'static str, OsString)] {
        &self.environment
    }
}

impl Drop for Stands {
    fn drop(&mut self) {
        stop(&self.running);
        self.signals.close();
    }
}

fn stop(running: &Mutex<Vec<Stand>>) {
    lock(running).clear();
}

fn lock(running: &Mutex<Vec<Stand>>) -> std::sync::MutexGuard<'_, Vec<Stand>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}
