//! Redis away, silent, or losing replies: the limit holds all the same.

use std::time::{Duration, Instant};

use seawall::{
    Seawall, cmd,
    limit::{Decision, Limiter, LimiterBuilder, Rate, WhenAway, Window},
    testing::TestServer,
};
use seawall_testkit::{Cluster, SentinelSet, ServerProcess, proxy::FaultProxy};

const PROCESSES: u32 = 4;
const BURST: u64 = 20;
const RATE: u64 = 10;

async fn allowed(limiter: &Limiter) -> bool {
    limiter.check("user", 1).await.expect("valid").is_allowed()
}

/// Four processes without Redis for ten seconds; how much they admitted together.
async fn ten_seconds_alone(build: impl Fn(LimiterBuilder) -> LimiterBuilder) -> u64 {
    let test_server = TestServer::start().await.expect("it starts");
    let rate = Rate::per_second(RATE).burst(BURST);
    let make = || build(test_server.seawall().limiter("api", rate).instances(PROCESSES)).build();
    let processes: Vec<_> = (0..PROCESSES).map(|_| make().expect("valid")).collect();
    test_server.faults().begin_outage();
    let mut admitted = 0;
    for _ in 0..1_000 {
        for process in &processes {
            admitted += u64::from(allowed(process).await);
        }
        test_server.advance(Duration::from_millis(10)).await;
    }
    test_server.shutdown().await;
    admitted
}

fn judge(admitted: u64) -> Result<(), String> {
    let (least, most) = (BURST + RATE * 9, BURST + RATE * 10);
    match admitted {
        more if more > most => Err(format!("{more} admitted, {most} at most")),
        less if less < least => Err(format!("{less} admitted, {least} at least")),
        _ => Ok(()),
    }
}

#[tokio::test]
async fn processes_alone_keep_to_their_shares() {
    judge(ten_seconds_alone(|builder| builder).await).expect("the limit holds");
    let closed = ten_seconds_alone(|builder| builder.when_away(WhenAway::Refuse)).await;
    assert_eq!(closed, 0);
}

#[tokio::test]
async fn an_outage_does_not_begin_with_a_full_burst_and_ends_by_itself() {
    let test_server = TestServer::start().await.expect("it starts");
    let rate = Rate::per_minute(60).burst(5);
    let limiter = test_server.seawall().limiter("api", rate).build().expect("valid");
    for _ in 0..5 {
        assert!(allowed(&limiter).await);
    }
    test_server.faults().begin_outage();
    assert!(!allowed(&limiter).await, "what Redis admitted counts here too");
    test_server.advance(Duration::from_secs(2)).await;
    assert!(allowed(&limiter).await);
    assert!(allowed(&limiter).await);
    assert!(!allowed(&limiter).await);
    test_server.faults().end_outage();
    // Nobody asks for a moment; then Redis, which knows nothing of those two.
    test_server.advance(Duration::from_millis(300)).await;
    let looked = limiter.check("user", 0).await.expect("valid");
    assert!(matches!(looked, Decision::Allowed { remaining: 2, .. }), "{looked:?}");
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_lost_reply_is_charged_once() {
    let test_server = TestServer::start().await.expect("it starts");
    for window in [false, true] {
        let seawall = test_server.seawall();
        let builder = match window {
            false => seawall.limiter("rate", Rate::per_hour(10)),
            true => seawall.limiter("window", Window::of(10, Duration::from_secs(3_600))),
        };
        let limiter = builder.build().expect("valid");
        let peek = async || limiter.check("user", 0).await.expect("valid");
        assert!(allowed(&limiter).await);
        test_server.faults().lose_replies(1);
        assert!(allowed(&limiter).await, "decided here: the share has room");
        test_server.advance(Duration::from_millis(300)).await;
        assert!(
            matches!(peek().await, Decision::Allowed { remaining: 8, .. }),
            "{:?}",
            peek().await
        );
    }
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_key_that_is_not_ours_limits_all_the_same() {
    let test_server = TestServer::start().await.expect("it starts");
    let client = test_server.seawall().client();
    let key = "limit:{api:user}";
    for foreign in [cmd("RPUSH").arg(key).arg("x"), cmd("SET").arg(key).arg("hello")] {
        client.send(key.as_bytes(), foreign).await.expect("it answers");
        for rate in [true, false] {
            let seawall = test_server.seawall();
            let builder = match rate {
                true => seawall.limiter("api", Rate::per_hour(2)),
                false => seawall.limiter("api", Window::of(2, Duration::from_secs(3_600))),
            };
            let limiter = builder.build().expect("valid");
            let answers =
                [allowed(&limiter).await, allowed(&limiter).await, allowed(&limiter).await];
            assert_eq!(answers, [true, true, false]);
        }
        client.send(key.as_bytes(), cmd("DEL").arg(key)).await.expect("it answers");
    }
    test_server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_costs_patience_once_in_a_while() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    let seawall = Seawall::connect(&proxy.url()).await.expect("it answers");
    let rate = Rate::per_hour(1_000).burst(50);
    let limiter = seawall
        .limiter("api", rate)
        .redis_timeout(Duration::from_millis(50))
        .build()
        .expect("valid");
    assert!(allowed(&limiter).await);

    proxy.black_hole();
    let began = Instant::now();
    let mut admitted = 1;
    for _ in 0..500 {
        admitted += u64::from(allowed(&limiter).await);
    }
    // Each look costs 50 ms and is followed by 250 ms in which nobody looks.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(admitted <= 51, "{admitted}");

    proxy.heal();
    let asked = |proxy: &FaultProxy| proxy.count("EVALSHA") + proxy.count("EVAL");
    let before = asked(&proxy);
    let deadline = Instant::now() + Duration::from_secs(20);
    // 0 looks only; Redis has admitted one, this process all of its share.
    while !matches!(
        limiter.check("user", 0).await.expect("valid"),
        Decision::Allowed { remaining, .. } if remaining > 0
    ) {
        assert!(Instant::now() < deadline, "Redis is asked again: {} {before}", asked(&proxy));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_away_concerns_its_own_subjects_only() {
    let cluster = Cluster::start().expect("it starts");
    let seawall = Seawall::connect(&cluster.url()).await.expect("it answers");
    let rate = Rate::per_day(10_000).burst(1_000);
    let patient = Duration::from_secs(10);
    let limiter = seawall.limiter("api", rate).redis_timeout(Duration::from_millis(50)).build();
    let limiter = limiter.expect("valid");
    let port = |subject: u64| {
        let key = format!("limit:{{api:{subject}}}");
        cluster.primary_of(key.as_bytes()).expect("an owner").port()
    };
    let silent = cluster.primary_of(b"limit:{api:0}").expect("an owner");
    let (own, others): (Vec<u64>, Vec<u64>) =
        (0..40).partition(|subject| port(*subject) == silent.port());
    assert!(!own.is_empty() && !others.is_empty());
    for subject in 0..40u64 {
        assert!(limiter.check(&subject, 1).await.expect("valid").is_allowed());
    }

    silent.pause().expect("it runs");
    for round in 0..3 {
        // One that is away before each of the others: it must not keep them from Redis.
        for (index, other) in others.iter().enumerate() {
            let away = own[(index + round) % own.len()];
            assert!(limiter.check(&away, 1).await.expect("valid").is_allowed());
            let seen = limiter.check(other, 1).await.expect("valid");
            let Decision::Allowed { remaining, .. } = seen else { panic!("{other} {seen:?}") };
            assert!(remaining < 1_000, "{remaining}");
        }
    }
    silent.resume().expect("it was paused");
    let witness = seawall.limiter("api", rate).redis_timeout(patient).build().expect("valid");
    for other in &others {
        let seen = witness.check(other, 0).await.expect("valid");
        assert!(matches!(seen, Decision::Allowed { remaining: 996, .. }), "{other} {seen:?}");
    }
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fail_over_admits_no_more_than_twice_the_burst() {
    let set = SentinelSet::start().expect("it starts");
    let seawall = Seawall::connect(&set.url()).await.expect("it answers");
    let rate = Rate::per_hour(60).burst(30);
    let limiter = seawall.limiter("api", rate).build().expect("valid");
    let began = Instant::now();
    let mut admitted = 0;
    for _ in 0..10 {
        admitted += u64::from(allowed(&limiter).await);
    }
    assert_eq!(admitted, 10);
    let lost = set.kill_primary().expect("there is one");
    for _ in 0..200 {
        admitted += u64::from(allowed(&limiter).await);
    }
    set.await_failover(lost).expect("another takes over");
    let deadline = Instant::now() + Duration::from_secs(30);
    let asked = seawall.limiter("api", rate).when_away(WhenAway::Refuse).build().expect("valid");
    while asked.check("nobody", 0).await.expect("valid").retry_after().is_some() {
        assert!(Instant::now() < deadline, "the new primary is asked");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..200 {
        admitted += u64::from(allowed(&limiter).await);
    }
    let most = 60 + 1 + began.elapsed().as_secs() / 60;
    assert!((30..=most).contains(&admitted), "{admitted}, {most} at most");
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wants_to_know_is_told_that_redis_is_away() {
    let server = ServerProcess::redis().expect("it starts");
    let seawall = Seawall::connect(&server.url()).await.expect("it answers");
    let limiter = seawall.limiter("login", Rate::per_minute(1));
    let limiter = limiter.when_away(WhenAway::Fail).build().expect("valid");
    assert!(limiter.check("ada", 1).await.expect("it answers").is_allowed());
    assert!(!limiter.check("ada", 1).await.expect("it answers").is_allowed(), "too often");
    drop(server);
    let said = limiter.check("bo", 1).await.expect_err("nobody can decide");
    assert!(said.is_outage(), "{said}");
    seawall.shutdown().await;
}

/// The connection gives up before anybody has noticed that the server is silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_for_longer_than_replies_may_take_is_away() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_millis(500));
    let seawall = builder.connect().await.expect("it answers");
    let rate = Rate::per_hour(1_000).burst(50);
    let limiter = seawall.limiter("api", rate).redis_timeout(Duration::from_secs(600));
    let limiter = limiter.build().expect("valid");
    let asked_once = limiter.check("user", 0).await.expect("valid");
    assert!(asked_once.is_allowed());
    proxy.black_hole();
    for _ in 0..5 {
        assert!(allowed(&limiter).await, "the share of this process has room");
    }
    seawall.shutdown().await;
}

/// The runtime of the first check is not driven any more; checks of another one are watched all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_is_noticed_though_the_first_runtime_stands_still() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    // Longer than the test is patient: whoever waits for the time-out waits too long.
    let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_secs(600));
    let seawall = builder.connect().await.expect("it answers");
    let rate = Rate::per_hour(1_000).burst(50);
    let limiter = seawall.limiter("api", rate).redis_timeout(Duration::from_millis(50));
    let limiter = limiter.build().expect("valid");
    let first = limiter.clone();
    let stands_still = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        assert!(runtime.block_on(allowed(&first)));
        runtime
    });
    let stands_still = stands_still.await.expect("no panic");
    proxy.black_hole();
    let answered = tokio::time::timeout(Duration::from_secs(60), allowed(&limiter)).await;
    assert!(answered.expect("noticed"), "the share of this process has room");
    stands_still.shutdown_background();
    seawall.shutdown().await;
}
