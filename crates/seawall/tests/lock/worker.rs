//! A process that takes the lock again and again, and records what it sees.
//!
//! It is this very test binary, started once more with `SEAWALL_LOCK_WORKER` set: a process of its
//! own can be stopped and killed.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    lock::{Attempt, Guard, sabotage::Sabotage},
};

use crate::{
    history::{Recorder, Resource, now_nanos},
    process::Worker,
};

const VARIABLE: &str = "SEAWALL_LOCK_WORKER";
/// It ends after this long, should nobody tell it to.
const LIFETIME: Duration = Duration::from_secs(120);
/// How long it waits for the lock before it looks whether the trial is over.
const WAIT: Duration = Duration::from_secs(1);
/// Pause between two looks at one's own lock.
const LOOK: Duration = Duration::from_millis(1);

/// How a worker behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Holds for a moment.
    Busy,
    /// Holds for as long as it can, and writes without looking at whether it still holds.
    Sleeper,
}

/// What a worker is told.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) url: String,
    pub(crate) folder: PathBuf,
    pub(crate) lease: Duration,
    /// How long the busy ones hold.
    pub(crate) hold: Duration,
    pub(crate) sabotage: Option<Sabotage>,
    pub(crate) resource_looks: bool,
}

impl Task {
    pub(crate) fn history(&self) -> PathBuf {
        self.folder.join("history")
    }

    pub(crate) fn resource(&self) -> Resource {
        Resource::new(&self.folder.join("resource"), self.resource_looks)
    }

    /// Tells all processes that the trial is over.
    pub(crate) fn end(&self) {
        fs::write(over(&self.folder), "").expect("the folder is there");
    }

    /// Starts a process; it ends by itself when the trial is over.
    pub(crate) fn start(&self, name: &str, role: Role) -> Worker {
        let words = [
            self.url.clone(),
            self.folder.display().to_string(),
            self.lease.as_millis().to_string(),
            self.hold.as_millis().to_string(),
            format!("{:?}", self.sabotage),
            self.resource_looks.to_string(),
            name.to_owned(),
            format!("{role:?}"),
        ];
        Worker::start("worker::work", VARIABLE, &words)
    }
}

/// The worker's own side; as a test without the variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work() {
    let Ok(words) = std::env::var(VARIABLE) else { return };
    let [url, folder, lease, busy, sabotage, looks, name, role] =
        words.split(' ').collect::<Vec<_>>().try_into().expect("eight words");
    let millis = |text: &str| Duration::from_millis(text.parse().expect("a number"));
    let folder = Path::new(folder);
    let mut recorder = Recorder::open(&folder.join("history"), name);
    let resource = Resource::new(&folder.join("resource"), looks == "true");
    let builder = Seawall::builder(url).response_timeout(Duration::from_millis(300));
    let handle = builder.connect().await.expect("connected");
    let mut lock = handle.lock("x").lease(millis(lease)).look_every(Duration::from_millis(100));
    let planted = [
        Sabotage::ReleaseWithoutOwnerCheck,
        Sabotage::RenewalRecreatesKey,
        Sabotage::ValidityIgnored,
        Sabotage::TokenStandsStill,
    ];
    if let Some(fault) = planted.into_iter().find(|fault| format!("{:?}", Some(fault)) == sabotage)
    {
        lock = lock.sabotage(fault);
    }
    let sleeps = role == format!("{:?}", Role::Sleeper);
    let (over, end) = (over(folder), Instant::now() + LIFETIME);
    while !over.exists() && Instant::now() < end {
        // Outages are part of the trials; whoever fails just tries again.
        if let Ok(Attempt::Acquired(guard)) = lock.acquire(WAIT).await {
            let until = if sleeps { end } else { Instant::now() + millis(busy) };
            let is_over = || Instant::now() >= until || sleeps && over.exists();
            hold(guard, is_over, sleeps, &mut recorder, &resource).await;
        } else {
            tokio::time::sleep(LOOK).await;
        }
    }
    handle.shutdown().await;
}

async fn hold(
    guard: Guard,
    is_over: impl Fn() -> bool,
    blind: bool,
    recorder: &mut Recorder,
    resource: &Resource,
) {
    let token = guard.token();
    recorder.note(now_nanos(), "acquired", token);
    loop {
        // Taken before looking: if it is held after this moment, it was held at it.
        let at = now_nanos();
        let lost = guard.is_lost();
        if !lost {
            recorder.note(at, "valid", token);
        }
        if (blind || !lost) && !resource.write(token) {
            recorder.note(at, "refused", token);
        }
        if lost {
            recorder.note(at, "lost", token);
            return;
        }
        if is_over() {
            // What became of it is in the next holder's history.
            let _ = guard.release().await;
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// There when the trial is over.
fn over(folder: &Path) -> PathBuf {
    folder.join("over")
}

/// The lines of a history that was begun.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}
