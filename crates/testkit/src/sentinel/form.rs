//! Starts a Sentinel set: the sentinels start with files that already name the replicas and each
//! other, so that nothing has to be discovered.

use std::fs;
use std::io;

use tempfile::TempDir;

use super::{MASTER, SETTLE_LIMIT, SentinelSet};
use crate::builder::ServerBuilder;
use crate::node::Node;
use crate::port::free_ports;
use crate::proxy::FaultProxy;

/// Maximum starts with different ports.
const START_ATTEMPTS: usize = 5;
const SERVERS: usize = 3;
const SENTINELS: usize = 3;
/// Number of sentinels that must agree that the primary is down.
const QUORUM: usize = 2;
/// Silence after which a server counts as down.
const DOWN_AFTER_MS: usize = 1200;
/// Time within which a fail-over is done or abandoned; a sentinel starts its next one after twice
/// as long.
const FAILOVER_TIMEOUT_MS: usize = 3000;

/// Starts a set; retries on other ports if one was taken meanwhile.
pub(super) fn start(proxied: bool) -> io::Result<SentinelSet> {
    let mut last = io::Error::other("not tried");
    for _ in 0..START_ATTEMPTS {
        match attempt(proxied) {
            Ok(set) => return Ok(set),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn attempt(proxied: bool) -> io::Result<SentinelSet> {
    let folder = tempfile::Builder::new().prefix("seawall-sentinel-").tempdir()?;
    let ports = free_ports(SERVERS + SENTINELS)?;
    let (server_ports, sentinel_ports) = ports.split_at(SERVERS);
    let start_proxy = |port: &u16| proxied.then(|| FaultProxy::start(*port)).transpose();
    let mut proxies: Vec<Option<FaultProxy>> =
        server_ports.iter().map(start_proxy).collect::<io::Result<_>>()?;
    let announced: Vec<u16> = proxies
        .iter()
        .zip(server_ports)
        .map(|(proxy, port)| proxy.as_ref().map_or(*port, FaultProxy::port))
        .collect();

    let sentinels = (0..SENTINELS)
        .map(|own| sentinel(&folder, &announced, sentinel_ports, own))
        .collect::<io::Result<Vec<Node>>>()?;
    let mut servers = vec![server(&folder, server_ports[0], proxies[0].take(), None)?];
    // A replica that finds no primary retries only a second later.
    servers[0].wait_until_ready()?;
    for (port, proxy) in server_ports.iter().zip(&mut proxies).skip(1) {
        servers.push(server(&folder, *port, proxy.take(), Some(announced[0]))?);
    }
    for node in servers.iter().chain(&sentinels) {
        node.wait_until_ready()?;
    }
    let set = SentinelSet { servers, sentinels, _folder: folder };
    set.settle(SETTLE_LIMIT)?;
    Ok(set)
}

fn server(
    folder: &TempDir,
    port: u16,
    proxy: Option<FaultProxy>,
    primary: Option<u16>,
) -> io::Result<Node> {
    let dir = folder.path().join(port.to_string());
    fs::create_dir(&dir)?;
    let mut builder = ServerBuilder::redis().port(port).dir(dir).args([
        // One snapshot on disk serves both replicas; without a disk the second waits for the first.
        "--repl-diskless-sync",
        "no",
        "--repl-diskless-sync-delay",
        "0",
    ]);
    if let Some(primary) = primary {
        builder = builder.args(["--replicaof", &format!("127.0.0.1 {primary}")]);
    }
    if let Some(proxy) = &proxy {
        let announced = proxy.port().to_string();
        builder = builder.args(["--replica-announce-port", &announced]);
    }
    Ok(Node::new(format!("server-{port}"), builder.launch()?, proxy))
}

fn sentinel(folder: &TempDir, servers: &[u16], sentinels: &[u16], own: usize) -> io::Result<Node> {
    let id = |port: u16| format!("{port:040x}");
    let port = sentinels[own];
    let primary = servers[0];
    let mut config = format!(
        "bind 127.0.0.1\n\
         sentinel myid {}\n\
         sentinel monitor {MASTER} 127.0.0.1 {primary} {QUORUM}\n\
         sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}\n\
         sentinel failover-timeout {MASTER} {FAILOVER_TIMEOUT_MS}\n\
         sentinel parallel-syncs {MASTER} {SERVERS}\n",
        id(port)
    );
    for replica in &servers[1..] {
        config.push_str(&format!("sentinel known-replica {MASTER} 127.0.0.1 {replica}\n"));
    }
    for other in sentinels.iter().filter(|other| **other != port) {
        let id = id(*other);
        config.push_str(&format!("sentinel known-sentinel {MASTER} 127.0.0.1 {other} {id}\n"));
    }
    let dir = folder.path().join(port.to_string());
    fs::create_dir(&dir)?;
    let file = dir.join("sentinel.conf");
    fs::write(&file, config)?;
    let builder = ServerBuilder::sentinel(&file).port(port).dir(dir);
    Ok(Node::new(format!("sentinel-{port}"), builder.launch()?, None))
}
