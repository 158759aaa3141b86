//! A backend for one test, and handles on it under a prefix of the test's own.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use seawall::{Seawall, cmd};
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

    /// What every key of this test begins with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// All keys of this test that look like this, on all nodes.
    pub(crate) async fn keys(&self, seawall: &Seawall, pattern: &str) -> Vec<String> {
        keys(seawall, &format!("{}{pattern}", self.prefix)).await
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let started = Instant::now();
        while !is_so().await {
            assert!(started.elapsed() < Duration::from_secs(30), "in vain: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// All keys that look like this, on all nodes.
pub(crate) async fn keys(seawall: &Seawall, pattern: &str) -> Vec<String> {
    // A name in each third of the slots leads to each node of the stand's Cluster.
    let slot = |name: &str| crc16::State::<crc16::XMODEM>::calculate(name.as_bytes()) % 16_384;
    let ways = (0..3).filter_map(|third| {
        let middle = third * 5461 + 1000..third * 5461 + 4000;
        (0..1000).map(|n| format!("way-{n}")).find(|name| middle.contains(&slot(name)))
    });
    let mut all = BTreeSet::new();
    for way in ways {
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(1000);
            let (next, keys): (String, Vec<String>) =
                seawall.link().query(way.as_bytes(), &scan).await.expect("it answers");
            all.extend(keys);
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
    }
    all.into_iter().collect()
}

/// Runs `async fn(Setup)` tests on each kind of backend, each as a test of its own.
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
            async fn cluster() {
                super::$test(Setup::new(Backend::Cluster, stringify!($test))).await;
            }
        })*
    };
}
pub(crate) use on_every_backend;
