//! A process that takes the lock again and again, and records what it sees.
//!
//! It is this very test binary, started once more with `SEAWALL_LOCK_WORKER` set: a process of its
//! own can be stopped and killed.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use seawall::Seawall;

use crate::{
    chance::Chance,
    ground::eventually,
    history::{Recorder, Resource, now_nanos},
    process::{Worker, task},
    subject::{Held, Kind, Settings, Subject},
};

const VARIABLE: &str = "SEAWALL_LOCK_WORKER";
/// It ends after this long, should nobody tell it to.
const LIFETIME: Duration = Duration::from_secs(900);
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
    /// Makes its lease much longer while renewals of the short one are on their way, and goes by that.
    Extender,
}

/// What a worker is told.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) kind: Kind,
    /// One URL, or those of a quorum with bars between.
    pub(crate) url: String,
    pub(crate) folder: PathBuf,
    pub(crate) lease: Duration,
    /// How long the busy ones hold.
    pub(crate) hold: Duration,
    /// Whether leases are made longer and shorter while they are held.
    pub(crate) extends: bool,
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
            format!("{:?}", self.kind),
            self.url.clone(),
            self.folder.display().to_string(),
            self.lease.as_millis().to_string(),
            self.hold.as_millis().to_string(),
            self.extends.to_string(),
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
    let Some(words) = task(VARIABLE) else { return };
    let [kind, urls, folder, lease, busy, extends, looks, name, role] =
        words.split(' ').collect::<Vec<_>>().try_into().expect("nine words");
    let millis = |text: &str| Duration::from_millis(text.parse().expect("a number"));
    let folder = Path::new(folder);
    let mut recorder = Recorder::open(&folder.join("history"), name);
    let resource = Resource::new(&folder.join("resource"), looks == "true");
    let mut handles = Vec::new();
    for url in urls.split('|') {
        let connect =
            || Seawall::builder(url).response_timeout(Duration::from_millis(300)).connect();
        let mut handle = None;
        eventually("connected, however slow the machine is", async || {
            handle = connect().await.ok();
            handle.is_some()
        })
        .await;
        handles.extend(handle);
    }
    let subject = Subject::new(Kind::named(kind), "x", handles);
    let lease = millis(lease);
    let settings = Settings { lease, poll_interval: Duration::from_millis(100), fixed: false };
    let sleeps = role == format!("{:?}", Role::Sleeper);
    let mut chance = Chance::new(now_nanos());
    let (over, end) = (over(folder), Instant::now() + LIFETIME);
    while !over.exists() && Instant::now() < end {
        let shared = !sleeps && chance.below(2) == 0;
        let asked = now_nanos();
        // Outages are part of the trials; whoever fails just tries again.
        if let Ok(Some(held)) = subject.acquire(settings, shared, Some(WAIT)).await {
            recorder.acquired(now_nanos(), asked, &held);
            let until = if sleeps { end } else { Instant::now() + millis(busy) };
            let is_over = || Instant::now() >= until || sleeps && over.exists();
            // One who shares the lock has no right to write alone.
            let alone = held.weight == subject.kind.capacity();
            let resource = alone.then_some(&resource);
            let extends = (extends == "true").then_some((lease, &mut chance));
            if role == format!("{:?}", Role::Extender) {
                hold_extended(held, lease, &mut recorder, &mut chance).await;
            } else {
                hold(held, is_over, sleeps, &mut recorder, resource, extends).await;
            }
        } else {
            tokio::time::sleep(LOOK).await;
        }
    }
    for handle in subject.handles {
        handle.shutdown().await;
    }
}

async fn hold(
    held: Held,
    is_over: impl Fn() -> bool,
    blind: bool,
    recorder: &mut Recorder,
    resource: Option<&Resource>,
    mut extends: Option<(Duration, &mut Chance)>,
) {
    let token = held.token();
    loop {
        // Taken before looking: if it is held after this moment, it was held at it.
        let at = now_nanos();
        let lost = held.is_lost();
        if !lost {
            recorder.note(at, "valid", token);
        }
        if (blind || !lost) && resource.is_some_and(|resource| !resource.write(token)) {
            recorder.note(at, "refused", token);
        }
        if lost {
            recorder.note(at, "lost", token);
            return;
        }
        if is_over() {
            // What became of it is in the next holder's history.
            let _ = held.release().await;
            return;
        }
        if let Some((lease, chance)) = &mut extends {
            extend(&held, *lease, chance).await;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Makes the lease much longer about when it is renewed, and holds for several of the former leases.
async fn hold_extended(held: Held, lease: Duration, recorder: &mut Recorder, chance: &mut Chance) {
    let token = held.token();
    let began = Instant::now();
    let moment = lease * u32::try_from(chance.below(100)).expect("small") / 100;
    let mut extended = false;
    while began.elapsed() < lease * 4 {
        let at = now_nanos();
        if held.is_lost() {
            recorder.note(at, "lost", token);
            return;
        }
        recorder.note(at, "valid", token);
        if !extended && began.elapsed() >= moment {
            extended = true;
            // Failing is part of the trials.
            let _ = held.extend(lease * 20).await;
        }
        tokio::time::sleep(LOOK).await;
    }
    // What became of it is in the next holder's history.
    let _ = held.release().await;
}

/// Now and then makes the lease longer or shorter, and now and then does not wait for the answer.
async fn extend(held: &Held, lease: Duration, chance: &mut Chance) {
    if chance.below(4) > 0 {
        return;
    }
    let lease = [lease / 2, lease, lease * 2][usize::try_from(chance.below(3)).expect("small")];
    let patience = Duration::from_micros(
        [300_000, 200, 2000][usize::try_from(chance.below(3)).expect("small")],
    );
    // Failing is part of the trials.
    let _ = tokio::time::timeout(patience, held.extend(lease)).await;
}

/// There when the trial is over.
fn over(folder: &Path) -> PathBuf {
    folder.join("over")
}

/// The lines of a history that was begun.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}
