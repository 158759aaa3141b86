//! Many tasks of several handles on one subject, in real time, on every backend.

use std::time::{Duration, Instant};

use seawall::{
    cmd,
    limit::{Limiter, LimiterBuilder, Rate, Window},
};
use seawall_testkit::backend::Backend;

use super::handles::Handles;

const HANDLES: usize = 4;
const TASKS_EACH: usize = 8;
const CHECKS_EACH: usize = 40;
const BURST: u64 = 20;
const RATE: u64 = 50;

/// Everybody asks for the same subject; how much was admitted, and how long it took.
async fn storm(limiters: &[Limiter]) -> (u64, Duration) {
    let began = Instant::now();
    let mut tasks = Vec::new();
    for limiter in limiters {
        for _ in 0..TASKS_EACH {
            let limiter = limiter.clone();
            tasks.push(tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..CHECKS_EACH {
                    admitted +=
                        u64::from(limiter.check("all", 1).await.expect("valid").is_allowed());
                }
                admitted
            }));
        }
    }
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.expect("no panic");
    }
    (admitted, began.elapsed())
}

fn judge_rate(admitted: u64, elapsed: Duration) -> Result<(), String> {
    let most = BURST as f64 + RATE as f64 * elapsed.as_secs_f64();
    if admitted as f64 > most {
        return Err(format!("{admitted} admitted in {elapsed:?}, {most} at most"));
    }
    if admitted < BURST {
        return Err(format!("only {admitted} admitted, the burst is {BURST}"));
    }
    Ok(())
}

fn limiters(handles: &Handles, build: impl Fn(LimiterBuilder) -> LimiterBuilder) -> Vec<Limiter> {
    let rate = Rate::per_second(RATE).burst(BURST);
    // Nothing is away here, however slow the machine is.
    let make =
        |builder: LimiterBuilder| build(builder.redis_timeout(Duration::from_secs(30))).build();
    handles.all.iter().map(|handle| make(handle.limiter("load", rate)).expect("valid")).collect()
}

async fn on(backend: Backend) {
    let handles = Handles::open(backend, HANDLES).await;
    let (admitted, elapsed) = storm(&limiters(&handles, |builder| builder)).await;
    judge_rate(admitted, elapsed).expect("the rate holds");
    // Without memory of refusals the same, of what is left.
    let (again, more) = storm(&limiters(&handles, LimiterBuilder::ask_always)).await;
    assert!(
        (admitted + again) as f64
            <= BURST as f64 + RATE as f64 * (elapsed + more).as_secs_f64() + 1.0
    );

    let window = Window::of(50, Duration::from_secs(3_600));
    let windows: Vec<_> = (handles.all.iter())
        .map(|handle| {
            handle.limiter("window", window).redis_timeout(Duration::from_secs(30)).build()
        })
        .collect::<Result<_, _>>()
        .expect("valid");
    assert_eq!(storm(&windows).await.0, 50, "exactly the limit, in all handles together");

    // Subjects are independent, and nothing stays for ever.
    let client = handles.all[0].client();
    let prefix = &handles.prefix;
    for subject in 0..20u64 {
        assert!(windows[0].check(&subject, 1).await.expect("valid").is_allowed());
        let key = format!("{prefix}limit:{{window:{subject}}}");
        let left: i64 = client.query(key.as_bytes(), cmd("PTTL").arg(&key)).await.expect("a time");
        assert!((1..=3_900_000).contains(&left), "{key} {left}");
    }
    windows[0].forget(&7u64).await.expect("it answers");
    let key = format!("{prefix}limit:{{window:7}}");
    let there: u64 = client.query(key.as_bytes(), cmd("EXISTS").arg(&key)).await.expect("a count");
    assert_eq!(there, 0);
    handles.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded() {
    on(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis() {
    on(Backend::Redis).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinel() {
    on(Backend::Sentinel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster() {
    on(Backend::Cluster).await;
}
