//! What an engineer sees: every metric is described and documented, latencies are sampled, and spans
//! have the tree and the attributes that the documentation promises.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, LocalRecorderGuard, Metadata,
    Recorder, SharedString, Unit,
};
use seawall::{
    Seawall,
    cache::{Cache, Loaded},
    cmd,
    observe::{self, MetricKind},
    stock::{OrderFields, SaleWindow},
    stream::Outcome,
};
use seawall_testkit::{documented_metrics, metric_names};
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span,
    subscriber::DefaultGuard,
};
use tracing_subscriber::{
    layer::{Context, Layer, SubscriberExt as _},
    registry::LookupSpan,
};

use crate::eventually::eventually;

/// Crates of the toolkit, by folder. Those without metrics must not get any without a table.
const CRATES: [&str; 9] =
    ["cache", "client", "inspect", "jobs", "lock", "resilience", "seawall", "social", "stock"];

#[test]
fn every_metric_is_described_and_every_description_has_its_metric() {
    let used: BTreeSet<String> = CRATES.iter().flat_map(|name| metric_names(name)).collect();
    let described: BTreeSet<String> =
        observe::metrics().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(described, used);
    assert_eq!(observe::metrics().count(), described.len(), "each is described once");
    for metric in observe::metrics() {
        assert!(metric.help.ends_with('.'), "{}: {}", metric.name, metric.help);
        if let MetricKind::Histogram(buckets) = metric.kind {
            assert!(metric.name.ends_with("_seconds") && metric.unit == Unit::Seconds);
            assert!(buckets.is_sorted() && !buckets.is_empty(), "{}", metric.name);
        }
    }
}

#[test]
fn the_page_lists_the_metrics_as_they_are_described() {
    let row = |metric: &observe::Metric| {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (kind, unit) = (metric.kind.name().to_owned(), metric.unit.as_str().to_owned());
        vec![format!("`{}`", metric.name), kind, unit, labels.join(", "), metric.help.to_owned()]
    };
    let expected: Vec<_> = observe::metrics().map(row).collect();
    let text: Vec<_> = expected.iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    let documented = documented_metrics("Metrics of the toolkit");
    assert_eq!(documented, expected, "the table should be:\n{}", text.join("\n"));
}

/// Descriptions, counters and samples of histograms.
#[derive(Default, Clone)]
struct Board(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    described: BTreeMap<String, (Option<Unit>, String)>,
    /// By name and labels.
    samples: BTreeMap<String, Vec<f64>>,
    counts: BTreeMap<String, u64>,
}

struct Samples(Board, String);

impl HistogramFn for Samples {
    fn record(&self, value: f64) {
        let mut seen = self.0.0.lock().expect("no panic");
        seen.samples.entry(self.1.clone()).or_default().push(value);
    }
}

struct Count(Board, String);

impl CounterFn for Count {
    fn increment(&self, by: u64) {
        *self.0.0.lock().expect("no panic").counts.entry(self.1.clone()).or_default() += by;
    }

    fn absolute(&self, to: u64) {
        self.0.0.lock().expect("no panic").counts.insert(self.1.clone(), to);
    }
}

/// Returns a metric's name with its labels.
fn name_of(key: &Key) -> String {
    let labels: Vec<_> = key.labels().map(|of| format!("{}={}", of.key(), of.value())).collect();
    format!("{} {}", key.name(), labels.join(" ")).trim_end().to_owned()
}

impl Board {
    fn describe(&self, name: &KeyName, unit: Option<Unit>, help: &SharedString) {
        let mut seen = self.0.lock().expect("no panic");
        seen.described.insert(name.as_str().to_owned(), (unit, help.to_string()));
    }

    fn samples(&self, name: &str) -> Vec<f64> {
        let seen = self.0.lock().expect("no panic");
        seen.samples.get(name).cloned().unwrap_or_default()
    }

    /// Returns the counters of this name that count something.
    fn counts(&self, name: &str) -> Vec<(String, u64)> {
        let seen = self.0.lock().expect("no panic");
        let counts = seen.counts.iter().filter(|(of, _)| of.starts_with(name));
        counts.map(|(of, count)| (of[name.len()..].trim_start().to_owned(), *count)).collect()
    }
}

impl Recorder for Board {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, &help);
    }
    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, &help);
    }
    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, &help);
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(Count(self.clone(), name_of(key))))
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Samples(self.clone(), name_of(key))))
    }
}

/// The spans of this thread.
#[derive(Default, Clone)]
struct Spans(Arc<Mutex<Vec<Spanned>>>);

#[derive(Clone)]
struct Spanned {
    id: span::Id,
    name: &'static str,
    parent: Option<span::Id>,
    fields: BTreeMap<&'static str, String>,
}

impl Spanned {
    /// Returns the values of these fields.
    fn values(&self, fields: &[&str]) -> Vec<&str> {
        let value = |field: &&str| self.fields.get(*field).map_or("-", String::as_str);
        fields.iter().map(value).collect()
    }
}

impl Visit for Spanned {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

impl Spans {
    fn listen(&self) -> DefaultGuard {
        tracing::subscriber::set_default(tracing_subscriber::registry().with(self.clone()))
    }

    fn named(&self, name: &str) -> Vec<Spanned> {
        let all = self.0.lock().expect("no panic");
        all.iter().filter(|span| span.name == name).cloned().collect()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, ctx: Context<'_, S>) {
        let parent = ctx.span(id).and_then(|span| Some(span.parent()?.id()));
        let name = attributes.metadata().name();
        let mut span = Spanned { id: id.clone(), name, parent, fields: BTreeMap::new() };
        attributes.record(&mut span);
        self.0.lock().expect("no panic").push(span);
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, _: Context<'_, S>) {
        let mut all = self.0.lock().expect("no panic");
        let span = all.iter_mut().rev().find(|span| span.id == *id).expect("it was opened");
        values.record(span);
    }
}

/// Listens to everything that this thread does from now on.
fn listen() -> (Board, Spans, (LocalRecorderGuard<'static>, DefaultGuard)) {
    let (board, spans) = (Board::default(), Spans::default());
    // It lives as long as the process of this test.
    let recorder: &'static Board = Box::leak(Box::new(board.clone()));
    let here = (metrics::set_default_local_recorder(recorder), spans.listen());
    (board, spans, here)
}

#[tokio::test]
async fn connecting_describes_all_metrics() {
    let (board, _, _here) = listen();
    let seawall = Seawall::connect("embedded:").await.expect("it starts");
    let seen = board.0.lock().expect("no panic").described.clone();
    for metric in observe::metrics() {
        assert_eq!(seen[metric.name], (Some(metric.unit), metric.help.to_owned()));
    }
    assert_eq!(seen.len(), observe::metrics().count());
    seawall.shutdown().await;
}

#[tokio::test]
async fn a_miss_is_a_read_with_a_load_inside_and_a_hit_in_memory_is_nothing() {
    let (board, spans, _here) = listen();
    let seawall = Seawall::connect("embedded:").await.expect("it starts");
    let shops: Cache<u64, String> = seawall.cache("shop").build().expect("valid");
    let read = async |key: u64| {
        let load = move || async move {
            tracing::info_span!("query").in_scope(|| ());
            if key == 2 { Err("no database") } else { Ok(Loaded::Found("tea house".to_owned())) }
        };
        shops.get_or_load(&key, load).await
    };
    read(1).await.expect("loaded");
    let [load] = &spans.named("cache_load")[..] else { panic!("one load") };
    let [missed] = &spans.named("cache_read")[..] else { panic!("one read") };
    let [query] = &spans.named("query")[..] else { panic!("the loader's own span") };
    assert_eq!((&load.parent, &query.parent), (&Some(missed.id.clone()), &Some(load.id.clone())));
    let of = ["otel.kind", "db.system.name", "db.operation.name", "seawall.cache.name"];
    assert_eq!(missed.values(&of), ["client", "redis", "GET", "shop"]);
    assert_eq!(missed.values(&["seawall.cache.source", "error.type"]), ["loaded", "-"]);
    assert_eq!(board.samples("seawall_cache_load_seconds cache=shop").len(), 1);
    assert_eq!(board.samples("seawall_cache_read_seconds cache=shop source=loaded").len(), 1);

    read(1).await.expect("a hit");
    assert_eq!(spans.named("cache_read").len(), 1, "memory answered");
    read(2).await.expect_err("the loader fails");
    let failed = spans.named("cache_read").pop().expect("a read");
    assert_eq!(failed.values(&["seawall.cache.source", "error.type"]), ["error", "load"]);
    let failed = spans.named("cache_load").pop().expect("a load");
    assert_eq!(failed.values(&["error.type"]), ["load"]);
    assert_eq!(board.samples("seawall_cache_read_seconds cache=shop source=error").len(), 1);

    let keys = [1, 3, 4];
    let load = |keys: Vec<u64>| async move {
        Ok::<_, Infallible>(keys.into_iter().map(|key| (key, key.to_string())).collect())
    };
    assert!(shops.get_many(&keys, load).await.iter().all(Result::is_ok));
    let batch = spans.named("cache_read").pop().expect("a read");
    let of = ["db.operation.name", "db.operation.batch.size", "seawall.cache.source"];
    assert_eq!(batch.values(&of), ["MGET", "2", "loaded"]);
    let load = spans.named("cache_load").pop().expect("a load");
    assert_eq!(load.parent, Some(batch.id));
    seawall.shutdown().await;
}

#[tokio::test]
async fn locks_are_timed_and_their_spans_do_not_name_the_key() {
    let (board, spans, _here) = listen();
    let seawall = Seawall::connect("embedded:").await.expect("it starts");
    let lock = seawall.lock(("user", "alice@example.com"));
    let guard = lock.acquire(Duration::from_secs(1)).await.expect("answered");
    let guard = guard.acquired().expect("it is free");
    assert!(lock.try_acquire().await.expect("answered").acquired().is_none());
    let _ = guard.release().await.expect("answered");
    let [acquired, busy] = &spans.named("lock_acquire")[..] else { panic!("two attempts") };
    let of = ["otel.kind", "db.system.name", "db.operation.name", "seawall.lock.outcome"];
    assert_eq!(acquired.values(&of), ["client", "redis", "EVALSHA", "acquired"]);
    assert_eq!(busy.values(&["seawall.lock.outcome", "error.type"]), ["busy", "-"]);
    let all = spans.0.lock().expect("no panic").clone();
    let mut values = all.iter().flat_map(|span| span.fields.values());
    assert!(!values.any(|value| value.contains("alice")), "keys may be personal data");
    assert_eq!(board.samples("seawall_lock_wait_seconds").len(), 1);
    assert_eq!(board.samples("seawall_lock_hold_seconds").len(), 1);
    seawall.shutdown().await;
}

#[tokio::test]
async fn handlers_are_timed_and_have_a_span_with_their_attributes() {
    let (board, spans, _here) = listen();
    let seawall = Seawall::connect("embedded:").await.expect("it starts");
    let orders = seawall.stream::<u64>("orders").expect("a name");
    let id = orders.append(&7).await.expect("appended");
    let handle = |delivery: seawall::stream::Delivery<u64>| async move {
        tracing::info_span!("insert").in_scope(|| ());
        let _ = delivery;
        Outcome::Done
    };
    let worker = orders.worker("billing").spawn(handle).expect("valid");
    let mails = seawall.delayed_queue::<u64>("mails").build().expect("valid");
    let _ = mails.add("alice@example.com", &1, Duration::ZERO).await.expect("added");
    let mailer = mails.worker().spawn(|_| async { Outcome::Park("full".to_owned()) });
    let mailer = mailer.expect("valid");
    let ended = |name: &str| !board.samples(name).is_empty();
    eventually("both are handled", async || {
        ended("seawall_stream_handler_seconds group=billing")
            && ended("seawall_queue_handler_seconds queue=mails")
    })
    .await;
    let of = [
        "otel.kind",
        "otel.name",
        "messaging.system",
        "messaging.operation.type",
        "messaging.destination.name",
        "error.type",
    ];
    let [order] = &spans.named("stream_handle")[..] else { panic!("one call") };
    assert_eq!(
        order.values(&of),
        ["consumer", "process orders", "redis", "process", "orders", "-"]
    );
    let of_group = ["messaging.consumer.group.name", "messaging.message.id", "seawall.attempt"];
    assert_eq!(order.values(&of_group), ["billing", &id.to_string(), "1"]);
    let [insert] = &spans.named("insert")[..] else { panic!("the handler's own span") };
    assert_eq!(insert.parent, Some(order.id.clone()));
    let [mail] = &spans.named("queue_handle")[..] else { panic!("one call") };
    assert_eq!(
        mail.values(&of),
        ["consumer", "process mails", "redis", "process", "mails", "park"]
    );
    assert!(!mail.fields.values().any(|value| value.contains("alice")), "callers choose ids");
    for delay in
        ["seawall_stream_delay_seconds group=billing", "seawall_queue_delay_seconds queue=mails"]
    {
        let [delay] = board.samples(delay)[..] else { panic!("one sample of {delay}") };
        assert!((0.0..60.0).contains(&delay), "{delay}");
    }
    let _ = worker.shutdown().await;
    mailer.shutdown().await;
    seawall.shutdown().await;
}

#[tokio::test]
async fn items_are_counted_by_queue_and_a_postponement_is_no_error() {
    let (board, spans, _here) = listen();
    let seawall = Seawall::connect("embedded:").await.expect("it starts");
    let numbers = seawall.delayed_queue::<u64>("numbers").max_attempts(2).build().expect("valid");
    // Another program's items in the same queue.
    let words = seawall.delayed_queue::<String>("numbers").build().expect("valid");
    let _ = words.add("word", &"no number".to_owned(), Duration::ZERO).await.expect("added");
    for number in 0..3 {
        let id = number.to_string();
        let _ = numbers.add(&id, &number, Duration::ZERO).await.expect("added");
    }
    let other = seawall.delayed_queue::<u64>("other").build().expect("valid");
    let _ = other.add("one", &1, Duration::ZERO).await.expect("added");
    let is_first = std::sync::atomic::AtomicBool::new(true);
    let worker = numbers.worker().retry_delay(Duration::ZERO).spawn(move |job| {
        let outcome = match job.into_payload() {
            0 => Outcome::Done,
            1 if is_first.swap(false, std::sync::atomic::Ordering::SeqCst) => {
                Outcome::Postpone(Duration::ZERO)
            }
            1 => Outcome::Done,
            _ => Outcome::Failed("never".to_owned()),
        };
        async { outcome }
    });
    let worker = worker.expect("valid");
    let second = other.worker().spawn(|_| async { Outcome::Done }).expect("valid");
    let expected: Vec<(String, u64)> = [
        ("queue=numbers outcome=dead", 2),
        ("queue=numbers outcome=handled", 2),
        ("queue=numbers outcome=retried", 2),
        ("queue=other outcome=handled", 1),
    ]
    .map(|(of, count)| (of.to_owned(), count))
    .to_vec();
    let counts = || board.counts("seawall_queue_items_total");
    eventually("all are settled", async || {
        counts().iter().map(|(_, count)| count).sum::<u64>() >= 7
    })
    .await;
    assert_eq!(counts(), expected);
    worker.shutdown().await;
    second.shutdown().await;
    let mut errors: Vec<String> = spans
        .named("queue_handle")
        .iter()
        .map(|span| span.values(&["error.type"]).concat())
        .collect();
    errors.sort_unstable();
    assert_eq!(errors, ["-", "-", "-", "-", "failed", "failed"]);
    seawall.shutdown().await;
}

#[tokio::test]
async fn reservations_and_a_sample_of_the_commands_are_timed() {
    let (board, _, _here) = listen();
    let seawall = Seawall::connect("embedded:").await.expect("it starts");
    let sale = seawall.flash_sale(&35).build().expect("valid");
    let window = SaleWindow::from_now(Duration::ZERO, Duration::from_secs(60)).expect("valid");
    let _ = sale.open("opening", window, 1).await.expect("opened");
    for user in 0..2 {
        let _ = sale.reserve(&user, &user, &OrderFields::new()).await.expect("answered");
    }
    assert_eq!(board.samples("seawall_stock_reserve_seconds kind=sale").len(), 2);
    let stock = seawall.inventory(&"sku").shards(2).open().await.expect("opened");
    let _ = stock.receive("delivery", 10).await.expect("received");
    let reference = stock.reference("order").expect("valid");
    let _ = stock.hold(&reference, 1, Duration::from_secs(60)).await.expect("held");
    assert_eq!(board.samples("seawall_stock_reserve_seconds kind=inventory").len(), 1);
    for _ in 0..100 {
        seawall.client().send(b"k", cmd("GET").arg("k")).await.expect("answered");
    }
    let sampled = board.samples("seawall_command_seconds family=string").len();
    assert!((3..=6).contains(&sampled), "{sampled} of 100");
    seawall.shutdown().await;
}
