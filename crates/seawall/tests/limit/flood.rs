//! A process that is slower than its callers: its own delay is no outage of Redis.

use std::time::{Duration, Instant, SystemTime};

use seawall::{
    Seawall,
    limit::{Decision, Limiter, Rate, WhenAway, Window},
};
use seawall_testkit::{
    ServerProcess,
    backend::{Backend, TestBackend},
};

const RATE: u64 = 100;
const BURST: u64 = 100;
/// So many that they take several times the patience, however quick the machine.
const CHECKS: usize = 20_000;

/// So many checks at once; how many were admitted, and how long it took. A rate goes by the server's
/// clock, which is set now and then; here it is this machine's.
async fn flood(limiter: &Limiter, checks: usize) -> (u64, Duration) {
    let (began, began_by_wall) = (Instant::now(), SystemTime::now());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..checks {
        let limiter = limiter.clone();
        tasks.spawn(async move { limiter.check("all", 1).await.expect("valid").is_allowed() });
    }
    let admitted = tasks.join_all().await.into_iter().filter(|allowed| *allowed).count();
    let by_wall = began_by_wall.elapsed().unwrap_or_default();
    (admitted as u64, began.elapsed().max(by_wall))
}

/// The process is so busy that most answers come long after the patience.
async fn on(backend: Backend) {
    let stand = TestBackend::shared(backend).expect("the backend starts");
    let prefix = format!("flood-{:08x}:", rand::random::<u32>());
    // What takes longer than this is refused, which would prove nothing.
    let builder = Seawall::builder(stand.url()).response_timeout(Duration::from_secs(120));
    let seawall = builder.prefix(prefix).connect().await.expect("in");
    let rate = Rate::per_second(RATE).burst(BURST);
    let limiter = seawall.limiter("rate", rate).build().expect("valid");
    let (admitted, elapsed) = flood(&limiter, CHECKS).await;
    let most = BURST as f64 + RATE as f64 * elapsed.as_secs_f64();
    assert!(admitted as f64 <= most, "{admitted} in {elapsed:?}, {most} at most");
    assert!(admitted >= BURST, "{admitted}");

    let window = Window::of(BURST, Duration::from_secs(3_600));
    let limiter = seawall.limiter("window", window).build().expect("valid");
    assert_eq!(flood(&limiter, CHECKS).await.0, BURST, "exactly the limit");
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_admits_no_more_than_the_limit_on_the_embedded_engine() {
    on(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_admits_no_more_than_the_limit_on_redis() {
    on(Backend::Redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_admits_no_more_than_the_limit_on_a_cluster() {
    on(Backend::Cluster).await;
}

/// Replies are there, and the process does not get to read them for several times its patience.
#[tokio::test]
async fn a_process_that_stands_still_does_not_take_redis_for_away() {
    let server = ServerProcess::redis().expect("it starts");
    // Whoever waits for longer than this is refused, which is another matter.
    let builder = Seawall::builder(&server.url()).response_timeout(Duration::from_secs(120));
    let seawall = builder.connect().await.expect("it answers");
    let patience = Duration::from_millis(100);
    let window = Window::of(50, Duration::from_secs(3_600));
    for choice in [WhenAway::LocalShare, WhenAway::Refuse, WhenAway::Fail] {
        let limiter = seawall.limiter(format!("still-{choice:?}"), window);
        let limiter = limiter.redis_timeout(patience).when_away(choice).build().expect("valid");
        assert!(limiter.check("all", 0).await.expect("valid").is_allowed());
        let mut checks = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let limiter = limiter.clone();
            checks.spawn(async move { limiter.check("all", 1).await.expect("it is not away") });
        }
        // All of them are sent; then this thread, the only one, does something else.
        for _ in 0..3 {
            tokio::task::yield_now().await;
            std::thread::sleep(patience * 4);
        }
        let admitted = checks.join_all().await;
        let admitted = admitted.into_iter().filter(Decision::is_allowed).count();
        assert_eq!(admitted, 50, "{choice:?}");
    }
    seawall.shutdown().await;
}
