//! A backend for one test, and handles on it under a prefix of the test's own.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use seawall::Seawall;
use seawall_testkit::backend::{Backend, TestBackend};

/// Nothing is away here, however slow the machine is.
const PATIENCE: Duration = Duration::from_secs(20);

/// A backend and a prefix that no other test has.
pub(crate) struct Setup {
    stand: TestBackend,
    prefix: String,
    /// The embedded engine listens here, so that a second handle can join the first.
    folder: tempfile::TempDir,
    handles: AtomicU64,
}

impl Setup {
    /// On the shared stand of this backend.
    pub(crate) fn new(backend: Backend, test: &str) -> Setup {
        let stand = TestBackend::shared(backend).expect("the backend starts");
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
        let builder = builder.response_timeout(PATIENCE);
        builder.prefix(&self.prefix).connect().await.expect("the backend answers")
    }

    /// The key of an entry, as it is in Redis.
    pub(crate) fn entry(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// Runs `async fn(Setup)` tests on every backend, each as a test of its own; with `without sentinel:`
/// before them, where a Sentinel set would only show once more what one server does.
macro_rules! on_every_backend {
    (without sentinel: $($test:ident)*) => {
        $(mod $test {
            $crate::setup::on_backend!($test embedded Embedded);
            $crate::setup::on_backend!($test redis Redis);
            $crate::setup::on_backend!($test valkey Valkey);
            $crate::setup::on_backend!($test cluster Cluster);
        })*
    };
    ($($test:ident)*) => {
        $(mod $test {
            $crate::setup::on_backend!($test embedded Embedded);
            $crate::setup::on_backend!($test redis Redis);
            $crate::setup::on_backend!($test valkey Valkey);
            $crate::setup::on_backend!($test sentinel Sentinel);
            $crate::setup::on_backend!($test cluster Cluster);
        })*
    };
}
pub(crate) use on_every_backend;

macro_rules! on_backend {
    ($test:ident $name:ident $backend:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let backend = seawall_testkit::backend::Backend::$backend;
            super::$test($crate::setup::Setup::new(backend, stringify!($test))).await;
        }
    };
}
pub(crate) use on_backend;
