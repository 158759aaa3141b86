//! A transport of the caller's: connections through anything that carries bytes. With an engine that
//! has no thread at its other end, a handle needs neither the operating system's time nor its sockets.

use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use crate::eventually::eventually;
use futures_util::task::AtomicWaker;
use seawall::{
    Error, Seawall,
    cache::Cache,
    client::Address,
    clock::{Clock, ManualTime},
    cmd,
    guard::random::Randomness,
    session::Sessions,
};
use seawall_engine::Clock as EngineClock;
use seawall_server::{Config, Host};
use seawall_testkit::ServerProcess;
use tokio::{net::TcpStream, runtime::Runtime};

/// The handle's time, as the engine reads it.
struct SameTime(ManualTime);

impl EngineClock for SameTime {
    fn unix_micros(&self) -> i64 {
        1_700_000_000_000_000 + self.0.now().as_nanos() as i64 / 1000
    }

    fn monotonic_nanos(&self) -> u64 {
        self.0.now().as_nanos()
    }
}

/// A runtime without sockets and timers: whatever asks it for one panics.
struct Machine {
    runtime: Runtime,
    idle: Arc<Idle>,
}

/// Tells the machine that no task can run.
#[derive(Default)]
struct Idle {
    is_so: AtomicBool,
    tell: AtomicWaker,
}

impl Machine {
    fn new() -> Self {
        let idle = Arc::new(Idle::default());
        let parked = Arc::clone(&idle);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .on_thread_park(move || {
                parked.is_so.store(true, Ordering::Relaxed);
                parked.tell.wake();
            })
            .build()
            .expect("a runtime");
        Machine { runtime, idle }
    }

    /// Runs `work`; whenever no task can run, time jumps to the next moment at which one can.
    fn run<T>(&self, time: &ManualTime, host: &Host, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            self.idle.is_so.store(false, Ordering::Relaxed);
            let turn = self.runtime.block_on(poll_fn(|cx| match work.as_mut().poll(cx) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending if self.idle.is_so.load(Ordering::Relaxed) => Poll::Ready(None),
                Poll::Pending => {
                    self.idle.tell.register(cx.waker());
                    Poll::Pending
                }
            }));
            if let Some(done) = turn {
                return done;
            }
            host.tick();
            let next = time.next_timer().expect("the engine answers at once: only time is awaited");
            time.advance(next.since(time.now()));
        }
    }
}

/// Some minutes of a handle: returns what it saw, and how long it took.
fn some_minutes(seed: u64) -> (Vec<String>, Duration) {
    let (clock, time) = Clock::manual();
    let mut config = Config::default();
    config.engine.seed = seed;
    config.clock = Some(Arc::new(SameTime(time.clone())));
    let host = Arc::new(Host::new(config).expect("a host needs nothing"));
    let dialled = Arc::new(AtomicU64::new(0));
    let (engine, count) = (Arc::clone(&host), Arc::clone(&dialled));
    let work = async {
        let seawall = Seawall::builder("redis://simulated:1")
            .transport(move |address| {
                assert_eq!(address.to_string(), "simulated:1");
                count.fetch_add(1, Ordering::Relaxed);
                let stream = engine.connect();
                async move { Ok(stream) }
            })
            .clock(clock.clone())
            .network_clock(clock.clone())
            .randomness(Randomness::seeded(seed))
            .connect()
            .await?;
        let mut seen = Vec::new();
        let cache: Cache<u64, u64> = seawall
            .cache("numbers")
            .ttl(Duration::from_secs(30))
            .max_stale(Duration::ZERO)
            .build()?;
        let sessions: Sessions<u64> = seawall.sessions("login").build()?;
        for minute in 0..20 {
            let read =
                cache.get_or_load(&7, move || async move { Ok::<_, io::Error>(minute) }).await;
            seen.push(format!("{:?}", read.map(|read| read.value)));
            let taken = seawall.lock("night watch").acquire(Duration::from_secs(1)).await?;
            let guard = taken.acquired().expect("it is free");
            clock.sleep(Duration::from_secs(60)).await;
            seen.push(format!("{:?} lost: {}", guard.token(), guard.is_lost()));
            let _ = guard.release().await?;
            let token = sessions.open(&minute, &BTreeMap::new()).await?;
            seen.push(token.reveal().to_owned());
        }
        seawall.shutdown().await;
        Ok::<_, Error>(seen)
    };
    let began = time.now();
    let seen = Machine::new().run(&time, &host, work).expect("no faults");
    assert!(dialled.load(Ordering::Relaxed) >= 2, "commands and messages");
    (seen, time.now().since(began))
}

#[test]
fn minutes_pass_on_one_thread_without_sockets_and_timers_and_the_seed_decides_them() {
    let (seen, took) = some_minutes(7);
    assert_eq!(seen.len(), 60);
    assert!((1200..1260).contains(&took.as_secs()));
    // Each minute the entry of the one before is past its lifetime, and the lock is held throughout.
    assert_eq!(seen[0], "Ok(Some(0))");
    assert_eq!(seen[57], "Ok(Some(19))");
    assert!(seen.iter().skip(1).step_by(3).all(|held| held.ends_with("lost: false")), "{seen:?}");
    assert_eq!(some_minutes(7), (seen.clone(), took));
    assert_ne!(some_minutes(8).0, seen);
}

#[tokio::test]
async fn a_transport_leads_to_real_servers_and_its_errors_are_outages() {
    let server = ServerProcess::redis().expect("a server");
    let port = server.port();
    let open = Arc::new(AtomicBool::new(true));
    let is_open = Arc::clone(&open);
    let seawall = Seawall::builder("redis://behind.a.tunnel:9")
        .transport(move |address| {
            let is_open = is_open.load(Ordering::Relaxed);
            async move {
                match address {
                    Address::Tcp(host) if host.port == 9 && is_open => {
                        TcpStream::connect(("127.0.0.1", port)).await
                    }
                    other => Err(io::Error::other(format!("the tunnel to {other} is closed"))),
                }
            }
        })
        .connect()
        .await
        .expect("the tunnel is open");
    let client = seawall.client();
    client.send(b"k", cmd("SET").arg("k").arg("v")).await.expect("stored");
    open.store(false, Ordering::Relaxed);
    client.send(b"k", &cmd("QUIT")).await.ok();
    eventually("the tunnel's error is the outage's cause", async || {
        let error = client.send(b"k", cmd("GET").arg("k")).await.expect_err("closed").to_string();
        error.contains("the tunnel to behind.a.tunnel:9 is closed")
    })
    .await;
    open.store(true, Ordering::Relaxed);
    eventually("it is open again", async || client.send(b"k", cmd("GET").arg("k")).await.is_ok())
        .await;
    seawall.shutdown().await;
}
