//! Every setting that is a time, of every builder, at times that make no sense: it is refused by a
//! sentence, or everything works. Nothing panics, and nothing overflows.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use seawall::{
    Error, Seawall,
    cache::{Cache, CacheBuilder, KeyFilter, KeySink, Loaded},
    cmd,
    guard::{Breaker, Bulkhead, Rate, ResiliencePipeline, TokenBucket},
    hotkey::{HotRule, HotRules},
    limit,
    queue::Job,
    social::{Order, Post},
    stock::{OrderFields, SaleWindow},
    stream::{Delivery, Outcome},
};

const PATIENCE: Duration = Duration::from_secs(60);
const MINUTE: Duration = Duration::from_secs(60);

/// What a time may be by mistake.
const TIMES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_millis(1),
    Duration::from_millis(u64::MAX),
    Duration::MAX,
];

/// A caller's error, or a reason why it was refused.
type Outcomes = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// What panicked in this process, wherever it was.
#[derive(Clone, Default)]
struct Panics(Arc<Mutex<Vec<String>>>);

impl Panics {
    fn watch() -> Self {
        let panics = Panics::default();
        let (seen, before) = (panics.clone(), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            seen.0.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
            before(panic);
        }));
        panics
    }

    fn seen(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Draws a setting at every time. What is not refused must work, unless it is so short that a busy
/// machine cannot keep it.
async fn draw<F>(name: &str, panics: &Panics, mut work: impl FnMut(Duration) -> F)
where
    F: Future<Output = Outcomes> + Send + 'static,
{
    for time in TIMES {
        let done = tokio::time::timeout(PATIENCE, tokio::spawn(work(time))).await;
        let outcome = done.unwrap_or_else(|_| panic!("{name} at {time:?} hangs"));
        let outcome = outcome.unwrap_or_else(|error| panic!("{name} at {time:?}: {error}"));
        if let Err(error) = outcome {
            let ours = error.downcast_ref::<Error>();
            let refused = match ours {
                Some(Error::Invalid(sentence)) => sentence.contains(' '),
                Some(error) => error.is_outage() && time <= Duration::from_millis(1),
                None => error.is::<seawall::guard::InvalidSettings>(),
            };
            let late = time <= Duration::from_millis(1) && error.is::<Late>();
            assert!(refused || late, "{name} at {time:?}: {error}");
        }
        assert_eq!(panics.seen(), [""; 0], "{name} at {time:?}");
    }
}

/// A time so short was over.
#[derive(Debug, thiserror::Error)]
#[error("late")]
struct Late;

async fn embedded() -> Seawall {
    let builder = Seawall::builder("embedded:").response_timeout(PATIENCE);
    builder.connect().await.expect("in")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_of_a_handle() {
    let panics = Panics::watch();
    type Set = fn(seawall::Builder, Duration) -> seawall::Builder;
    let settings: [(&str, Set); 2] = [
        ("connect_timeout", seawall::Builder::connect_timeout),
        ("response_timeout", seawall::Builder::response_timeout),
    ];
    for (name, set) in settings {
        draw(name, &panics, |time| async move {
            let seawall = set(Seawall::builder("embedded:"), time).connect().await?;
            seawall.client().send(b"k", cmd("SET").arg("k").arg("v")).await?;
            if let Some(guard) = seawall.lock("x").try_acquire().await?.acquired() {
                let _ = guard.extend(Duration::from_secs(1)).await?;
                let _ = guard.release().await?;
            }
            seawall.shutdown().await;
            Ok(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_of_a_cache() {
    let panics = Panics::watch();
    let seawall = embedded().await;
    type Set = fn(CacheBuilder<u64, u64>, Duration) -> CacheBuilder<u64, u64>;
    let filter: Set = |cache, time| {
        let filter = KeyFilter::new(100, |sink: KeySink<u64>| async move {
            sink.add(&1);
            Ok::<_, io::Error>(())
        });
        cache.filter(filter.rebuild_every(time))
    };
    let rule: Set = |cache, time| {
        cache.hot_keys(HotRules::all(HotRule::new(5, Duration::from_secs(1)).cool_for(time)))
    };
    let window: Set = |cache, time| cache.hot_keys(HotRules::all(HotRule::new(5, time)));
    let settings: [(&str, Set); 13] = [
        ("ttl", CacheBuilder::ttl),
        ("max_stale", CacheBuilder::max_stale),
        ("negative_ttl", CacheBuilder::negative_ttl),
        ("lease_ttl", CacheBuilder::lease_ttl),
        ("loader_timeout", CacheBuilder::loader_timeout),
        ("read_timeout", CacheBuilder::read_timeout),
        ("wait_budget", CacheBuilder::wait_budget),
        ("second_invalidation_after", CacheBuilder::second_invalidation_after),
        ("local_ttl", CacheBuilder::local_ttl),
        ("outage_ttl", CacheBuilder::outage_ttl),
        ("rebuild_every", filter),
        ("cool_for", rule),
        ("window", window),
    ];
    for (name, set) in settings {
        draw(name, &panics, |time| {
            let seawall = seawall.clone();
            async move {
                // Long enough for whatever else is drawn.
                let builder = seawall.cache(name).read_timeout(Duration::MAX);
                let cache: Cache<u64, u64> = set(builder, time).build()?;
                for _ in 0..2 {
                    let found = || async { Ok::<_, io::Error>(Loaded::Found(7)) };
                    match cache.get_or_load(&1, found).await {
                        Ok(read) => assert_eq!(read.value.as_deref(), Some(&7)),
                        Err(_) => return Err(Late.into()),
                    }
                    let missing = || async { Ok::<_, io::Error>(Loaded::Missing) };
                    cache.get_or_load(&2, missing).await.map_err(|_| Late)?;
                }
                let _ = cache.invalidate(&1).await?;
                cache.put(&3, &9).await?;
                Ok(())
            }
        })
        .await;
    }
    seawall.shutdown().await;
    assert_eq!(panics.seen(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_of_locks() {
    let panics = Panics::watch();
    let seawall = embedded().await;
    let kinds = |seawall: &Seawall| {
        let rw = seawall.rw_lock("x");
        [
            seawall.lock("x"),
            seawall.fair_lock("x"),
            rw.read(),
            rw.write(),
            seawall.semaphore("x", 2),
        ]
    };
    type Set = fn(seawall::lock::Lock, Duration) -> seawall::lock::Lock;
    let settings: [(&str, Set); 3] = [
        ("lease", seawall::lock::Lock::lease_ttl),
        ("poll_interval", seawall::lock::Lock::poll_interval),
        ("replicas", |lock, time| lock.replicas(0, time)),
    ];
    for (name, set) in settings {
        draw(name, &panics, |time| {
            let kinds = kinds(&seawall);
            async move {
                for lock in kinds {
                    let guard = set(lock, time).try_acquire().await?.acquired().ok_or(Late)?;
                    let _ = guard.release().await?;
                }
                Ok(())
            }
        })
        .await;
    }
    // How long one waits, for what is free and for what is not.
    draw("within", &panics, |time| {
        let (kinds, seawall) = (kinds(&seawall), seawall.clone());
        async move {
            for lock in kinds {
                let guard = lock.acquire(time).await?.acquired().ok_or(Late)?;
                let waiting = lock.acquire(time);
                // Who waits for ever waits as long as the test does.
                let _ = tokio::time::timeout(Duration::from_millis(20), waiting).await;
                let _ = guard.extend(time).await;
                let _ = guard.release().await?;
            }
            let several = seawall.multi_lock(["a", "b"]).acquire(time).await?;
            let _ = several.acquired().ok_or(Late)?.release().await?;
            let latch = seawall.latch("open", 1);
            latch.arrive("a").await?;
            let _ = latch.wait(time).await?;
            Ok(())
        }
    })
    .await;
    draw("latch", &panics, |time| {
        let seawall = seawall.clone();
        async move {
            let latch = seawall.latch(("latch", format!("{time:?}")), 1).ttl(time);
            latch.arrive("a").await?;
            // It lives, and it ends.
            let _ = latch.state().await?;
            seawall.latch("lease", 1).lease_ttl(time).join("b").await?.arrive().await?;
            Ok(())
        }
    })
    .await;
    seawall.shutdown().await;
    assert_eq!(panics.seen(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_of_queues_and_streams() {
    let panics = Panics::watch();
    let seawall = embedded().await;
    type Set = fn(Duration, usize) -> Duration;
    // The setting that is drawn, and its default for the others.
    let at: Set = |time, drawn| if drawn == 1 { time } else { Duration::from_secs(1) };
    for (drawn, name) in ["lease", "remember", "poll", "retry_delay", "drain_timeout", "after"]
        .into_iter()
        .enumerate()
    {
        draw(name, &panics, |time| {
            let seawall = seawall.clone();
            let at = move |setting: usize| at(time, usize::from(setting == drawn));
            async move {
                let queue = seawall.delayed_queue::<u64>(format!("{name}-{time:?}"));
                let queue = queue.lease_ttl(at(0) * u32::from(drawn != 0).max(1));
                let queue = queue.dedup_ttl(at(1)).build()?;
                let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
                let worker = queue.worker().poll_interval(at(2)).retry_delay(at(3)).drain_timeout(at(4));
                let worker = worker.spawn(move |job: Job<u64>| {
                    let first = job.attempt() == 1;
                    let _ = tell.send(());
                    // Tried again, it would be after the pause that is drawn.
                    async move { if first { Outcome::Failed("once".into()) } else { Outcome::Done } }
                })?;
                let _ = queue.add("now", &1, Duration::ZERO).await?;
                told.recv().await.ok_or(Late)?;
                if drawn == 5 {
                    let _ = queue.add("some day", &2, time).await?;
                    let _ = queue.reschedule("some day", time).await?;
                    let _ = queue.claim(1).await?;
                }
                worker.shutdown().await;
                Ok(())
            }
        })
        .await;
    }
    for (drawn, name) in ["claim_idle", "retry_delay", "drain_timeout"].into_iter().enumerate() {
        draw(name, &panics, |time| {
            let seawall = seawall.clone();
            let at = move |setting: usize| at(time, usize::from(setting == drawn));
            async move {
                let stream = seawall.stream::<u64>(format!("{name}-{time:?}"))?;
                let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
                let worker = stream.worker("g").claim_idle(at(0)).retry_delay(at(1));
                let worker = worker.drain_timeout(at(2)).spawn(move |entry: Delivery<u64>| {
                    let first = entry.attempt() == 1;
                    let _ = tell.send(());
                    async move { if first { Outcome::Failed("once".into()) } else { Outcome::Done } }
                })?;
                stream.append(&1).await?;
                told.recv().await.ok_or(Late)?;
                let _ = worker.shutdown().await;
                Ok(())
            }
        })
        .await;
    }
    seawall.shutdown().await;
    assert_eq!(panics.seen(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_of_stock_sessions_ids_and_limits() {
    let panics = Panics::watch();
    let seawall = embedded().await;
    draw("retention", &panics, |time| {
        let seawall = seawall.clone();
        async move {
            let id = format!("{time:?}");
            let sale = seawall.flash_sale(&*id).retention(time).build()?;
            let window = SaleWindow::from_now(Duration::ZERO, MINUTE)?;
            let _ = sale.open("o", window, 1).await?;
            let reserved = sale.reserve(&1, &"a", &OrderFields::new()).await?;
            assert!(reserved.receipt().is_some(), "{reserved:?}");
            let other = seawall.flash_sale(&format!("window-{id}")).build()?;
            let _ = other.open("o", SaleWindow::from_now(time, time)?, 1).await?;
            Ok(())
        }
    })
    .await;
    for drawn in 0..3 {
        draw(["reference_ttl", "sweep_interval", "hold"][drawn], &panics, |time| {
            let seawall = seawall.clone();
            async move {
                let mut builder = seawall.inventory(&format!("{drawn}-{time:?}")).shards(2);
                match drawn {
                    0 => builder = builder.reference_ttl(time),
                    1 => builder = builder.sweep_interval(time),
                    _ => {}
                }
                let stock = builder.open().await?;
                let _ = stock.receive("r", 10).await?;
                let reference = stock.reference("order")?;
                let held = if drawn == 2 { time } else { MINUTE };
                let _ = stock.hold(&reference, 1, held).await?;
                let _ = stock.sell(&reference).await?;
                assert!(stock.audit().await?.is_conserved());
                Ok(())
            }
        })
        .await;
    }
    for drawn in 0..2 {
        draw(["idle", "longest"][drawn], &panics, |time| {
            let seawall = seawall.clone();
            async move {
                let sessions = seawall.sessions::<u64>(format!("{drawn}-{time:?}"));
                let sessions = match drawn {
                    0 => sessions.idle_ttl(time).max_ttl(Duration::from_secs(300_000_000)),
                    _ => sessions.max_ttl(time),
                };
                let sessions = sessions.build()?;
                let token = sessions.open(&7, &seawall::session::Fields::default()).await?;
                assert!(sessions.load(&token).await?.found().is_some());
                Ok(())
            }
        })
        .await;
    }
    draw("freshness", &panics, |time| {
        let ids = seawall.ids(format!("{time:?}")).max_age(time).build();
        async move {
            let ids = ids?;
            assert!(ids.next().await? < ids.next().await?);
            Ok(())
        }
    })
    .await;
    for drawn in 0..3 {
        draw(["patience", "rate", "window"][drawn], &panics, |time| {
            let name = format!("{drawn}-{time:?}");
            let limiter = match drawn {
                0 => seawall.limiter(name, limit::Rate::per_second(5)).redis_timeout(time),
                1 => seawall.limiter(name, limit::Rate::of(5, time)),
                _ => seawall.limiter(name, limit::Window::of(5, time)),
            };
            async move {
                let limiter = limiter.build()?;
                let _ = limiter.check("user", 1).await?;
                Ok(())
            }
        })
        .await;
    }
    for drawn in 0..2 {
        draw("max_latency", &panics, |time| {
            let seawall = seawall.clone();
            async move {
                let never = std::future::pending();
                match drawn {
                    0 => drop(seawall.survey().max_latency(time).run(|_| {}, never).await?),
                    _ => {
                        let survey = seawall.hot_survey().max_latency(time);
                        drop(survey.by_frequency(|_| {}, never).await?);
                    }
                }
                Ok(())
            }
        })
        .await;
    }
    seawall.shutdown().await;
    assert_eq!(panics.seen(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_of_social_structures() {
    let panics = Panics::watch();
    let seawall = embedded().await;
    draw("lifetime", &panics, |time| {
        let seawall = seawall.clone();
        async move {
            let name = format!("{time:?}");
            let day = "2026-11-16".parse()?;
            let mut refused = 0;
            // Each for itself: one that refuses does not keep the others from being drawn.
            let mut note = |outcome: Result<(), Error>| match outcome {
                Err(Error::Invalid(_)) => {
                    refused += 1;
                    Ok(())
                }
                outcome => outcome,
            };
            let visits = seawall.visits(&name).ttl(time);
            note(async { visits.of("home")?.visit(day, &7_u64).await.map(drop) }.await)?;
            let board = seawall.leaderboard::<u64>(&name).ttl(time);
            note(async { board.season("s")?.add(&1, 5, "once").await.map(drop) }.await)?;
            let inbox = seawall.inbox::<u64>(&name).ttl(time);
            let post = Post { author: 1, item: 2, time: 1_000 };
            note(
                async {
                    let pushed = inbox.push(&post, &[7]).await?;
                    assert_eq!(pushed.reached, 1, "{pushed:?}");
                    Ok(())
                }
                .await,
            )?;
            let follows = seawall.follows::<u64>(&name).ttl(time);
            let follows = follows.source(|_| async { Ok::<_, io::Error>(vec![3]) }).build();
            note(async { follows?.of(&1)?.follow(&4).await.map(drop) }.await)?;
            let load = |_: u64| async { Ok::<_, io::Error>(vec![(7_u64, 1_000_i64)]) };
            let line = seawall.timelines::<u64, _, _, _>(&name, load).ttl(time).build();
            note(async { line?.of(&1)?.first(5).await.map(drop) }.await)?;
            let source = |_: u64, _: Option<Order>, _: usize| async {
                Ok::<_, io::Error>(vec![Order { id: 1001, time: 1_000 }])
            };
            let orders = seawall.order_index(&name, source).ttl(time).build();
            note(async { orders?.of(&7)?.page(None, 10).await.map(drop) }.await)?;
            let sensible = time == Duration::from_millis(1);
            assert_eq!(refused, if sensible { 3 } else { 6 }, "{time:?}");
            Ok(())
        }
    })
    .await;
    // What was not refused ends some day.
    let keys: Vec<String> = seawall.client().query(b"", cmd("KEYS").arg("*")).await.expect("keys");
    for key in keys {
        let left: i64 =
            seawall.client().query(key.as_bytes(), cmd("PTTL").arg(&key)).await.expect("a number");
        assert_ne!(left, -1, "{key} never ends");
    }
    seawall.shutdown().await;
    assert_eq!(panics.seen(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_of_guards() {
    let panics = Panics::watch();
    for drawn in 0..10 {
        let name = [
            "window",
            "probe_interval",
            "probe_timeout",
            "slow_call_threshold",
            "max_wait",
            "target_latency",
            "rate",
            "token_timeout",
            "fair_time",
            "within",
        ][drawn];
        draw(name, &panics, |time| async move {
            let (mut breaker, mut bulkhead) = (Breaker::builder(name), Bulkhead::builder(name, 2));
            let mut pipeline = ResiliencePipeline::builder(name);
            let mut rate = Rate::per_second(100);
            match drawn {
                0 => breaker = breaker.window(time),
                1 => breaker = breaker.probe_interval(time),
                2 => breaker = breaker.probe_timeout(time),
                3 => breaker = breaker.slow_call_threshold(time),
                4 => bulkhead = bulkhead.max_wait(time),
                5 => bulkhead = bulkhead.target_latency(time),
                6 => rate = Rate::new(100, time),
                7 => pipeline = pipeline.token_timeout(time),
                8 => pipeline = pipeline.fair_time(time),
                _ => {}
            }
            let pipeline = pipeline
                .breaker(breaker.failure_threshold(2).build()?)
                .bulkhead(bulkhead.build()?)
                .bucket(TokenBucket::builder(name, rate).build()?)
                .build()?;
            let within = if drawn == 9 { time } else { MINUTE };
            for round in 0..8 {
                let work = || async move {
                    if round < 4 {
                        Err(io::Error::other("no"))
                    } else {
                        Ok(HashMap::from([(1, 2)]))
                    }
                };
                let _ = pipeline.within(within, work).await;
            }
            Ok(())
        })
        .await;
    }
}
