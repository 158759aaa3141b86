//! What the metrics say after a worker has ended.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use metrics::{
    Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use seawall::stream::{Delivery, Drained, Outcome};

use crate::{
    eventually,
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    a_worker_that_ended_cleanly_leaves_no_lag_in_the_metrics
}

/// Gauges by their names and labels.
#[derive(Debug, Clone, Default)]
struct Gauges(Arc<Mutex<BTreeMap<String, f64>>>);

struct Cell(Gauges, String);

impl GaugeFn for Cell {
    fn increment(&self, value: f64) {
        *self.0.0.lock().expect("no panic").entry(self.1.clone()).or_default() += value;
    }

    fn decrement(&self, value: f64) {
        self.increment(-value);
    }

    fn set(&self, value: f64) {
        self.0.0.lock().expect("no panic").insert(self.1.clone(), value);
    }
}

impl Recorder for Gauges {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let labels: Vec<_> = key.labels().map(metrics::Label::value).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        Gauge::from_arc(Arc::new(Cell(self.clone(), name)))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// The recorder of this process.
fn gauges() -> Gauges {
    static GAUGES: Mutex<Option<Gauges>> = Mutex::new(None);
    let mut known = GAUGES.lock().expect("no panic");
    known
        .get_or_insert_with(|| {
            let gauges = Gauges::default();
            metrics::set_global_recorder(gauges.clone()).expect("the only one");
            gauges
        })
        .clone()
}

async fn a_worker_that_ended_cleanly_leaves_no_lag_in_the_metrics(setup: Setup) {
    let gauges = gauges();
    let seawall = setup.connect().await;
    let name = setup.entry("lag").replace(':', "-");
    let stream = seawall.stream::<u64>(&name).expect("a name");
    for number in 0..5 {
        stream.append(&number).await.expect("appended");
    }
    let worker = stream.worker("g").spawn(|_: Delivery<u64>| async { Outcome::Done });
    let worker = worker.expect("valid");
    eventually("all are settled", async || stream.status("g").await.expect("answered").length == 0)
        .await;
    assert_eq!(worker.shutdown().await, Drained::Clean);
    let shown = gauges.0.lock().expect("no panic").clone();
    for gauge in ["lag", "pending", "parked", "length"] {
        let key = format!("seawall_stream_{gauge} g {name}");
        assert_eq!(shown.get(&key), Some(&0.0), "{key} in {shown:?}");
    }
    seawall.shutdown().await;
}
