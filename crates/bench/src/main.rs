//! Compares the toolkit with the bare libraries: `seawall-bench PAGE redis://… [rounds [subject]]`
//! measures the subjects of one page of the documentation and prints JSON.
//!
//! Each subject has two sides, ours and the bare one; the bare one is measured a second time as a
//! control: its ratio to itself shows how much of a difference is noise. The sides take turns,
//! round after round, in the same process on the same server, so that other load on the machine
//! affects both. A metrics recorder is installed, as in a monitored service.
#![expect(clippy::print_stdout, reason = "the result is its output")]

mod bare;
mod data;
mod data_hot;
mod data_stock;
mod data_stream;
mod level1;
mod level2;
mod locks;
mod sides;
mod toolkit;

use std::{error::Error, time::Duration};

use redis::aio::MultiplexedConnection;
use seawall::Seawall;

use crate::sides::{Plan, Time};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Concurrent tasks, unless a subject sets its own number.
const TASKS: usize = 64;
/// Bytes of a value.
const VALUE_BYTES: usize = 256;
/// Environment variable with the URL of a Cluster, for subjects that need one.
const CLUSTER_VARIABLE: &str = "SEAWALL_BENCH_CLUSTER";

/// Shared environment of the subjects.
struct Ground {
    url: String,
    /// A Cluster of three primaries, if one was started.
    cluster: Option<String>,
    seawall: Seawall,
    bare: MultiplexedConnection,
    plan: Plan,
    /// The only subject to run. Default: all.
    only: Option<String>,
}

impl Ground {
    fn wants(&self, subject: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == subject)
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let page = arguments.next().ok_or("the page is missing: toolkit, data or bare")?;
    let url = arguments.next().ok_or("the URL of a redis-server is missing")?;
    if page == "bare" {
        let file = arguments.next().ok_or("the file with the answer is missing")?;
        return bare::serve(&url, &file).await;
    }
    let rounds = arguments.next().map_or(Ok(7), |rounds| rounds.parse())?;
    metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder()?;
    let plan = Plan {
        rounds,
        turn: Duration::from_millis(if rounds > 3 { 400 } else { 150 }),
        tasks: TASKS,
        time: Time::Wall,
    };
    let client = redis::Client::open(url.as_str())?;
    let config =
        redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(1)));
    let ground = Ground {
        seawall: Seawall::connect(&url).await?,
        bare: client.get_multiplexed_async_connection_with_config(&config).await?,
        cluster: std::env::var(CLUSTER_VARIABLE).ok(),
        only: arguments.next(),
        url,
        plan,
    };
    let json = match page.as_str() {
        "toolkit" => toolkit::measure(&ground).await?,
        "data" => data::measure(&ground).await?,
        other => return Err(format!("no page is called {other}: toolkit, data or bare").into()),
    };
    println!("{json}");
    ground.seawall.shutdown().await;
    Ok(())
}
