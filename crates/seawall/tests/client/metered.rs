//! What a handle counts is what it did.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use seawall::{Script, Seawall, cmd};
use seawall_testkit::ServerProcess;

#[derive(Default, Clone)]
struct Board(Arc<Mutex<BTreeMap<String, u64>>>);

struct Cell(Board, String);

impl CounterFn for Cell {
    fn increment(&self, by: u64) {
        *self.0.0.lock().expect("no panic").entry(self.1.clone()).or_default() += by;
    }

    fn absolute(&self, to: u64) {
        self.0.0.lock().expect("no panic").insert(self.1.clone(), to);
    }
}

impl Board {
    fn see(&self, metric: &str) -> u64 {
        self.0.lock().expect("no panic").get(metric).copied().unwrap_or(0)
    }
}

impl Recorder for Board {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(Cell(self.clone(), key.name().to_owned())))
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

static DOUBLE: Script = Script::new("return ARGV[1] * 2");

#[tokio::test]
async fn commands_are_counted_and_an_unknown_script_is_no_failure() {
    let server = ServerProcess::redis().expect("it starts");
    let board = Board::default();
    let _here = metrics::set_default_local_recorder(&board);
    let seawall = Seawall::connect(&server.url()).await.expect("it answers");
    let client = seawall.client();
    for _ in 0..20 {
        client.send(b"k", cmd("GET").arg("k")).await.expect("answered");
    }
    for _ in 0..3 {
        client.send(b"", cmd("SCRIPT").arg("FLUSH")).await.expect("answered");
        let doubled: u64 = client.eval(&DOUBLE.on(&["k"]).arg(21)).await.expect("answered");
        assert_eq!(doubled, 42);
        let calls = [DOUBLE.on(&["k"]).arg(1), DOUBLE.on(&["k"]).arg(2)];
        client.send(b"", cmd("SCRIPT").arg("FLUSH")).await.expect("answered");
        assert!(client.run_all(&calls).await.iter().all(Result::is_ok));
    }
    let seen = async {
        while board.see("seawall_commands_total") < 20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    // Nobody who looks at a dashboard waits for a batch to be full.
    tokio::time::timeout(Duration::from_secs(8), seen).await.expect("commands are counted");
    assert_eq!(board.see("seawall_command_failures_total"), 0, "NOSCRIPT is answered in full");
    client.send(b"k", cmd("LPUSH").arg("k")).await.expect_err("too few arguments");
    assert_eq!(board.see("seawall_command_failures_total"), 1);
    let before = board.see("seawall_commands_total");
    client.send(b"k", cmd("GET").arg("k")).await.expect("answered");
    seawall.shutdown().await;
    assert!(board.see("seawall_commands_total") > before, "what is left is counted at the end");
}
