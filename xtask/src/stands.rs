//! The servers that all tests share: a Redis, a Valkey, a Sentinel set, a Cluster, a MariaDB.
//!
//! Each test is a separate process, and some servers take a second to start. So the servers are
//! started once, before the tests, and their URLs are passed in the environment. They stop with
//! this task, however it ends: when the value is dropped, or on a signal.

use std::any::Any;
use std::ffi::OsString;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use seawall_testkit::backend::{Backend, TestBackend};
use seawall_testkit::{MARIADB_VARIABLE, MariaDb};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

use crate::outcome::{Context, Failure, Outcome};

/// A value that keeps a server running while it lives.
type Keeper = Box<dyn Any + Send>;
/// Starts a server. Returns its URL and the value that keeps it running.
type Start = Box<dyn FnOnce() -> io::Result<(String, Keeper)> + Send>;

/// The running servers. Dropping it stops them.
pub(crate) struct Stands {
    running: Arc<Mutex<Vec<Keeper>>>,
    environment: Vec<(&'static str, OsString)>,
    signals: Handle,
}

impl Stands {
    /// Starts all of them in parallel.
    pub(crate) fn start() -> Outcome<Self> {
        let started = Instant::now();
        let running: Arc<Mutex<Vec<Keeper>>> = Arc::default();
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
        let starting: Vec<_> = shared_servers()
            .into_iter()
            .map(|(variable, start)| (variable, thread::spawn(start)))
            .collect();
        for (variable, starting) in starting {
            let started =
                starting.join().map_err(|_| Failure::new("a shared server's start failed"))?;
            let (url, keeper) = started.context("cannot start the servers that the tests share")?;
            stands.environment.push((variable, url.into()));
            lock(&stands.running).push(keeper);
        }
        println!("ok    shared servers ({:.1} s)", started.elapsed().as_secs_f64());
        Ok(stands)
    }

    /// Returns the environment variables that the tests need.
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

/// Returns every shared server, with the environment variable that carries its URL.
fn shared_servers() -> Vec<(&'static str, Start)> {
    let backends = Backend::all().into_iter().filter_map(|b| Some((b, b.variable()?)));
    let mut servers: Vec<(&'static str, Start)> = Vec::new();
    for (backend, variable) in backends {
        let start = move || {
            let stand = TestBackend::private(backend)?;
            Ok((stand.url().to_owned(), Box::new(stand) as Keeper))
        };
        servers.push((variable, Box::new(start)));
    }
    let mariadb = || {
        let server = MariaDb::start()?;
        Ok((server.url(), Box::new(server) as Keeper))
    };
    servers.push((MARIADB_VARIABLE, Box::new(mariadb)));
    servers
}

fn stop(running: &Mutex<Vec<Keeper>>) {
    lock(running).clear();
}

fn lock(running: &Mutex<Vec<Keeper>>) -> std::sync::MutexGuard<'_, Vec<Keeper>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::Stands;

    #[test]
    fn every_shared_server_is_named_and_ends_with_its_value() {
        let stands = Stands::start().unwrap();
        let mut ports = Vec::new();
        for (variable, url) in stands.environment() {
            let url = url.to_str().unwrap();
            let rest = url.split("127.0.0.1:").nth(1).unwrap();
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
            ports.push((*variable, digits.parse::<u16>().unwrap()));
        }
        let named: Vec<_> = ports.iter().map(|(variable, _)| *variable).collect();
        let expected = ["REDIS", "VALKEY", "SENTINEL", "CLUSTER", "MARIADB"];
        assert_eq!(named, expected.map(|name| format!("SEAWALL_TEST_{name}")));
        for (variable, port) in &ports {
            assert!(TcpStream::connect(("127.0.0.1", *port)).is_ok(), "{variable}");
        }
        drop(stands);
        for (variable, port) in &ports {
            assert!(TcpStream::connect(("127.0.0.1", *port)).is_err(), "{variable}");
        }
    }
}
