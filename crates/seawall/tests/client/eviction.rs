//! A capability that must not lose a key says so when its server may evict one.

use std::{
    fmt::{self, Debug},
    sync::Mutex,
    time::{Duration, Instant},
};

use seawall::Seawall;
use seawall_testkit::ServerBuilder;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Warnings of this process.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps warnings and nothing else.
struct Listener;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        fmt::Write::write_fmt(&mut self.0, format_args!("{field}={value:?} ")).expect("a string");
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        WARNINGS.lock().expect("no panic").push(text.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn warnings() -> Vec<String> {
    let all = WARNINGS.lock().expect("no panic");
    all.iter().filter(|text| text.contains("evicts keys")).cloned().collect()
}

/// Uses everything that must not lose a key.
async fn use_all(seawall: &Seawall) {
    let _ = seawall.lock("x").try_acquire().await.expect("answered");
    seawall.stream::<u64>("s").expect("a name");
    seawall.delayed_queue::<u64>("d").build().expect("valid");
    seawall.list_queue::<u64>("l").expect("a name");
    seawall.sessions::<u64>("users").build().expect("valid");
    seawall.flash_sale("sale").build().expect("valid");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_may_evict_is_warned_of_once() {
    tracing::subscriber::set_global_default(Listener).expect("the only one");
    let keeps = ServerBuilder::redis().args(["--maxmemory", "100mb"]).start().expect("it starts");
    let evicts = ["--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"];
    let evicts = ServerBuilder::redis().args(evicts).start().expect("it starts");

    let safe = Seawall::connect(&keeps.url()).await.expect("it answers");
    use_all(&safe).await;
    safe.shutdown().await;
    assert_eq!(warnings(), Vec::<String>::new(), "noeviction loses nothing");

    let seawall = Seawall::connect(&evicts.url()).await.expect("it answers");
    let cache = seawall.cache::<u64, u64>("cache").build().expect("valid");
    cache.put(&1, &1).await.expect("stored");
    assert_eq!(warnings(), Vec::<String>::new(), "a cache may be evicted");
    use_all(&seawall).await;
    one_more_warning_than(0).await;
    seawall.shutdown().await;
    let [warning] = &warnings()[..] else { panic!("{:?}", warnings()) };
    assert!(warning.contains("locks") && warning.contains("volatile-lru"), "{warning}");

    // A handle that was made while its server was down asks when it is up.
    let mut server = evicts;
    server.kill().expect("it ends");
    let lazy = Seawall::connect_lazy(&server.url()).expect("a good URL");
    assert!(lazy.lock("x").try_acquire().await.is_err(), "it is down");
    server.restart().expect("it starts again");
    one_more_warning_than(1).await;
    lazy.shutdown().await;
}

async fn one_more_warning_than(before: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while warnings().len() <= before {
        assert!(Instant::now() < deadline, "no warning");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(warnings().len(), before + 1, "{:?}", warnings());
}
