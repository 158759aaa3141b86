//! Locks compared with the raw script pair and a polling crate; ids.

use std::{
    error::Error,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use redis::aio::MultiplexedConnection;
use seawall::{Seawall, id::Ids};
use serde::Serialize;

use crate::sides::{Plan, Report, Side, repeat};

/// Tasks that wait for a contended lock at a time.
const WAITERS: usize = 8;
/// The toolkit's own scripts, sent by hand, so both sides pay their cost on the server.
static ACQUIRE: seawall::Script = seawall::Script::with_time(concat!(
    include_str!("../../lock/src/mutex_acquire.lua"),
    include_str!("../../lock/src/token.lua"),
    include_str!("../../lock/src/owned.lua"),
    include_str!("../../lock/src/mutex_reenter.lua"),
));
static RELEASE: seawall::Script = seawall::Script::with_time(concat!(
    include_str!("../../lock/src/mutex_release.lua"),
    include_str!("../../lock/src/token.lua"),
    include_str!("../../lock/src/owned.lua"),
    include_str!("../../lock/src/leave.lua"),
    include_str!("../../lock/src/mutex_leave.lua"),
));
/// The simplest possible lock: no token, no re-entrance, no wake-up.
const PLAIN_ACQUIRE: &str =
    "if redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) then return 1 end return 0";
const PLAIN_RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[2] then return redis.call('DEL', KEYS[1]) end return 0";

/// Time from one holder's release to the next holder's acquisition.
#[derive(Serialize)]
pub(crate) struct HandOver {
    who: &'static str,
    hand_overs_per_second: f64,
    median_millis: f64,
    p99_millis: f64,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

pub(crate) async fn pairs(
    seawall: &Seawall,
    bare: &MultiplexedConnection,
    plan: &Plan,
) -> Result<Vec<Report>, Box<dyn Error>> {
    let ours = repeat(seawall.clone(), |seawall, _| async move {
        let name = ("bench", NEXT.fetch_add(1, Ordering::Relaxed));
        let attempt = seawall.lock(name).try_acquire().await;
        let guard = attempt.ok().and_then(seawall::lock::AcquireOutcome::acquired);
        if let Some(guard) = guard {
            assert!(guard.release().await.is_ok(), "released");
        }
    });
    let same = raw_pair(bare, [ACQUIRE.text(), RELEASE.text()]).await?;
    let plain = raw_pair(bare, [PLAIN_ACQUIRE, PLAIN_RELEASE]).await?;
    let subject = "lock and unlock, uncontended";
    Ok(vec![
        plan.compare(subject, "the same two scripts by bare EVALSHA", Arc::clone(&ours), same)
            .await,
        plan.compare(subject, "SET NX and compare-and-delete by bare EVALSHA", ours, plain).await,
    ])
}

/// A lock acquired and released by two scripts and nothing else.
async fn raw_pair(
    bare: &MultiplexedConnection,
    scripts: [&str; 2],
) -> Result<Side, Box<dyn Error>> {
    let mut loading = bare.clone();
    let mut digests = Vec::new();
    for script in scripts {
        let digest: String =
            redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(&mut loading).await?;
        digests.push(digest);
    }
    let digests: Arc<[String]> = digests.into();
    Ok(repeat((bare.clone(), digests), |(mut bare, digests), _| async move {
        let name = format!("bench-lock:{{{}}}", NEXT.fetch_add(1, Ordering::Relaxed));
        let (holds, fence) = (format!("{name}:holds"), format!("{name}:fence"));
        for digest in digests.iter() {
            let mut call = redis::cmd("EVALSHA");
            call.arg(digest).arg(3).arg(&name).arg(&holds).arg(&fence);
            call.arg("0123456789abcdef0123456789abcdef").arg("0123456789abcdef").arg(30_000);
            assert!(call.exec_async(&mut bare).await.is_ok(), "taken and given back");
        }
    }))
}

/// Hand-over times.
#[derive(Default)]
struct Stopwatch {
    /// When the lock was last released, and by which task.
    released: Mutex<Option<(Instant, Option<tokio::task::Id>)>>,
    times: Mutex<Vec<f64>>,
}

impl Stopwatch {
    fn acquired(&self) {
        let released = self.released.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A task that re-acquires the lock it just released has handed nothing over.
        if let Some((released, by)) = released
            && by != tokio::task::try_id()
        {
            let millis = released.elapsed().as_secs_f64() * 1000.0;
            self.times.lock().unwrap_or_else(PoisonError::into_inner).push(millis);
        }
    }

    fn releases(&self) {
        *self.released.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), tokio::task::try_id()));
    }
}

pub(crate) async fn hand_over(
    seawall: &Seawall,
    url: &str,
    plan: &Plan,
) -> Result<Vec<HandOver>, Box<dyn Error>> {
    let plan = Plan { rounds: 1, turn: plan.turn * 4, tasks: WAITERS, ..*plan };
    let watch = Arc::new(Stopwatch::default());
    let ours = repeat((seawall.clone(), Arc::clone(&watch)), |(seawall, watch), _| async move {
        let attempt = seawall.lock("bench-contended").acquire(Duration::from_secs(10)).await;
        if let Some(guard) = attempt.ok().and_then(seawall::lock::AcquireOutcome::acquired) {
            watch.acquired();
            tokio::task::yield_now().await;
            watch.releases();
            let _ = guard.release().await;
        }
    });
    let mut results = vec![measure("seawall", &plan, &ours, &watch).await];
    let manager = rslock::LockManager::new(vec![url]);
    for (who, pause) in
        [("rslock, polling every 200 ms (its default)", 200), ("rslock, polling every 10 ms", 10)]
    {
        let watch = Arc::new(Stopwatch::default());
        let mut manager = manager.clone();
        manager.set_retry(1000, Duration::from_millis(pause));
        let theirs = repeat((manager, Arc::clone(&watch)), |(manager, watch), _| async move {
            let taken =
                manager.acquire_no_guard(b"bench-contended-polled", Duration::from_secs(10)).await;
            if let Ok(lock) = taken {
                watch.acquired();
                tokio::task::yield_now().await;
                watch.releases();
                manager.unlock(&lock).await;
            }
        });
        results.push(measure(who, &plan, &theirs, &watch).await);
    }
    Ok(results)
}

async fn measure(who: &'static str, plan: &Plan, side: &Side, watch: &Stopwatch) -> HandOver {
    let began = Instant::now();
    plan.take_turn(side).await;
    let seconds = began.elapsed().as_secs_f64();
    let mut times =
        std::mem::take(&mut *watch.times.lock().unwrap_or_else(PoisonError::into_inner));
    times.sort_by(f64::total_cmp);
    let at =
        |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or(f64::NAN);
    let rate = times.len() as f64 / seconds;
    HandOver { who, hand_overs_per_second: rate, median_millis: at(0.5), p99_millis: at(0.99) }
}

pub(crate) async fn ids(seawall: &Seawall, plan: &Plan) -> Result<f64, Box<dyn Error>> {
    let ids: Ids = seawall.ids("bench").build()?;
    let side = repeat(ids, |ids, _| async move {
        // With this many tasks at full speed one of them may lose every race for an id; it retries.
        while ids.next().await.is_err() {
            tokio::task::yield_now().await;
        }
    });
    plan.take_turn(&side).await;
    Ok(plan.take_turn(&side).await)
}
