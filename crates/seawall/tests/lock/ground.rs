//! Where a test runs: one backend, and any number of handles to it that stand for processes.

use std::sync::atomic::{AtomicU64, Ordering};

use seawall::{
    Seawall,
    lock::{AcquireOutcome, Guard, Lock},
};
use seawall_testkit::backend::{Backend, TestBackend};
use tempfile::TempDir;

pub(crate) use crate::eventually::{PATIENCE, eventually};

/// One backend with keys of the test's own.
pub(crate) struct Ground {
    stand: TestBackend,
    prefix: String,
    /// The engine's socket: further handles reach it there.
    socket: Option<(TempDir, Seawall)>,
}

impl Ground {
    pub(crate) async fn new(backend: Backend) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("lock-test-{}-{count}:", std::process::id());
        let stand = TestBackend::shared(backend).expect("the backend starts");
        let socket = if backend == Backend::Embedded {
            let dir = tempfile::tempdir().expect("a folder");
            let builder = Seawall::builder("embedded:").engine_socket(dir.path().join("s"));
            let engine = builder.connect().await.expect("the engine starts");
            Some((dir, engine))
        } else {
            None
        };
        Ground { stand, prefix, socket }
    }

    /// A handle of its own: another process, as far as the server can tell.
    pub(crate) async fn connect(&self) -> Seawall {
        let url = match &self.socket {
            Some((dir, _)) => format!("unix:{}", dir.path().join("s").display()),
            None => self.stand.url().to_owned(),
        };
        Seawall::builder(&url).prefix(&self.prefix).connect().await.expect("connected")
    }

    /// What all keys of the test begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key of a name, as the toolkit makes it.
    pub(crate) fn key(&self, family: &str, name: &str) -> Vec<u8> {
        format!("{}{family}:{{{name}}}", self.prefix).into_bytes()
    }

    pub(crate) async fn end(self, handles: impl IntoIterator<Item = Seawall>) {
        for handle in handles {
            handle.shutdown().await;
        }
        if let Some((_, engine)) = self.socket {
            engine.shutdown().await;
        }
    }
}

/// Tries once; it must be free.
pub(crate) async fn take(lock: &Lock) -> Guard {
    lock.try_acquire().await.expect("answered").acquired().expect("nobody holds it")
}

/// Waits for it.
pub(crate) async fn wait_for(lock: &Lock) -> Guard {
    lock.acquire(PATIENCE).await.expect("answered").acquired().expect("it comes free")
}

/// It must be held by somebody else.
pub(crate) async fn assert_busy(lock: &Lock) {
    let attempt = lock.try_acquire().await.expect("answered");
    assert!(matches!(attempt, AcquireOutcome::Busy { .. }), "{attempt:?}");
}

/// Makes one test for each backend out of each of these functions.
macro_rules! on_each_backend {
    ($($name:ident)*) => {
        mod embedded { $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $name() {
            super::$name($crate::ground::Ground::new(seawall_testkit::backend::Backend::Embedded).await).await;
        })* }
        mod redis { $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $name() {
            super::$name($crate::ground::Ground::new(seawall_testkit::backend::Backend::Redis).await).await;
        })* }
        mod valkey { $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $name() {
            super::$name($crate::ground::Ground::new(seawall_testkit::backend::Backend::Valkey).await).await;
        })* }
        mod sentinel { $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $name() {
            super::$name($crate::ground::Ground::new(seawall_testkit::backend::Backend::Sentinel).await).await;
        })* }
        mod cluster { $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $name() {
            super::$name($crate::ground::Ground::new(seawall_testkit::backend::Backend::Cluster).await).await;
        })* }
    };
}
pub(crate) use on_each_backend;

/// By how much large counts are multiplied: they run at a twentieth unless `SEAWALL_SOAK` is set.
pub(crate) fn soak() -> usize {
    if std::env::var_os("SEAWALL_SOAK").is_some() { 20 } else { 1 }
}
