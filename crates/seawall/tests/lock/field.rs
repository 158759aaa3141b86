//! Where a campaign takes place: servers, the proxies before them, and handles that stand for processes.

use std::time::Duration;

use seawall::{Seawall, cmd};
use seawall_testkit::{Cluster, FaultProxy, ServerProcess};
use tempfile::TempDir;

use crate::{ground::eventually, subject::Kind};

/// Handles that stand for processes.
pub(crate) const PROCESSES: usize = 3;

/// Servers, proxies and handles of one campaign.
pub(crate) struct Field {
    /// For each process one handle, and one for each primary of a quorum.
    pub(crate) single: Vec<Seawall>,
    pub(crate) quorum: Vec<Vec<Seawall>>,
    /// The servers themselves, past the proxies.
    pub(crate) servers: Vec<Seawall>,
    pub(crate) primaries: Vec<Seawall>,
    pub(crate) proxies: Vec<FaultProxy>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) running: Running,
}

/// What must outlive the handles.
pub(crate) enum Running {
    Redis { _servers: Vec<ServerProcess> },
    Cluster(Box<Cluster>),
    Engine { engine: Box<Seawall>, _folder: TempDir },
}

async fn connect(url: &str) -> Seawall {
    let mut handle = None;
    eventually("connected, however slow the machine is", async || {
        let builder = Seawall::builder(url).response_timeout(Duration::from_millis(250));
        handle = builder.connect().await.ok();
        handle.is_some()
    })
    .await;
    handle.expect("just connected")
}

impl Field {
    /// One server for most kinds and three for the quorum, each process behind proxies of its own.
    pub(crate) async fn redis(seed: u64) -> Self {
        let servers: Vec<_> =
            (0..4).map(|_| ServerProcess::redis().expect("a server starts")).collect();
        let mut field = Field {
            single: Vec::new(),
            quorum: Vec::new(),
            servers: vec![connect(&servers[0].url()).await],
            primaries: Vec::new(),
            proxies: Vec::new(),
            kinds: Kind::ALL.to_vec(),
            running: Running::Redis { _servers: Vec::new() },
        };
        for server in &servers[1..] {
            field.primaries.push(connect(&server.url()).await);
        }
        for process in 0..PROCESSES {
            let mut handles = Vec::new();
            for server in &servers {
                let proxy = FaultProxy::start(server.port()).expect("a free port");
                let proxy = proxy.seeded(seed ^ process as u64);
                handles.push(connect(&proxy.url()).await);
                field.proxies.push(proxy);
            }
            field.single.push(handles.remove(0));
            field.quorum.push(handles);
        }
        field.running = Running::Redis { _servers: servers };
        field
    }

    pub(crate) async fn cluster() -> Self {
        let cluster = Cluster::builder().proxied().start().expect("a Cluster starts");
        let mut servers = Vec::new();
        for node in cluster.primaries().expect("they answer") {
            servers.push(connect(&node.url()).await);
        }
        let mut field = Field::without_quorum(Running::Cluster(Box::new(cluster)), servers);
        let Running::Cluster(cluster) = &field.running else { unreachable!("just made") };
        let url = cluster.url();
        for _ in 0..PROCESSES {
            field.single.push(connect(&url).await);
        }
        field
    }

    pub(crate) async fn engine() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("s");
        let engine = Seawall::builder("embedded:").engine_socket(&socket);
        let engine = engine.connect().await.expect("the engine starts");
        let running = Running::Engine { engine: Box::new(engine.clone()), _folder: folder };
        let mut field = Field::without_quorum(running, vec![engine]);
        for _ in 0..PROCESSES {
            field.single.push(connect(&format!("unix:{}", socket.display())).await);
        }
        field
    }

    fn without_quorum(running: Running, servers: Vec<Seawall>) -> Self {
        let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Quorum).collect();
        let (single, proxies) = (Vec::new(), Vec::new());
        Field {
            single,
            quorum: Vec::new(),
            servers,
            primaries: Vec::new(),
            proxies,
            kinds,
            running,
        }
    }

    pub(crate) fn proxies(&self) -> Vec<&FaultProxy> {
        match &self.running {
            Running::Cluster(cluster) => {
                cluster.nodes().iter().filter_map(|node| node.proxy()).collect()
            }
            _ => self.proxies.iter().collect(),
        }
    }

    pub(crate) fn handles(&self) -> impl Iterator<Item = &Seawall> {
        self.single.iter().chain(self.quorum.iter().flatten())
    }

    /// Keys of a lock that are still there, fences aside, and how long they will be.
    pub(crate) async fn left(&self, name: &str) -> Vec<(String, i64)> {
        let mut left = Vec::new();
        for server in self.servers.iter().chain(&self.primaries) {
            let pattern = format!("*{{{name}*");
            let keys = server.client().query(b"", cmd("KEYS").arg(pattern)).await;
            for key in keys.unwrap_or_else(|_| vec!["unknown".to_owned()]) {
                let key: String = key;
                if !key.ends_with(":fence") {
                    let ttl = server.client().query(key.as_bytes(), cmd("PTTL").arg(&key)).await;
                    left.push((key, ttl.unwrap_or(-1)));
                }
            }
        }
        // A key may go between the two questions.
        left.retain(|(_, ttl)| *ttl != -2);
        left
    }

    pub(crate) async fn end(self) {
        for handle in self.handles().chain(&self.primaries).chain(&self.servers) {
            handle.shutdown().await;
        }
        if let Running::Engine { engine, .. } = self.running {
            engine.shutdown().await;
        }
    }
}
