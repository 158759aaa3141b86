//! The toolkit beside the bare libraries: `seawall-bench redis://… [rounds [subject]]` measures,
//! prints JSON.
//!
//! Each subject has two sides, ours and the bare one, and the bare one a second time as a control:
//! its ratio to itself says how much of a difference is noise. The sides take turns, round after
//! round, in the same process on the same server, so that whatever else the machine does happens to
//! both. A recorder for metrics is installed, as in a service that is watched.
#![expect(clippy::print_stdout, reason = "the result is its output")]

mod level1;
mod level2;
mod locks;
mod sides;

use std::time::Duration;

use seawall::Seawall;
use serde::Serialize;

use crate::sides::{Plan, Report};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Tasks at a time, unless a subject says otherwise.
const TASKS: usize = 64;
/// Bytes of a value.
const VALUE_BYTES: usize = 256;

/// Everything that was measured.
#[derive(Serialize)]
struct Results {
    reports: Vec<Report>,
    hand_over: Vec<locks::HandOver>,
    ids_per_second: f64,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("the URL of a redis-server is missing")?;
    let rounds = arguments.next().map_or(Ok(7), |rounds| rounds.parse())?;
    metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder()?;
    let plan = Plan {
        rounds,
        turn: Duration::from_millis(if rounds > 3 { 400 } else { 150 }),
        tasks: TASKS,
    };
    let seawall = Seawall::connect(&url).await?;
    let client = redis::Client::open(url.as_str())?;
    let config =
        redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(1)));
    let bare = client.get_multiplexed_async_connection_with_config(&config).await?;
    let only = arguments.next();
    let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
    let mut reports = Vec::new();
    if wanted("level1") {
        reports.push(level1::hits(&seawall, &plan).await?);
    }
    if wanted("level2") {
        reports.push(level2::hits(&seawall, &bare, &plan).await?);
    }
    if wanted("batch") {
        reports.push(level2::batches(&seawall, &bare, &plan).await?);
    }
    if wanted("lock") {
        reports.extend(locks::pairs(&seawall, &bare, &plan).await?);
    }
    if only.is_some() {
        println!("{}", serde_json::to_string_pretty(&reports)?);
        return Ok(());
    }
    let hand_over = locks::hand_over(&seawall, &url, &plan).await?;
    let ids_per_second = locks::ids(&seawall, &plan).await?;
    println!("{}", serde_json::to_string_pretty(&Results { reports, hand_over, ids_per_second })?);
    seawall.shutdown().await;
    Ok(())
}
