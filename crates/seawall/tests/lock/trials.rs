//! Holders that are stopped, killed, cut off and not told; servers that are restarted. What their
//! history says must be true each time, and must not be when a protection is switched off.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use seawall::lock::sabotage::Sabotage;
use seawall_testkit::{
    SentinelSet, ServerBuilder, ServerProcess,
    proxy::{FaultProxy, On},
};
use tempfile::TempDir;

use crate::{
    ground::{PATIENCE, soak},
    history::{History, Seen},
    process::Worker,
    worker::{Role, Task, lines},
};

const LEASE: Duration = Duration::from_millis(500);
/// How often a fault is repeated in a soak.
const ROUNDS: usize = 3;

struct Trial<S = ServerProcess> {
    server: S,
    task: Task,
    _folder: TempDir,
}

impl Trial {
    fn new(server: &ServerBuilder, lifetime: Duration) -> Self {
        let server = server.start().expect("a server starts");
        let url = server.url();
        Trial::on(server, url, lifetime)
    }
}

impl<S> Trial<S> {
    fn on(server: S, url: String, lifetime: Duration) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let task = Task {
            url,
            folder: folder.path().to_owned(),
            lease: LEASE,
            lifetime,
            hold: Duration::from_millis(4),
            sabotage: None,
            resource_looks: true,
        };
        Trial { server, task, _folder: folder }
    }

    fn busy(&self, count: usize) -> Vec<Worker> {
        (0..count).map(|name| self.task.start(&format!("busy-{name}"), Role::Busy)).collect()
    }

    /// Waits until the history has a line of which this is true.
    fn await_line(&self, what: &str, mut so: impl FnMut(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !lines(&self.task.history()).iter().any(|line| so(line)) {
            assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until each of the busy has held: all are connected.
    fn await_all(&self, workers: &[Worker]) {
        for name in 0..workers.len() {
            let valid = format!("busy-{name} valid");
            self.await_line("all are connected", |line| line.contains(&valid));
        }
    }

    fn end(self, workers: Vec<Worker>) -> History {
        workers.into_iter().for_each(Worker::join);
        History::read(&self.task.history(), &self.task.resource())
    }
}

/// How many holds others than the sleeper had.
fn others(history: &History) -> usize {
    history.holds.iter().filter(|seen| seen.worker != "sleeper").count()
}

/// A holder is stopped for three leases while others go on, and wakes up in their middle.
fn stop_a_holder(sabotage: Option<Sabotage>, resource_looks: bool) -> History {
    let lifetime = Duration::from_secs(4);
    let mut trial = Trial::new(&ServerBuilder::redis(), lifetime);
    trial.task.resource_looks = resource_looks;
    trial.task.sabotage = sabotage;
    if sabotage.is_some() {
        // Long enough for the fault to hit somebody in the middle of it.
        trial.task.hold = Duration::from_millis(60);
    }
    let sleeper = trial.task.start("sleeper", Role::Sleeper);
    trial.await_line("the sleeper holds", |line| line.contains("sleeper valid"));
    let mut workers = trial.busy(3);
    for _ in 0..ROUNDS.min(soak()) {
        thread::sleep(LEASE / 2);
        sleeper.signal(Signal::STOP);
        thread::sleep(LEASE * 3);
        sleeper.signal(Signal::CONT);
    }
    workers.push(sleeper);
    trial.end(workers)
}

#[test]
fn a_stopped_holder_is_told_and_refused() {
    let history = stop_a_holder(None, true);
    assert_eq!(history.faults(), Vec::<String>::new());
    assert!(others(&history) > 0, "nobody else got it meanwhile");
    assert!(history.holds.iter().any(|seen| seen.worker == "sleeper" && seen.lost));
    assert!(history.refused > 0, "it wrote without looking, and the resource looked for it");
}

#[test]
fn the_checker_notices_a_holder_without_a_clock() {
    let history = stop_a_holder(Some(Sabotage::ValidityIgnored), true);
    assert!(history.faults().iter().any(|fault| fault.starts_with("two at once")));
}

#[test]
fn the_checker_notices_a_release_without_an_owner() {
    let history = stop_a_holder(Some(Sabotage::ReleaseWithoutOwnerCheck), true);
    assert!(history.faults().iter().any(|fault| fault.starts_with("two at once")));
}

#[test]
fn the_checker_notices_a_renewal_that_makes_the_key_again() {
    let history = stop_a_holder(Some(Sabotage::RenewalRecreatesKey), true);
    assert!(history.faults().iter().any(|fault| fault.starts_with("two at once")));
}

#[test]
fn the_checker_notices_tokens_that_do_not_rise() {
    let history = stop_a_holder(Some(Sabotage::TokenStandsStill), true);
    assert!(history.faults().iter().any(|fault| fault.starts_with("tokens do not rise")));
}

#[test]
fn the_checker_notices_a_resource_that_does_not_look() {
    let history = stop_a_holder(None, false);
    assert!(history.faults().iter().any(|fault| fault.contains("token of the past")));
}

#[test]
fn a_killed_holder_costs_the_others_one_lease() {
    let trial = Trial::new(&ServerBuilder::redis(), Duration::from_secs(3));
    let sleeper = trial.task.start("sleeper", Role::Sleeper);
    trial.await_line("the sleeper holds", |line| line.contains("sleeper valid"));
    let workers = trial.busy(3);
    thread::sleep(LEASE);
    sleeper.signal(Signal::KILL);
    drop(sleeper);
    let history = trial.end(workers);
    assert_eq!(history.faults(), Vec::<String>::new());
    let last = history.holds.iter().find(|seen| seen.worker == "sleeper").expect("it held");
    let next = history.holds.iter().find(|seen| seen.from_nanos > last.to_nanos);
    let gap = Duration::from_nanos(next.expect("others went on").from_nanos - last.to_nanos);
    assert!(gap < LEASE + Duration::from_millis(500), "{gap:?}");
}

#[test]
fn waiting_survives_the_death_of_subscriptions_only() {
    let trial = Trial::new(&ServerBuilder::redis(), Duration::from_secs(3));
    let workers = trial.busy(4);
    let mut client = trial.server.connect().expect("connected");
    let end = Instant::now() + Duration::from_millis(2500);
    while Instant::now() < end {
        client.call(&["CLIENT", "KILL", "TYPE", "pubsub"]).expect("answered");
        thread::sleep(Duration::from_millis(40));
    }
    let history = trial.end(workers);
    assert_eq!(history.faults(), Vec::<String>::new());
    assert!(history.holds.len() > 30, "they went on: {}", history.holds.len());
}

#[test]
fn cut_connections_and_lost_replies_break_nothing() {
    let mut trial = Trial::new(&ServerBuilder::redis(), Duration::from_secs(4));
    let proxy = FaultProxy::start(trial.server.port()).expect("a proxy");
    trial.task.url = proxy.url();
    let workers = trial.busy(4);
    trial.await_all(&workers);
    proxy.drop_reply(On::command("EVALSHA").probability(0.05));
    proxy.drop_request(On::command("EVALSHA").probability(0.05));
    let end = Instant::now() + Duration::from_millis(3000);
    while Instant::now() < end {
        proxy.cut_all();
        thread::sleep(Duration::from_millis(150));
    }
    proxy.heal();
    let history = trial.end(workers);
    assert_eq!(history.faults(), Vec::<String>::new());
    assert!(history.holds.len() > 20, "they went on: {}", history.holds.len());
}

#[test]
fn a_server_that_restarts_with_its_log_breaks_nothing() {
    let server = ServerBuilder::redis().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let mut trial = Trial::new(&server, Duration::from_secs(4));
    let workers = trial.busy(3);
    trial.await_all(&workers);
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(400));
        trial.server.restart().expect("it starts again");
    }
    let history = trial.end(workers);
    assert_eq!(history.faults(), Vec::<String>::new());
    assert!(history.holds.len() > 20, "they went on: {}", history.holds.len());
}

/// Exclusion is not promised over a lost database; that tokens rise is.
#[test]
fn a_server_that_restarts_empty_gives_higher_tokens() {
    let mut trial = Trial::new(&ServerBuilder::redis(), Duration::from_secs(4));
    let workers = trial.busy(3);
    trial.await_all(&workers);
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(400));
        trial.server.restart().expect("it starts again");
    }
    let by_epoch = by_token(&trial.end(workers));
    let resets = by_epoch.windows(2).filter(|w| w[1].token.sequence < w[0].token.sequence);
    assert!(resets.count() >= 1, "the sequence tells of the loss");
}

/// A fail-over may forget a lock, and with it exclusion; tokens rise all the same.
#[test]
fn a_fail_over_gives_higher_tokens() {
    let set = SentinelSet::start().expect("a Sentinel set");
    let url = set.url();
    let trial = Trial::on(set, url, Duration::from_secs(10));
    let workers = trial.busy(3);
    trial.await_all(&workers);
    let lost = trial.server.kill_primary().expect("killed");
    trial.server.await_failover(lost).expect("another took over");
    let before = lines(&trial.task.history()).len();
    let history = trial.task.history();
    let deadline = Instant::now() + PATIENCE;
    while !lines(&history)[before..].iter().any(|line| line.contains(" acquired ")) {
        assert!(Instant::now() < deadline, "nobody holds after the fail-over");
        thread::sleep(Duration::from_millis(20));
    }
    by_token(&trial.end(workers));
}

/// The holds in the order of their tokens, none of which was given twice; and the resource accepted
/// nothing of the past.
fn by_token(history: &History) -> Vec<Seen> {
    let mut by_epoch = history.holds.clone();
    by_epoch.sort_by_key(|seen| seen.token);
    by_epoch.dedup_by_key(|seen| seen.token);
    assert_eq!(by_epoch.len(), history.holds.len(), "no token is given twice");
    assert!(history.accepted.is_sorted(), "the resource accepted nothing of the past");
    by_epoch
}
