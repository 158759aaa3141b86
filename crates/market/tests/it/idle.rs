//! What a market that nobody uses asks of Redis: its stream workers, and everything else.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use seawall_testkit::proxy::On;
use tokio::time::Instant;

use crate::market::Market;

/// What was begun ends first: jobs make their first round, caches are filled.
const SETTLES_IN: Duration = Duration::from_secs(6);
/// How long it is watched at least; on a busy machine it is longer, and more is allowed.
const IDLE: Duration = Duration::from_secs(20);
/// Commands in a second, those of stream workers excepted, and for rounds that just fall into the time.
const MOST: f64 = 2.0;
const ROUNDS: f64 = 4.0;
/// Commands of stream workers in a second: for each of the 34 streams a claim, and three every five
/// seconds for its gauges; a read for each of the four workers; and a tenth for where the seconds fall.
const MOST_OF_WORKERS: f64 = (34.0 * 1.6 + 4.0) * 1.1;

/// Workers go on; caches that nobody reads and jobs that have nothing to do cost next to nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_market_asks_for_next_to_nothing() {
    let (_market, proxy) = Market::behind_proxy().await;
    tokio::time::sleep(SETTLES_IN).await;
    let began = Instant::now();
    let of_workers = proxy.watch(On::any().when(is_of_a_worker));
    let sent: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let seen = Arc::clone(&sent);
    let others = proxy.watch(On::any().when(move |command| {
        let is_other = !is_of_a_worker(command);
        if is_other {
            *seen.lock().expect("whole").entry(named(command)).or_default() += 1;
        }
        is_other
    }));
    tokio::time::sleep(IDLE).await;
    let (of_workers, others) = (of_workers.count(), others.count());
    let seconds = began.elapsed().as_secs_f64();
    let sent = sent.lock().expect("whole").clone();
    assert!(others as f64 <= MOST * seconds + ROUNDS, "{others} in {seconds:.1} s: {sent:#?}");
    let most = MOST_OF_WORKERS * seconds;
    assert!(of_workers as f64 <= most, "{of_workers} of workers in {seconds:.1} s, not {most}");
    assert!(of_workers > 0, "workers are known when they are seen");
}

/// Reads, gauges, and scripts on streams: claims.
fn is_of_a_worker(command: &[Vec<u8>]) -> bool {
    match command[0].to_ascii_uppercase().as_slice() {
        b"XREADGROUP" | b"XLEN" | b"XINFO" => true,
        b"EVALSHA" => command.get(3).is_some_and(|key| {
            key.ends_with(b"}:changes")
                || key.starts_with(b"stream:{")
                // Scripts of a sale are on a key behind that of its stream.
                || (key.starts_with(b"sale:{") && key.ends_with(b"}"))
        }),
        _ => false,
    }
}

/// A command by its name and its key, for who has to find out where it comes from.
fn named(command: &[Vec<u8>]) -> String {
    let is_script = command[0].eq_ignore_ascii_case(b"EVALSHA");
    let key = command.get(if is_script { 3 } else { 1 }).map_or(&[][..], Vec::as_slice);
    [&command[0], key].map(String::from_utf8_lossy).join(" ")
}
