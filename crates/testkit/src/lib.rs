//! Tools for Seawall's own tests; never part of the product.
//!
//! - [`ServerProcess`]: a private `redis-server`, `valkey-server` or `seawall engine` on a free
//!   port in a temporary folder, optionally with TLS, passwords and a unix socket, stopped when
//!   dropped;
//! - [`Cluster`]: a real Redis Cluster whose nodes can be killed, paused, failed over and resharded;
//! - [`SentinelSet`]: a primary, two replicas and three sentinels;
//! - [`backend`]: one of the engine, a server, a Sentinel set and a Cluster, shared or private;
//! - [`MariaDb`] and [`TestDatabase`]: a private database server that can be killed and paused, and an
//!   empty database on the one that all tests share;
//! - [`PostgresServer`]: a private PostgreSQL;
//! - [`MarketProcess`]: the market of a binary as a child process, and [`Http`], a client of it;
//! - [`Nginx`]: a private nginx that balances over instances of a service;
//! - [`FaultProxy`]: a proxy that understands RESP and can drop, delay, refuse and count commands;
//! - [`Client`] and [`Reply`]: a plain blocking RESP2/RESP3 client that hides nothing, so that a
//!   test sees the exact types and bytes that a server sent;
//! - [`transcript`]: the runner for `conformance/*.txt`, which plays one recorded dialogue against
//!   any server;
//! - [`differential`]: sends random commands to two servers and compares the replies;
//! - [`metric_names()`]: the metrics that sources emit, to compare with their descriptions;
//! - [`seed()`]: the seed of a random test, the same for every run of one commit.
//!
//! Real Redis is the oracle of this project: everything tested here runs against both servers.

pub mod backend;
mod builder;
mod client;
mod cluster;
mod daemon;
pub mod differential;
mod http;
mod mariadb;
mod market_process;
mod metric_names;
mod nginx;
mod node;
mod port;
mod postgres;
mod process;
pub mod proxy;
mod reply;
mod rng;
mod seed;
mod sentinel;
mod settle;
mod tls;
pub mod transcript;
mod valkey;

pub use builder::ServerBuilder;
pub use client::{Address, Client};
pub use cluster::{Cluster, ClusterBuilder, MovingSlot, SLOTS, slot_of};
pub use http::{Http, HttpAnswer};
pub use mariadb::{MARIADB_VARIABLE, MariaDb, MariaDbBuilder, TestDatabase};
pub use market_process::MarketProcess;
pub use metric_names::{documented_metrics, metric_names};
pub use nginx::Nginx;
pub use node::{Node, NodeState, Role};
pub use port::{free_port, free_ports};
pub use postgres::{PostgresServer, postgres_program};
pub use process::ServerProcess;
pub use proxy::FaultProxy;
pub use reply::{ProtocolError, Reply, parse};
pub use seed::seed;
pub use sentinel::SentinelSet;
pub use tls::Tls;
pub use valkey::{valkey_folder, valkey_program};
