//! Rebuilt while it is read and written: no gap.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use seawall::{
    Seawall,
    bloom::{Answer, Bloom, BloomSink, Created, Insert, Rebuild},
    cmd,
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    no_key_is_denied_while_the_filter_is_rebuilt
    one_builds_and_failures_leave_the_old_one
}

/// A table of ids that only grows.
#[derive(Clone, Default)]
struct Table(Arc<AtomicU64>);

impl Table {
    /// Streams all rows, slowly enough for others to add meanwhile.
    async fn stream(self, sink: BloomSink<u64>) -> seawall::Result<()> {
        let last = self.0.load(Ordering::SeqCst);
        for from in (0..last).step_by(50) {
            sink.add_many(&(from..last.min(from + 50)).collect::<Vec<_>>()).await?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

async fn no_key_is_denied_while_the_filter_is_rebuilt(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let make =
        |seawall: &Seawall| -> Bloom<u64> { seawall.bloom("shop", 5_000).build().expect("valid") };
    let filter = make(&one);
    assert_eq!(filter.create().await.expect("answered"), Created::Created);
    let table = Table::default();
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    // Each process adds rows, and asks for every one that was added before it asks.
    let confirmed: Arc<Vec<AtomicBool>> =
        Arc::new((0..5_000).map(|_| AtomicBool::new(false)).collect());
    for task in 0..8 {
        let filter = make(if task % 2 == 0 { &one } else { &two });
        let (table, stop, confirmed) = (table.clone(), Arc::clone(&stop), Arc::clone(&confirmed));
        tasks.push(tokio::spawn(async move {
            let mut asked = 0_u64;
            while !stop.load(Ordering::SeqCst) {
                // The database first.
                let id = table.0.fetch_add(1, Ordering::SeqCst);
                if id < 4_000 {
                    assert_ne!(filter.add(&id).await.expect("answered"), Insert::Unbuilt);
                    confirmed[id as usize].store(true, Ordering::SeqCst);
                }
                for _ in 0..4 {
                    asked = (asked + 37) % 4_000;
                    if confirmed[asked as usize].load(Ordering::SeqCst) {
                        let answer = filter.contains(&asked).await.expect("answered");
                        assert_eq!(answer, Answer::Possible, "{asked} was added");
                    }
                }
            }
        }));
    }
    let mut generations = vec![filter.status().await.expect("answered").generation];
    for _ in 0..6 {
        let table = table.clone();
        let built = filter.rebuild(5_000, |sink| table.stream(sink)).await.expect("answered");
        let Rebuild::Done { generation } = built else { panic!("{built:?}") };
        generations.push(generation);
    }
    assert!(generations.is_sorted_by(|a, b| a < b), "{generations:?}");
    stop.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.expect("no key was denied");
    }
    for id in (0..4_000_u64).filter(|id| confirmed[*id as usize].load(Ordering::SeqCst)) {
        assert_eq!(filter.contains(&id).await.expect("answered"), Answer::Possible, "{id}");
    }
    // The old generations are gone.
    let client = one.client();
    for (index, generation) in generations.iter().enumerate() {
        let key = setup.entry(&format!("bloom:{{shop:{generation}:0}}"));
        let there: u64 =
            client.query(key.as_bytes(), cmd("EXISTS").arg(&key)).await.expect("a count");
        assert_eq!(there, u64::from(index == 6));
    }
    two.shutdown().await;
    one.shutdown().await;
}

async fn one_builds_and_failures_leave_the_old_one(setup: Setup) {
    let seawall = setup.connect().await;
    let filter: Bloom<String> = seawall.bloom("names", 100).build().expect("valid");
    let ann = || "ann".to_owned();
    let stream =
        |name: String| move |sink: BloomSink<String>| async move { sink.add_many(&[name]).await };
    let built = filter.rebuild(100, stream(ann())).await.expect("answered");
    assert!(matches!(built, Rebuild::Done { .. }), "{built:?}");
    // A source that fails: the old one answers, and a build can begin at once.
    let failing = |_: BloomSink<String>| async { Err::<(), _>("no database") };
    assert!(filter.rebuild(100, failing).await.is_err());
    assert_eq!(filter.contains(&ann()).await.expect("answered"), Answer::Possible);
    assert_eq!(filter.contains(&"ben".to_owned()).await.expect("answered"), Answer::Absent);

    // While one builds, another one is told so; what is added meanwhile is in both.
    let other = filter.clone();
    let built = filter.rebuild(100, |sink: BloomSink<String>| async move {
        let busy = other.rebuild(100, stream("x".to_owned())).await?;
        assert!(matches!(busy, Rebuild::Busy { .. }), "{busy:?}");
        assert_eq!(other.add(&"carl".to_owned()).await?, Insert::New);
        assert!(other.status().await?.rebuilding);
        sink.add_many(&["dora".to_owned()]).await
    });
    assert!(matches!(built.await.expect("answered"), Rebuild::Done { .. }));
    let names = ["ann", "carl", "dora"].map(str::to_owned);
    let answers = filter.contains_many(&names).await.expect("answered");
    assert_eq!(answers, [Answer::Absent, Answer::Possible, Answer::Possible]);
    let status = filter.status().await.expect("answered");
    assert!(!status.rebuilding && status.items == 2, "{status:?}");
    // Everything is lost: nothing is denied.
    let key = setup.entry("bloom:{names}");
    seawall.client().send(key.as_bytes(), cmd("DEL").arg(&key)).await.expect("answered");
    let fresh: Bloom<String> = seawall.bloom("names", 100).build().expect("valid");
    assert_eq!(fresh.contains(&ann()).await.expect("answered"), Answer::Possible);
    seawall.shutdown().await;
}

/// A handle that knew the filter before a rebuild adds while the source has been read, and another one
/// asks after it: what both are told must be right.
#[tokio::test]
async fn what_is_added_after_the_source_was_read_is_not_denied() {
    let seawall = Seawall::connect("embedded:").await.expect("it starts");
    let make = || seawall.bloom::<u64>("f", 100).build().expect("valid");
    let (filter, early, idle) = (make(), make(), make());
    assert_eq!(filter.create().await.expect("answered"), Created::Created);
    let _ = filter.add(&1).await.expect("answered");
    for known in [&early, &idle] {
        assert_eq!(known.contains(&1).await.expect("answered"), Answer::Possible);
    }
    let built = filter.rebuild(100, |sink: BloomSink<u64>| async move {
        sink.add_many(&[1]).await?;
        // The source has been read; this one learns of the rebuild by the part's mark alone.
        let _ = early.add(&2).await?;
        Ok::<_, seawall::Error>(())
    });
    assert!(matches!(built.await.expect("answered"), Rebuild::Done { .. }));
    for (name, handle) in [("who built it", &filter), ("who knew the old one", &idle)] {
        for key in [1, 2] {
            let answer = handle.contains(&key).await.expect("answered");
            assert_eq!(answer, Answer::Possible, "{key} was added; asked by {name}");
        }
    }
    seawall.shutdown().await;
}
