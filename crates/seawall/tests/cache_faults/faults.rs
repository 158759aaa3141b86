//! What breaks during a campaign: connections, replies, messages, servers, workers.

use std::time::Duration;

use rustix::process::Signal;
use seawall_testkit::{
    Cluster, FaultProxy, SentinelSet, ServerProcess,
    proxy::{Direction, On},
};

use crate::{chance::Chance, process::Worker, worker::Task};

/// What a campaign runs on, with everything that can be broken about it.
pub(crate) enum Ground {
    /// The engine, in the test's own process.
    Embedded(Box<seawall::Seawall>, String),
    Redis(Box<ServerProcess>, Box<FaultProxy>),
    Sentinel(Box<SentinelSet>),
    Cluster(Box<Cluster>),
}

impl Ground {
    pub(crate) async fn embedded(folder: &std::path::Path) -> Self {
        let socket = folder.join("engine.sock");
        let builder = seawall::Seawall::builder("embedded:").engine_socket(&socket);
        let engine = builder.connect().await.expect("the engine starts");
        Ground::Embedded(Box::new(engine), format!("unix:{}", socket.display()))
    }

    pub(crate) fn redis() -> Self {
        let server = ServerProcess::redis().expect("redis-server starts");
        let proxy = FaultProxy::start(server.port()).expect("a free port");
        Ground::Redis(Box::new(server), Box::new(proxy))
    }

    pub(crate) fn sentinel() -> Self {
        Ground::Sentinel(Box::new(SentinelSet::proxied().expect("a Sentinel set starts")))
    }

    pub(crate) fn cluster() -> Self {
        Ground::Cluster(Box::new(Cluster::builder().proxied().start().expect("a Cluster starts")))
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Ground::Embedded(_, url) => url.clone(),
            Ground::Redis(_, proxy) => proxy.url(),
            Ground::Sentinel(set) => set.url(),
            Ground::Cluster(cluster) => cluster.url(),
        }
    }

    /// The proxies of all servers.
    pub(crate) fn proxies(&self) -> Vec<&FaultProxy> {
        match self {
            Ground::Embedded(..) => Vec::new(),
            Ground::Redis(_, proxy) => vec![proxy],
            Ground::Sentinel(set) => set.servers().iter().filter_map(|node| node.proxy()).collect(),
            Ground::Cluster(cluster) => {
                cluster.nodes().iter().filter_map(|node| node.proxy()).collect()
            }
        }
    }

    /// Takes every fault back.
    pub(crate) fn heal(&self) {
        for proxy in self.proxies() {
            proxy.heal();
            proxy.drop_pushes(0.0);
        }
    }

    /// Sends a command to every server, past the proxies.
    pub(crate) async fn command(&self, words: &[&str]) {
        match self {
            Ground::Embedded(engine, _) => {
                let mut command = seawall::cmd(words[0]);
                command.arg(&words[1..]);
                let _ = engine.client().send(b"", &command).await;
            }
            Ground::Redis(server, _) => {
                let _ = server.connect().and_then(|mut client| client.call(words));
            }
            Ground::Sentinel(set) => {
                // Only a primary takes writes; the others refuse, which is as well.
                for node in set.servers() {
                    let _ = node.connect().and_then(|mut client| client.call(words));
                }
            }
            Ground::Cluster(cluster) => {
                for node in cluster.nodes() {
                    let _ = node.connect().and_then(|mut client| client.call(words));
                }
            }
        }
    }

    /// The keys of all servers that fit, asked past the proxies.
    pub(crate) async fn keys(&self, pattern: &str) -> Vec<String> {
        let all = |clients: Vec<std::io::Result<seawall_testkit::Client>>| {
            let mut keys = Vec::new();
            for client in clients {
                let found = client.and_then(|mut client| client.call(&["KEYS", pattern]));
                keys.extend(
                    found.expect("it answers").items().iter().map(seawall_testkit::Reply::text),
                );
            }
            keys
        };
        match self {
            Ground::Embedded(engine, _) => {
                let mut keys = seawall::cmd("KEYS");
                keys.arg(pattern);
                engine.client().query(b"", &keys).await.expect("it answers")
            }
            Ground::Redis(server, _) => all(vec![server.connect()]),
            Ground::Sentinel(set) => {
                all(set.servers().iter().map(seawall_testkit::Node::connect).collect())
            }
            Ground::Cluster(cluster) => {
                all(cluster.nodes().iter().map(seawall_testkit::Node::connect).collect())
            }
        }
    }

    /// Stops a server for a while that is shorter than any fail-over.
    pub(crate) async fn pause_server(&self, chance: &mut Chance, time: Duration) {
        match self {
            Ground::Embedded(..) => {}
            Ground::Redis(server, _) => {
                server.signal("STOP").expect("it runs");
                tokio::time::sleep(time).await;
                server.signal("CONT").expect("it is stopped");
            }
            Ground::Sentinel(set) => {
                let at = usize::try_from(chance.below(3)).expect("below three");
                set.servers()[at].pause().expect("it runs");
                tokio::time::sleep(time.min(Duration::from_millis(400))).await;
                set.servers()[at].resume().expect("it is stopped");
            }
            Ground::Cluster(cluster) => {
                let nodes = cluster.nodes();
                let at = usize::try_from(chance.below(nodes.len() as u64)).expect("a node");
                nodes[at].pause().expect("it runs");
                tokio::time::sleep(time.min(Duration::from_millis(700))).await;
                nodes[at].resume().expect("it is stopped");
            }
        }
    }
}

/// Breaks one thing, and mends what would not mend by itself. What it was.
pub(crate) async fn strike(
    ground: &Ground,
    workers: &mut [Worker],
    task: &Task,
    chance: &mut Chance,
) -> &'static str {
    let moment = Duration::from_millis(50 + chance.below(400));
    let victim = usize::try_from(chance.below(workers.len() as u64)).expect("a worker");
    let proxies = ground.proxies();
    let proxy = (!proxies.is_empty())
        .then(|| proxies[usize::try_from(chance.below(proxies.len() as u64)).expect("a proxy")]);
    match (chance.below(16), proxy) {
        // A Sentinel set would replace its primary, and lose what was acknowledged.
        (14, Some(proxy)) if matches!(ground, Ground::Redis(..)) => {
            proxy.down();
            tokio::time::sleep(moment * 8).await;
            proxy.heal();
            "server gone"
        }
        (15, Some(proxy)) if matches!(ground, Ground::Redis(..)) => {
            proxy.black_hole();
            tokio::time::sleep(moment * 8).await;
            proxy.heal();
            "black hole"
        }
        (0, Some(proxy)) => {
            proxy.cut_all();
            "cut"
        }
        (1 | 2, Some(proxy)) => {
            proxy.drop_reply(On::command("EVALSHA").probability(0.2).times(1 + chance.below(3)));
            "lost replies"
        }
        (3, Some(proxy)) => {
            proxy.drop_request(On::command("EVALSHA").probability(0.2).times(2));
            "lost requests"
        }
        (4, Some(proxy)) => {
            proxy.delay(Direction::Replies, Duration::from_millis(chance.below(80)));
            tokio::time::sleep(moment).await;
            proxy.delay(Direction::Replies, Duration::ZERO);
            "late replies"
        }
        (5, Some(proxy)) => {
            proxy.delay(Direction::Requests, Duration::from_millis(chance.below(80)));
            tokio::time::sleep(moment).await;
            proxy.delay(Direction::Requests, Duration::ZERO);
            "late requests"
        }
        (6, Some(proxy)) => {
            proxy.stall(Direction::Replies);
            tokio::time::sleep(moment * 2).await;
            proxy.heal();
            "stall"
        }
        (7, Some(proxy)) => {
            proxy.drop_pushes(0.5);
            tokio::time::sleep(moment).await;
            proxy.drop_pushes(0.0);
            "lost messages"
        }
        (8, _) => {
            ground.pause_server(chance, moment * 2).await;
            "server paused"
        }
        (9, _) => {
            workers[victim].signal(Signal::STOP);
            tokio::time::sleep(moment * 2).await;
            workers[victim].signal(Signal::CONT);
            "worker paused"
        }
        (10, _) => {
            // Its repair log stays: whoever takes its place replays it.
            drop(std::mem::replace(&mut workers[victim], task.start(victim as u64)));
            "worker killed"
        }
        (11, _) => {
            ground.command(&["SCRIPT", "FLUSH"]).await;
            "scripts flushed"
        }
        (12, _) => {
            ground.command(&["FLUSHALL"]).await;
            "data flushed"
        }
        _ => {
            ground.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
            "subscribers killed"
        }
    }
}
