//! Leases that are made longer and shorter: what the server will do never ends before what the
//! holder believes, whatever is renewed, dropped or lost meanwhile.

use std::time::{Duration, Instant};

use futures_util::{FutureExt, future::join_all};
use seawall::{
    Seawall, cmd,
    lock::{Extension, Guard, Lock, Release, With},
    testing::TestServer,
};
use seawall_testkit::{
    FaultProxy, ServerProcess,
    proxy::{Direction, On},
};

use crate::ground::{Ground, PATIENCE, eventually, on_each_backend, take};

on_each_backend! {
    no_renewal_undoes_an_extension
    a_shorter_lease_that_nobody_waited_for_is_believed
    a_shorter_lease_is_the_servers_too
    lost_is_told_when_a_lease_was_made_shorter
    a_body_is_stopped_when_its_lease_was_made_shorter
    extensions_at_once_agree_with_the_server
}

const LONG: Duration = Duration::from_secs(600);
/// Soon over, and long enough to be agreed on with a busy machine.
const SHORTER: Duration = Duration::from_secs(4);

/// What a lock is, where its end stands, and how it is taken.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Mutex,
    Fair,
    Read,
    Write,
    Semaphore,
}

const KINDS: [Kind; 5] = [Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write, Kind::Semaphore];

impl Kind {
    fn lock(self, handle: &Seawall, name: &str) -> Lock {
        match self {
            Kind::Mutex => handle.lock(name),
            Kind::Fair => handle.fair_lock(name),
            Kind::Read => handle.rw_lock(name).read(),
            Kind::Write => handle.rw_lock(name).write(),
            Kind::Semaphore => handle.semaphore(name, 2),
        }
    }

    /// The key with the end, without its prefix.
    fn key(self, name: &str) -> String {
        match self {
            Kind::Mutex => format!("lock:{{{name}}}"),
            Kind::Fair => format!("fair:{{{name}}}"),
            Kind::Read => format!("rw:{{{name}}}:readers"),
            Kind::Write => format!("rw:{{{name}}}"),
            Kind::Semaphore => format!("semaphore:{{{name}}}"),
        }
    }

    /// How long the server keeps the only hold of this lock; zero when there is none.
    async fn kept_for(self, handle: &Seawall, prefix: &str, name: &str) -> Duration {
        let key = format!("{prefix}{}", self.key(name));
        let text = match self {
            Kind::Read | Kind::Semaphore => {
                "local t = redis.call('TIME') \
                 local m = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES') \
                 return math.floor((m[2] or 0) - (t[1] * 1000 + t[2] / 1000))"
            }
            _ => "return redis.call('PTTL', KEYS[1])",
        };
        let mut ask = cmd("EVAL");
        ask.arg(text).arg(1).arg(&key);
        let left: i64 = handle.client().query(key.as_bytes(), &ask).await.expect("answered");
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }
}

/// What the holder believes must be over before the server's lease is.
async fn assert_covered(kind: Kind, handle: &Seawall, prefix: &str, name: &str, guard: &Guard) {
    // The server is asked after the holder, and time only passes.
    let (asked, believes) = (Instant::now(), guard.valid_for());
    let kept = kind.kept_for(handle, prefix, name).await;
    let believes = believes.saturating_sub(asked.elapsed());
    assert!(kept >= believes, "{kind:?} {name}: the server keeps {kept:?} of {believes:?}");
}

/// Many are extended in the moments in which their renewals are on the way.
async fn no_renewal_undoes_an_extension(ground: Ground) {
    // Far longer than taking all of them takes, however busy the machine is.
    const LEASE: Duration = Duration::from_secs(6);
    let a = ground.connect().await;
    let mut held = Vec::new();
    let began = Instant::now();
    for kind in KINDS {
        for number in 0..40 {
            let name = format!("x{number}-{kind:?}");
            held.push((kind, take(&kind.lock(&a, &name).lease_ttl(LEASE)).await, name));
        }
    }
    let due = began + LEASE / 3;
    let extending = held.iter().enumerate().map(|(at, (_, guard, _))| async move {
        let spread = Duration::from_micros(at as u64 * 500);
        tokio::time::sleep((due + spread).saturating_duration_since(Instant::now())).await;
        guard.extend(LONG).await.expect("answered")
    });
    let extended = join_all(extending).await;
    assert!(extended.iter().all(|outcome| *outcome == Extension::Extended), "{extended:?}");
    for _ in 0..2 {
        // The lease of before is over after the first of them.
        tokio::time::sleep(LEASE * 2 / 3).await;
        for (kind, guard, name) in &held {
            assert!(!guard.is_lost(), "{name} was extended");
            assert!(guard.valid_for() > LONG - PATIENCE, "{name}: {:?}", guard.valid_for());
            assert_covered(*kind, &a, ground.prefix(), name, guard).await;
        }
    }
    drop(held);
    ground.end([a]).await;
}

/// The renewal leaves with the lease of before while the extension is on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_overtakes_the_extensions_reply_undoes_nothing() {
    const LEASE: Duration = Duration::from_secs(3);
    let server = ServerProcess::redis().expect("a server starts");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let builder = Seawall::builder(&proxy.url()).response_timeout(PATIENCE);
    let a = builder.connect().await.expect("connected");
    for kind in KINDS {
        let guard = take(&kind.lock(&a, "x").lease_ttl(LEASE)).await;
        let before = proxy.count("EVALSHA") + proxy.count("EVAL");
        // Replies wait in the proxy until both the extension and the renewal were carried out.
        proxy.stall(Direction::Replies);
        let mut extending = Box::pin(guard.extend(LONG));
        assert!((&mut extending).now_or_never().is_none());
        eventually("both were carried out", async || {
            proxy.count("EVALSHA") + proxy.count("EVAL") >= before + 2
        })
        .await;
        proxy.heal();
        assert_eq!(extending.await.expect("answered"), Extension::Extended, "{kind:?}");
        // The renewal's reply arrived with the extension's; let it be judged.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(guard.valid_for() > LONG - PATIENCE, "{kind:?}: {:?}", guard.valid_for());
        assert_covered(kind, &a, "", "x", &guard).await;
        assert_eq!(guard.release().await.expect("answered"), Release::Released);
    }
    a.shutdown().await;
}

/// A future that is dropped after its request left.
async fn a_shorter_lease_that_nobody_waited_for_is_believed(ground: Ground) {
    let a = ground.connect().await;
    for kind in KINDS {
        for fixed in [true, false] {
            for polls in 1..6 {
                let name = format!("y{polls}-{fixed}-{kind:?}");
                let lock = kind.lock(&a, &name).lease_ttl(PATIENCE);
                let guard = take(&if fixed { lock.fixed() } else { lock }).await;
                let shorter = Duration::from_millis(900);
                let dropped = async {
                    let mut extending = Box::pin(guard.extend(shorter));
                    for _ in 0..polls {
                        if (&mut extending).now_or_never().is_some() {
                            break;
                        }
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                };
                dropped.await;
                tokio::time::sleep(Duration::from_millis(10)).await;
                assert_covered(kind, &a, ground.prefix(), &name, &guard).await;
                assert!(guard.valid_for() <= shorter, "{name}: believed before it is told");
            }
        }
    }
    ground.end([a]).await;
}

/// The server carries it out, and nobody learns it; then it is made longer again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shorter_lease_whose_reply_is_lost_is_believed() {
    let server = ServerProcess::redis().expect("a server starts");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let a = Seawall::connect(&proxy.url()).await.expect("connected");
    for kind in KINDS {
        // The scripts are known to the server from here on.
        let guard = take(&kind.lock(&a, "x")).await;
        let first = guard.extend(Duration::from_secs(20)).await.expect("answered");
        assert_eq!(first, Extension::Extended);
        proxy.drop_reply(On::command("EVALSHA").once());
        assert!(guard.extend(Duration::from_secs(5)).await.is_err(), "{kind:?}: no reply");
        assert!(guard.valid_for() < Duration::from_secs(5));
        assert_covered(kind, &a, "", "x", &guard).await;
        let again = guard.extend(LONG).await.expect("answered");
        assert_eq!(again, Extension::Extended);
        assert!(guard.valid_for() > LONG - PATIENCE);
        assert_covered(kind, &a, "", "x", &guard).await;
        assert_eq!(guard.release().await.expect("answered"), Release::Released);
    }
    a.shutdown().await;
}

/// The request for the shorter lease waits in the network while a longer one overtakes it on a new
/// connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shorter_lease_that_arrives_late_undoes_nothing() {
    let server = ServerProcess::redis().expect("a server starts");
    let mut direct = server.connect().expect("connected");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let a = Seawall::connect(&proxy.url()).await.expect("connected");
    for kind in KINDS {
        let guard = take(&kind.lock(&a, "x").lease_ttl(PATIENCE)).await;
        // What is sent is taken down, to arrive once more later: as good as a late first arrival.
        let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let notes = std::sync::Arc::clone(&heard);
        let watch = proxy.drop_request(On::any().when(move |words| {
            notes.lock().expect("no panic holds it").push(words.to_vec());
            // Only the last step, the one that makes it shorter, gets lost.
            is_script(words)
        }));
        assert!(guard.extend(Duration::from_secs(2)).await.is_err(), "it did not arrive");
        proxy.remove(watch);
        let late = heard.lock().expect("no panic holds it").clone();
        let late = late.into_iter().rfind(|words| is_script(words)).expect("it was sent");
        eventually("made longer over a new connection", async || {
            matches!(guard.extend(LONG).await, Ok(Extension::Extended))
        })
        .await;
        let words: Vec<&[u8]> = late.iter().map(Vec::as_slice).collect();
        direct.call(&words).expect("answered");
        assert!(guard.valid_for() > LONG - PATIENCE);
        assert_covered(kind, &a, "", "x", &guard).await;
        assert_eq!(guard.release().await.expect("answered"), Release::Released);
    }
    a.shutdown().await;
}

fn is_script(words: &[Vec<u8>]) -> bool {
    words.first().is_some_and(|name| name.to_ascii_uppercase().starts_with(b"EVAL"))
}

/// An attempt that was sent, given up by its time-out and made again arrives after all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_arrives_late_shortens_nothing() {
    let server = ServerProcess::redis().expect("a server starts");
    let mut direct = server.connect().expect("connected");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let a = Seawall::connect(&proxy.url()).await.expect("connected");
    for kind in KINDS {
        drop(take(&kind.lock(&a, "warm")).await);
        let heard = std::sync::Arc::new(std::sync::Mutex::new(None));
        let note = std::sync::Arc::clone(&heard);
        let wanted = kind.key("x").split(":readers").next().expect("a key").to_owned();
        let watch = proxy.drop_request(On::command("EVALSHA").times(1).when(move |words| {
            let ours = words.iter().any(|word| word == wanted.as_bytes());
            if ours {
                *note.lock().expect("no panic holds it") = Some(words.to_vec());
            }
            ours
        }));
        let lock = kind.lock(&a, "x").lease_ttl(Duration::from_secs(2));
        let lock = lock.poll_interval(Duration::from_millis(50));
        let guard = lock.acquire(PATIENCE).await.expect("answered").acquired().expect("free");
        proxy.remove(watch);
        assert_eq!(guard.extend(LONG).await.expect("answered"), Extension::Extended);
        let late = heard.lock().expect("no panic holds it").take().expect("one attempt was lost");
        let words: Vec<&[u8]> = late.iter().map(Vec::as_slice).collect();
        direct.call(&words).expect("answered");
        assert_covered(kind, &a, "", "x", &guard).await;
        assert_eq!(guard.release().await.expect("answered"), Release::Released);
    }
    a.shutdown().await;
}

async fn a_shorter_lease_is_the_servers_too(ground: Ground) {
    let a = ground.connect().await;
    for kind in KINDS {
        let guard = take(&kind.lock(&a, "x").lease_ttl(LONG)).await;
        let shorter = Duration::from_secs(20);
        assert_eq!(guard.extend(shorter).await.expect("answered"), Extension::Extended);
        let kept = kind.kept_for(&a, ground.prefix(), "x").await;
        assert!(kept <= shorter, "{kind:?}: the server was told: {kept:?}");
        assert!(guard.valid_for() > Duration::from_secs(5));
        assert_covered(kind, &a, ground.prefix(), "x", &guard).await;
        assert_eq!(guard.release().await.expect("answered"), Release::Released);
    }
    ground.end([a]).await;
}

async fn extensions_at_once_agree_with_the_server(ground: Ground) {
    let a = ground.connect().await;
    for kind in KINDS {
        let guard = take(&kind.lock(&a, "x").lease_ttl(Duration::from_secs(20))).await;
        for round in 0..10_u64 {
            let leases = [600, 9 + round, 30, 5 + round % 3, 45].map(Duration::from_secs);
            let guards: Vec<_> = leases.iter().map(|_| guard.reenter()).collect();
            let extending = guards.iter().zip(leases).map(|(guard, lease)| guard.extend(lease));
            for outcome in join_all(extending).await {
                assert_eq!(outcome.expect("answered"), Extension::Extended, "{kind:?}");
            }
            assert_covered(kind, &a, ground.prefix(), "x", &guard).await;
        }
        assert_eq!(guard.release().await.expect("answered"), Release::Released);
    }
    ground.end([a]).await;
}

async fn lost_is_told_when_a_lease_was_made_shorter(ground: Ground) {
    let a = ground.connect().await;
    join_all(KINDS.map(|kind| {
        let lock = kind.lock(&a, &format!("x-{kind:?}")).lease_ttl(LONG).fixed();
        async move {
            let guard = take(&lock).await;
            let waits = guard.reenter();
            let told = tokio::spawn(async move { waits.lost().await });
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(guard.extend(SHORTER).await.expect("answered"), Extension::Extended);
            let told = tokio::time::timeout(PATIENCE, told).await;
            told.expect("it is told").expect("it only waited");
            assert!(guard.is_lost(), "{kind:?}");
        }
    }))
    .await;
    ground.end([a]).await;
}

async fn a_body_is_stopped_when_its_lease_was_made_shorter(ground: Ground) {
    let a = ground.connect().await;
    let lock = a.lock("x").lease_ttl(LONG).fixed();
    let stopped = lock.with(Duration::ZERO, |guard| async move {
        let shorter = guard.extend(SHORTER).await.expect("answered");
        assert_eq!(shorter, Extension::Extended);
        std::future::pending::<()>().await;
    });
    let stopped = tokio::time::timeout(PATIENCE, stopped).await.expect("it is stopped");
    assert_eq!(stopped.expect("answered"), With::Lost(None));
    ground.end([a]).await;
}

/// The same on a clock that is moved by hand, to the moment.
#[tokio::test]
async fn lost_is_told_at_the_new_end() {
    let test_server = TestServer::start().await.expect("a test_server");
    let lock = test_server.seawall().lock("x").lease_ttl(LONG).fixed();
    let guard = take(&lock).await;
    let told = tokio::spawn({
        let guard = guard.reenter();
        async move { guard.lost().await }
    });
    tokio::task::yield_now().await;
    assert_eq!(guard.extend(PATIENCE).await.expect("answered"), Extension::Extended);
    test_server.advance(PATIENCE / 2).await;
    assert!(!guard.is_lost());
    test_server.advance(PATIENCE / 2).await;
    tokio::time::timeout(PATIENCE, told).await.expect("it is told").expect("it only waited");
    let _next = take(&lock).await;
    test_server.shutdown().await;
}
