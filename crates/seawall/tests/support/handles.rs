//! Several handles on one backend, as several processes would have them.

use std::time::{SystemTime, UNIX_EPOCH};

use seawall::Seawall;
use seawall_testkit::backend::{Backend, TestBackend};
use tempfile::TempDir;

/// Handles on one backend, with keys under a prefix of the test's own.
pub(crate) struct Handles {
    pub(crate) all: Vec<Seawall>,
    pub(crate) prefix: String,
    _stand: TestBackend,
    _socket: TempDir,
}

impl Handles {
    /// Opens `count` handles on a backend.
    pub(crate) async fn open(backend: Backend, count: usize) -> Self {
        let stand = TestBackend::shared(backend).expect("the backend starts");
        let socket = TempDir::new().expect("a temporary folder");
        let path = socket.path().join("engine.sock");
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let prefix = format!("test-{}-{}:", std::process::id(), since.as_nanos());
        let mut all: Vec<Seawall> = Vec::new();
        for index in 0..count {
            let builder = match (backend, index) {
                (Backend::Embedded, 0) => Seawall::builder(stand.url()).engine_socket(&path),
                // Each `embedded:` is an engine of its own; the others come by its socket.
                (Backend::Embedded, _) => Seawall::builder(&format!("unix:{}", path.display())),
                _ => Seawall::builder(stand.url()),
            };
            all.push(builder.prefix(prefix.as_str()).connect().await.expect("it answers"));
        }
        Handles { all, prefix, _stand: stand, _socket: socket }
    }

    /// Shuts all of them down.
    pub(crate) async fn close(self) {
        // The first one may own the engine: it goes last.
        for handle in self.all.iter().rev() {
            handle.shutdown().await;
        }
    }
}
