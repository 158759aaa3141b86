//! Where the trials run: servers that processes of their own reach, and ways to disturb them.

use std::time::Duration;

use seawall::{Seawall, cmd};
use seawall_testkit::{
    Cluster, FaultProxy, ServerBuilder, ServerProcess,
    proxy::{Direction, On},
};
use tempfile::TempDir;

/// Servers of one trial.
pub(crate) enum Site {
    /// The engine, in the test's own process, over a socket that other processes share.
    Engine {
        runtime: tokio::runtime::Runtime,
        engine: Box<Seawall>,
        folder: TempDir,
    },
    Redis(Box<ServerProcess>, Box<FaultProxy>),
    /// Independent primaries.
    Quorum(Vec<(ServerProcess, FaultProxy)>),
    Cluster(Box<Cluster>),
}

impl Site {
    pub(crate) fn engine() -> Self {
        let runtime = tokio::runtime::Runtime::new().expect("threads start");
        let folder = tempfile::tempdir().expect("a folder");
        let builder = Seawall::builder("embedded:").engine_socket(folder.path().join("s"));
        let engine = runtime.block_on(builder.connect()).expect("the engine starts");
        Site::Engine { runtime, engine: Box::new(engine), folder }
    }

    pub(crate) fn redis() -> Self {
        Site::redis_with(&ServerBuilder::redis())
    }

    pub(crate) fn redis_with(builder: &ServerBuilder) -> Self {
        let server = builder.start().expect("redis-server starts");
        let proxy = FaultProxy::start(server.port()).expect("a free port");
        Site::Redis(Box::new(server), Box::new(proxy))
    }

    pub(crate) fn quorum() -> Self {
        let primaries = (0..3).map(|_| {
            let server = ServerProcess::redis().expect("redis-server starts");
            let proxy = FaultProxy::start(server.port()).expect("a free port");
            (server, proxy)
        });
        Site::Quorum(primaries.collect())
    }

    pub(crate) fn cluster() -> Self {
        Site::Cluster(Box::new(Cluster::builder().proxied().start().expect("a Cluster starts")))
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Site::Engine { folder, .. } => format!("unix:{}", folder.path().join("s").display()),
            Site::Redis(_, proxy) => proxy.url(),
            Site::Quorum(primaries) => {
                let urls: Vec<_> = primaries.iter().map(|(_, proxy)| proxy.url()).collect();
                urls.join("|")
            }
            Site::Cluster(cluster) => cluster.url(),
        }
    }

    /// Restarts the server, where there is one that can be.
    pub(crate) fn restart(&mut self) {
        if let Site::Redis(server, _) = self {
            server.restart().expect("it starts again");
        }
    }

    /// Ends all connections for messages, and no other.
    pub(crate) fn kill_subscriptions(&self) {
        self.everywhere(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        match self {
            Site::Engine { .. } => self.everywhere(&["CLIENT", "KILL", "TYPE", "normal"]),
            Site::Redis(..) | Site::Quorum(_) | Site::Cluster(_) => {
                self.proxies().iter().for_each(|proxy| proxy.cut_all());
            }
        }
    }

    /// From now on some scripts do not arrive, and some are carried out without an answer.
    pub(crate) fn lose_some(&self) {
        for proxy in self.proxies() {
            proxy.drop_reply(On::command("EVALSHA").probability(0.05));
            proxy.drop_request(On::command("EVALSHA").probability(0.05));
        }
    }

    /// Replies take this much longer from now on.
    pub(crate) fn slow_replies(&self, delay: Duration) {
        self.proxies().iter().for_each(|proxy| proxy.delay(Direction::Replies, delay));
    }

    /// Takes that back.
    pub(crate) fn heal(&self) {
        self.proxies().iter().for_each(|proxy| proxy.heal());
    }

    fn proxies(&self) -> Vec<&FaultProxy> {
        match self {
            Site::Engine { .. } => Vec::new(),
            Site::Redis(_, proxy) => vec![proxy],
            Site::Quorum(primaries) => primaries.iter().map(|(_, proxy)| proxy).collect(),
            Site::Cluster(cluster) => {
                cluster.nodes().iter().filter_map(|node| node.proxy()).collect()
            }
        }
    }

    /// Sends a command to every server, past the proxies.
    fn everywhere(&self, words: &[&str]) {
        match self {
            Site::Engine { runtime, engine, .. } => {
                let mut command = cmd(words[0]);
                command.arg(&words[1..]);
                runtime.block_on(engine.client().send(b"", &command)).expect("answered");
            }
            Site::Quorum(primaries) => {
                for (server, _) in primaries {
                    server.connect().and_then(|mut client| client.call(words)).expect("answered");
                }
            }
            Site::Redis(server, _) => {
                server.connect().and_then(|mut client| client.call(words)).expect("answered");
            }
            Site::Cluster(cluster) => {
                for node in cluster.nodes() {
                    node.connect().and_then(|mut client| client.call(words)).expect("answered");
                }
            }
        }
    }
}
