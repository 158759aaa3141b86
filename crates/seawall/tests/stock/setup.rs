//! A backend for one test, and handles on it under a prefix of the test's own.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use seawall::Seawall;
use seawall_testkit::backend::{Backend, Stand};

/// A backend and a prefix that no other test has.
pub(crate) struct Setup {
    stand: Stand,
    prefix: String,
    /// The embedded engine listens here, so that a second handle can join the first.
    folder: tempfile::TempDir,
    handles: AtomicU64,
}

impl Setup {
    /// On the shared stand of this backend.
    pub(crate) fn new(backend: Backend, test: &str) -> Setup {
        let stand = Stand::shared(backend).expect("the backend starts");
        let prefix = format!("{test}-{:08x}:", rand::random::<u32>());
        Setup {
            stand,
            prefix,
            folder: tempfile::tempdir().expect("a temporary folder"),
            handles: AtomicU64::new(0),
        }
    }

    /// A handle; the second and later ones reach the same data as the first.
    pub(crate) async fn connect(&self) -> Seawall {
        let socket = self.folder.path().join("engine.sock");
        let first = self.handles.fetch_add(1, Ordering::SeqCst) == 0;
        let embedded = self.stand.backend() == Backend::Embedded;
        let builder = match (embedded, first) {
            (true, true) => Seawall::builder("embedded:").engine_socket(socket),
            (true, false) => Seawall::builder(&format!("unix:{}", socket.display())),
            (false, _) => Seawall::builder(self.stand.url()),
        };
        // Nothing here is about time-outs, and the machine may be slow.
        let builder = builder.prefix(&self.prefix).response_timeout(Duration::from_secs(20));
        builder.connect().await.expect("the backend answers")
    }
}

/// Runs `async fn(Setup)` tests on every backend, each as a test of its own.
macro_rules! on_every_backend {
    ($($test:ident)*) => {
        $(mod $test {
            use seawall_testkit::backend::Backend;
            use crate::setup::Setup;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn embedded() {
                super::$test(Setup::new(Backend::Embedded, stringify!($test))).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn redis() {
                super::$test(Setup::new(Backend::Redis, stringify!($test))).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sentinel() {
                super::$test(Setup::new(Backend::Sentinel, stringify!($test))).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn cluster() {
                super::$test(Setup::new(Backend::Cluster, stringify!($test))).await;
            }
        })*
    };
}
pub(crate) use on_every_backend;
