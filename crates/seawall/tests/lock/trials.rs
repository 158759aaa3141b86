//! Holders that are stopped, killed, cut off and not told; servers that are restarted. What their
//! history says must be true each time. Unless a trial says otherwise, all of them make their leases longer
//! and shorter while they hold.
//!
//! Every trial goes on until enough has happened, however fast or slow the machine is.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use seawall_testkit::{SentinelSet, ServerBuilder};
use tempfile::TempDir;

use crate::{
    ground::{PATIENCE, soak},
    history::History,
    process::Worker,
    site::Site,
    subject::Kind,
    worker::{Role, Task, lines},
};

const LEASE: Duration = Duration::from_millis(500);
/// How often a fault is repeated in a soak.
const ROUNDS: usize = 3;
/// How often others than the sleeper take the lock while it is stopped.
const MEANWHILE: usize = 10;
/// How many holders make their lease longer.
const EXTENDED: usize = 20;
/// How often a holder wakes up where that could do harm.
const CHANCES: usize = 3;

struct Trial<S> {
    site: S,
    task: Task,
    _folder: TempDir,
}

impl<S> Trial<S> {
    fn on(site: S, url: String, kind: Kind) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let task = Task {
            kind,
            url,
            folder: folder.path().to_owned(),
            lease: LEASE,
            hold: Duration::from_millis(4),
            extends: true,
            resource_looks: true,
        };
        Trial { site, task, _folder: folder }
    }

    fn busy(&self, count: usize) -> Vec<Worker> {
        (0..count).map(|name| self.task.start(&format!("busy-{name}"), Role::Busy)).collect()
    }

    /// How many lines of the history so far are such.
    fn count(&self, so: impl Fn(&str) -> bool) -> usize {
        lines(&self.task.history()).iter().filter(|line| so(line)).count()
    }

    /// Waits until there are more such lines in the history than there were.
    fn await_more(&self, what: &str, than: usize, so: impl Fn(&str) -> bool) {
        self.await_within(PATIENCE, what, than, so);
    }

    fn await_within(&self, limit: Duration, what: &str, than: usize, so: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + limit;
        while self.count(&so) <= than {
            assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until each of the busy has held: all are connected. Most locks are not fair, so on a busy
    /// machine one of them may be passed over for long.
    fn await_all(&self, workers: &[Worker]) {
        for name in 0..workers.len() {
            let valid = format!("busy-{name} valid");
            let limit = PATIENCE * 6;
            self.await_within(limit, "all are connected", 0, |line| line.contains(&valid));
        }
    }

    /// Does something again and again until the lock changed hands so often after it began.
    fn until_holds(&self, count: usize, mut again: impl FnMut()) {
        let deadline = Instant::now() + PATIENCE * 2 * u32::try_from(soak()).expect("small");
        let before = self.count(is_acquired);
        while self.count(is_acquired) < before + count {
            assert!(Instant::now() < deadline, "they do not go on");
            again();
        }
    }

    /// Stops a process between two writes: in the middle of one it would keep the resource's file
    /// locked, and the others could not go on whatever our own lock does.
    fn stop(&self, worker: &Worker) {
        let _nobody_writes = self.task.resource().turn();
        worker.signal(Signal::STOP);
        let child = Pid::from_child(&worker.child);
        let told = waitpid(Some(child), WaitOptions::UNTRACED).expect("our child");
        let (_, status) = told.expect("waited for until none of its threads runs");
        assert!(status.stopped(), "it ended instead: {status:?}");
    }

    /// Stops the sleeper while it holds. On a machine that is slow enough it may have lost the lock
    /// by itself a moment ago; then it is let go on until it holds again.
    fn stop_while_it_holds(&self, sleeper: &Worker) {
        loop {
            let lost = self.count(is_lost_by_the_sleeper);
            self.await_more("it holds", lost, |line| line.contains("sleeper acquired"));
            self.stop(sleeper);
            if self.count(is_lost_by_the_sleeper) == lost {
                return;
            }
            sleeper.signal(Signal::CONT);
        }
    }

    fn history(&self) -> History {
        History::read(&self.task.history(), &self.task.resource(), self.task.kind.capacity())
    }

    fn end(self, workers: Vec<Worker>) -> History {
        self.task.end();
        workers.into_iter().for_each(Worker::join);
        self.history()
    }
}

impl Trial<Site> {
    fn new(site: Site, kind: Kind) -> Self {
        let url = site.url();
        Trial::on(site, url, kind)
    }
}

fn is_acquired(line: &str) -> bool {
    line.contains(" acquired ")
}

fn is_lost_by_the_sleeper(line: &str) -> bool {
    line.contains("sleeper lost")
}

fn is_acquired_by_another(line: &str) -> bool {
    is_acquired(line) && !line.contains("sleeper")
}

/// A holder is stopped while others go on, and wakes up in their middle.
fn stop_a_holder(site: Site, kind: Kind) {
    let trial = Trial::new(site, kind);
    let sleeper = trial.task.start("sleeper", Role::Sleeper);
    trial.await_more("it holds", 0, |line| line.contains("sleeper acquired"));
    let mut workers = trial.busy(3);
    for _ in 0..ROUNDS.min(soak()) {
        trial.stop_while_it_holds(&sleeper);
        let (others, lost) =
            (trial.count(is_acquired_by_another), trial.count(is_lost_by_the_sleeper));
        trial.await_more("others go on", others + MEANWHILE, is_acquired_by_another);
        if kind == Kind::Semaphore {
            // Others go on beside it: until its lease is over, extended as it may be.
            thread::sleep(LEASE * 3);
        }
        sleeper.signal(Signal::CONT);
        trial.await_more("it is told", lost, is_lost_by_the_sleeper);
    }
    workers.push(sleeper);
    let history = trial.end(workers);
    assert_eq!(history.faults(), Vec::<String>::new());
    let writes = kind != Kind::Semaphore;
    assert!(!writes || history.refused > 0, "it wrote blindly, and the resource looked for it");
    assert!(history.holds.iter().any(|seen| seen.lost), "the history knows of the loss");
}

#[test]
fn a_stopped_holder_is_told_and_refused_on_redis() {
    stop_a_holder(Site::redis(), Kind::Mutex);
}

#[test]
fn a_stopped_holder_is_told_and_refused_on_the_engine() {
    stop_a_holder(Site::engine(), Kind::Mutex);
}

#[test]
fn a_stopped_holder_is_told_and_refused_on_a_cluster() {
    stop_a_holder(Site::cluster(), Kind::Mutex);
}

/// What is wrong when a holder wakes up, again and again, in the middle of what others hold. They hold
/// for long enough to be hit there, and nobody changes a lease: that would hide what a wake-up does.
fn faults_of_wake_ups(resource_looks: bool) -> Vec<String> {
    let mut trial = Trial::new(Site::redis(), Kind::Mutex);
    trial.task.resource_looks = resource_looks;
    trial.task.hold = Duration::from_millis(60);
    trial.task.extends = false;
    let sleeper = trial.task.start("sleeper", Role::Sleeper);
    trial.await_more("it holds", 0, |line| line.contains("sleeper valid"));
    // Replies take longer than a look: whoever wakes up looks before the server can tell it anything.
    trial.site.slow_replies(Duration::from_millis(5));
    let mut workers = trial.busy(3);
    for _ in 0..CHANCES {
        trial.stop_while_it_holds(&sleeper);
        let others = trial.count(is_acquired_by_another);
        trial.await_more("others go on", others + 2, is_acquired_by_another);
        sleeper.signal(Signal::CONT);
        let moment = Instant::now() + LEASE * 2;
        while Instant::now() < moment {
            let faults = trial.history().faults();
            if !faults.is_empty() {
                return faults;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    workers.push(sleeper);
    trial.end(workers).faults()
}

#[test]
fn a_holder_that_wakes_up_disturbs_nobody() {
    assert_eq!(faults_of_wake_ups(true), Vec::<String>::new());
}

#[test]
fn the_checker_notices_a_resource_that_does_not_look() {
    let faults = faults_of_wake_ups(false);
    assert!(faults.iter().any(|fault| fault.contains("token of the past")), "{faults:?}");
}

fn kill_a_holder(site: Site, kind: Kind) {
    let trial = Trial::new(site, kind);
    let sleeper = trial.task.start("sleeper", Role::Sleeper);
    trial.await_more("it holds", 0, |line| line.contains("sleeper valid"));
    let workers = trial.busy(3);
    sleeper.signal(Signal::KILL);
    drop(sleeper);
    trial.await_more("others go on", MEANWHILE, is_acquired_by_another);
    let history = trial.end(workers);
    assert_eq!(history.faults(), Vec::<String>::new());
}

#[test]
fn a_killed_holder_leaves_the_lock_to_the_others_on_redis() {
    kill_a_holder(Site::redis(), Kind::Mutex);
}

#[test]
fn a_killed_holder_leaves_the_lock_to_the_others_on_the_engine() {
    kill_a_holder(Site::engine(), Kind::Mutex);
}

#[test]
fn a_killed_holder_leaves_the_lock_to_the_others_on_a_cluster() {
    kill_a_holder(Site::cluster(), Kind::Mutex);
}

/// First only subscriptions die, then all connections, and where there is a proxy between some
/// requests and replies are lost.
fn cut_off(site: Site, kind: Kind) {
    let trial = Trial::new(site, kind);
    let workers = trial.busy(4);
    trial.await_all(&workers);
    trial.until_holds(25, || {
        trial.site.kill_subscriptions();
        thread::sleep(Duration::from_millis(40));
    });
    trial.site.lose_some();
    trial.until_holds(20, || {
        trial.site.cut();
        thread::sleep(Duration::from_millis(150));
    });
    trial.site.heal();
    let history = trial.end(workers);
    assert_eq!(history.faults(), Vec::<String>::new());
}

#[test]
fn cuts_and_losses_break_nothing_on_redis() {
    cut_off(Site::redis(), Kind::Mutex);
}

#[test]
fn cuts_and_losses_break_nothing_on_the_engine() {
    cut_off(Site::engine(), Kind::Mutex);
}

#[test]
fn cuts_and_losses_break_nothing_on_a_cluster() {
    cut_off(Site::cluster(), Kind::Mutex);
}

/// Holders make their leases longer while renewals are on their way, and go by what they were told.
fn extend_often(site: Site, kind: Kind) {
    let mut trial = Trial::new(site, kind);
    trial.task.lease = Duration::from_millis(80);
    let workers: Vec<_> =
        (0..4).map(|name| trial.task.start(&format!("busy-{name}"), Role::Extender)).collect();
    trial.await_all(&workers);
    trial.site.slow_replies(Duration::from_millis(8));
    // Most of those who read disturb nobody.
    let count = if kind == Kind::ReadWrite { EXTENDED * 2 } else { EXTENDED };
    trial.until_holds(count * soak(), || thread::sleep(Duration::from_millis(2)));
    trial.site.heal();
    let history = trial.end(workers);
    assert_eq!(history.faults(), Vec::<String>::new());
}

#[test]
fn extended_holders_are_alone_on_redis() {
    extend_often(Site::redis(), Kind::Mutex);
}

/// Restarts three times, and lets them hold in between.
fn restart(server: &ServerBuilder) -> History {
    let mut trial = Trial::new(Site::redis_with(server), Kind::Mutex);
    let workers = trial.busy(3);
    trial.await_all(&workers);
    for _ in 0..3 {
        trial.site.restart();
        trial.until_holds(7, || thread::sleep(Duration::from_millis(2)));
    }
    trial.end(workers)
}

#[test]
fn a_server_that_restarts_with_its_log_breaks_nothing() {
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    let history = restart(&ServerBuilder::redis().args(args));
    assert_eq!(history.faults(), Vec::<String>::new());
}

/// Exclusion is not promised over a lost database; that tokens rise is.
#[test]
fn a_server_that_restarts_empty_gives_higher_tokens() {
    let history = restart(&ServerBuilder::redis());
    assert_eq!(history.order_faults(), Vec::<String>::new());
    let mut by_epoch = history.holds;
    by_epoch.sort_by_key(|seen| seen.token);
    let resets = by_epoch.windows(2).filter(|w| w[1].token.sequence < w[0].token.sequence);
    assert!(resets.count() >= 1, "the sequence tells of the loss");
}

/// A fail-over may forget a lock, and with it exclusion; tokens rise all the same.
#[test]
fn a_fail_over_gives_higher_tokens_on_sentinel() {
    let set = SentinelSet::start().expect("a Sentinel set");
    let url = set.url();
    let trial = Trial::on(set, url, Kind::Mutex);
    let workers = trial.busy(3);
    trial.await_all(&workers);
    let lost = trial.site.kill_primary().expect("killed");
    trial.site.await_failover(lost).expect("another took over");
    trial.until_holds(3, || thread::sleep(Duration::from_millis(2)));
    let history = trial.end(workers);
    assert_eq!(history.order_faults(), Vec::<String>::new());
}

/// A Cluster that hands over loses nothing.
#[test]
fn a_hand_over_breaks_nothing_on_a_cluster() {
    let trial = Trial::new(Site::cluster(), Kind::Mutex);
    let workers = trial.busy(3);
    trial.await_all(&workers);
    let Site::Cluster(cluster) = &trial.site else { unreachable!("it was asked for") };
    let primary = cluster.primary_of(b"{x}").expect("it answers");
    cluster.failover(primary).expect("it hands over");
    trial.until_holds(7, || thread::sleep(Duration::from_millis(2)));
    let history = trial.end(workers);
    assert_eq!(history.faults(), Vec::<String>::new());
}

/// The trials of all kinds but the mutex, each where it can be.
macro_rules! trials_of {
    ($($module:ident $kind:ident;)*) => {$(
        mod $module {
            use super::{Kind, Site, cut_off, extend_often, kill_a_holder, stop_a_holder};

            #[test]
            fn extended_holders_are_alone_on_redis() {
                extend_often(Site::redis(), Kind::$kind);
            }

            #[test]
            fn a_stopped_holder_is_told_and_refused_on_redis() {
                stop_a_holder(Site::redis(), Kind::$kind);
            }

            #[test]
            fn a_stopped_holder_is_told_and_refused_on_a_cluster() {
                stop_a_holder(Site::cluster(), Kind::$kind);
            }

            #[test]
            fn a_killed_holder_leaves_the_lock_to_the_others_on_redis() {
                kill_a_holder(Site::redis(), Kind::$kind);
            }

            #[test]
            fn cuts_and_losses_break_nothing_on_redis() {
                cut_off(Site::redis(), Kind::$kind);
            }

            #[test]
            fn cuts_and_losses_break_nothing_on_the_engine() {
                cut_off(Site::engine(), Kind::$kind);
            }

            #[test]
            fn cuts_and_losses_break_nothing_on_a_cluster() {
                cut_off(Site::cluster(), Kind::$kind);
            }
        }
    )*};
}

trials_of! {
    fair Fair;
    read_write ReadWrite;
    semaphore Semaphore;
    multi Multi;
}

mod quorum {
    use super::{Kind, Site, cut_off, extend_often, kill_a_holder, stop_a_holder};

    #[test]
    fn extended_holders_are_alone() {
        extend_often(Site::quorum(), Kind::Quorum);
    }

    #[test]
    fn a_stopped_holder_is_told_and_refused() {
        stop_a_holder(Site::quorum(), Kind::Quorum);
    }

    #[test]
    fn a_killed_holder_leaves_the_lock_to_the_others() {
        kill_a_holder(Site::quorum(), Kind::Quorum);
    }

    #[test]
    fn cuts_and_losses_break_nothing() {
        cut_off(Site::quorum(), Kind::Quorum);
    }
}
