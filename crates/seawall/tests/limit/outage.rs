//! Redis away, silent, or losing replies: the limit holds all the same.

use std::time::{Duration, Instant};

use seawall::{
    Seawall, cmd,
    limit::{Bug, Decision, Limiter, LimiterBuilder, Rate, WhenAway, Window},
    testing::Stage,
};
use seawall_testkit::{ServerProcess, proxy::FaultProxy};

const PROCESSES: u32 = 4;
const BURST: u64 = 20;
const RATE: u64 = 10;

async fn allowed(limiter: &Limiter) -> bool {
    limiter.check("user", 1).await.expect("valid").is_allowed()
}

/// Four processes without Redis for ten seconds; how much they admitted together.
async fn ten_seconds_alone(build: impl Fn(LimiterBuilder) -> LimiterBuilder) -> u64 {
    let stage = Stage::start().await.expect("it starts");
    let rate = Rate::per_second(RATE).burst(BURST);
    let make = || build(stage.seawall().limiter("api", rate).instances(PROCESSES)).build();
    let processes: Vec<_> = (0..PROCESSES).map(|_| make().expect("valid")).collect();
    stage.faults().begin_outage();
    let mut admitted = 0;
    for _ in 0..1_000 {
        for process in &processes {
            admitted += u64::from(allowed(process).await);
        }
        stage.advance(Duration::from_millis(10)).await;
    }
    stage.shutdown().await;
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
async fn the_checker_sees_a_limit_that_is_open_or_not_shared() {
    for bug in [Bug::FailOpen, Bug::WholeShare] {
        let admitted = ten_seconds_alone(|builder| builder.sabotage(bug)).await;
        assert!(judge(admitted).is_err(), "{bug:?}: {admitted}");
    }
}

#[tokio::test]
async fn an_outage_does_not_begin_with_a_full_burst_and_ends_by_itself() {
    let stage = Stage::start().await.expect("it starts");
    let rate = Rate::per_minute(60).burst(5);
    let limiter = stage.seawall().limiter("api", rate).build().expect("valid");
    for _ in 0..5 {
        assert!(allowed(&limiter).await);
    }
    stage.faults().begin_outage();
    assert!(!allowed(&limiter).await, "what Redis admitted counts here too");
    stage.advance(Duration::from_secs(2)).await;
    assert!(allowed(&limiter).await);
    assert!(allowed(&limiter).await);
    assert!(!allowed(&limiter).await);
    stage.faults().end_outage();
    // Nobody asks for a moment; then Redis, which knows nothing of those two.
    stage.advance(Duration::from_millis(300)).await;
    let looked = limiter.check("user", 0).await.expect("valid");
    assert!(matches!(looked, Decision::Allowed { remaining: 2, .. }), "{looked:?}");
    stage.shutdown().await;
}

#[tokio::test]
async fn a_lost_reply_is_charged_once() {
    let stage = Stage::start().await.expect("it starts");
    for window in [false, true] {
        let seawall = stage.seawall();
        let builder = match window {
            false => seawall.limiter("rate", Rate::per_hour(10)),
            true => seawall.limiter("window", Window::of(10, Duration::from_secs(3_600))),
        };
        let limiter = builder.build().expect("valid");
        let peek = async || limiter.check("user", 0).await.expect("valid");
        assert!(allowed(&limiter).await);
        stage.faults().lose_replies(1);
        assert!(allowed(&limiter).await, "decided here: the share has room");
        stage.advance(Duration::from_millis(300)).await;
        assert!(
            matches!(peek().await, Decision::Allowed { remaining: 8, .. }),
            "{:?}",
            peek().await
        );
    }
    stage.shutdown().await;
}

#[tokio::test]
async fn a_key_that_is_not_ours_limits_all_the_same() {
    let stage = Stage::start().await.expect("it starts");
    let link = stage.seawall().link();
    let key = "limit:{api:user}";
    for foreign in [cmd("RPUSH").arg(key).arg("x"), cmd("SET").arg(key).arg("hello")] {
        link.send(key.as_bytes(), foreign).await.expect("it answers");
        for rate in [true, false] {
            let seawall = stage.seawall();
            let builder = match rate {
                true => seawall.limiter("api", Rate::per_hour(2)),
                false => seawall.limiter("api", Window::of(2, Duration::from_secs(3_600))),
            };
            let limiter = builder.build().expect("valid");
            let answers =
                [allowed(&limiter).await, allowed(&limiter).await, allowed(&limiter).await];
            assert_eq!(answers, [true, true, false]);
        }
        link.send(key.as_bytes(), cmd("DEL").arg(key)).await.expect("it answers");
    }
    stage.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_costs_patience_once_in_a_while() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    let seawall = Seawall::connect(&proxy.url()).await.expect("it answers");
    let rate = Rate::per_hour(1_000).burst(50);
    let limiter =
        seawall.limiter("api", rate).patience(Duration::from_millis(50)).build().expect("valid");
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
