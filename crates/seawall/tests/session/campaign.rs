//! Users that log in and out, one at a time and many at once, while replies get lost: what was opened stays
//! open until it is ended, what was ended stays ended, and the limit holds.

use std::time::Duration;

use seawall::{
    Seawall,
    session::{Fields, Sessions, Token},
};
use seawall_testkit::{
    ServerProcess,
    proxy::{FaultProxy, On},
};

use crate::{campaign_support, chance::Chance};

const USERS: u64 = 6;
const STEPS: usize = 25;

/// What is known of a session.
struct Known {
    token: Token,
    /// Logins that were begun after this one, or together with it, those that failed included.
    later: usize,
    /// Somebody tried to end it, and was not told whether it worked.
    doubtful: bool,
    ended: bool,
}

/// One user and what it has done.
struct User {
    number: u64,
    most: usize,
    chance: Chance,
    sessions: Sessions<u64>,
    known: Vec<Known>,
    opened: u64,
    failed: u64,
}

impl User {
    async fn step(&mut self) {
        match self.chance.below(8) {
            0..=2 => self.log_in(1).await,
            3 | 4 => {
                let many = 2 + self.chance.below(8) as usize;
                self.log_in(many).await;
            }
            5 => self.log_out().await,
            6 => self.log_out_everywhere().await,
            _ => {}
        }
        self.judge().await;
    }

    async fn log_in(&mut self, count: usize) {
        let mut logins = tokio::task::JoinSet::new();
        for _ in 0..count {
            let (sessions, number) = (self.sessions.clone(), self.number);
            logins.spawn(async move { sessions.open(&number, &Fields::new()).await });
        }
        let opened: Vec<_> = logins.join_all().await;
        let finished = opened.iter().filter(|opened| opened.is_ok()).count();
        for known in &mut self.known {
            // Each may have been begun up to three times.
            known.later += 3 * count;
        }
        self.failed += (count - finished) as u64;
        self.opened += finished as u64;
        for token in opened.into_iter().flatten() {
            let later = 3 * (count - 1);
            self.known.push(Known { token, later, doubtful: false, ended: false });
        }
    }

    async fn log_out(&mut self) {
        if self.known.is_empty() {
            return;
        }
        let at = self.chance.below(self.known.len() as u64) as usize;
        let known = &mut self.known[at];
        match self.sessions.revoke(&known.token).await {
            Ok(_) => known.ended = true,
            Err(_) => known.doubtful = true,
        }
    }

    async fn log_out_everywhere(&mut self) {
        let ended = self.sessions.revoke_all(&self.number).await.is_ok();
        for known in &mut self.known {
            known.ended |= ended;
            known.doubtful = true;
        }
    }

    /// Compares what is there with what is known.
    async fn judge(&mut self) {
        let mut alive = 0;
        for known in &mut self.known {
            let Ok(load) = self.sessions.load(&known.token).await else { return };
            let there = load.found().is_some();
            alive += usize::from(there);
            assert!(!(there && known.ended), "user {}: ended, and there", self.number);
            let must = !known.ended && !known.doubtful && known.later < self.most;
            assert!(there || !must, "user {}: lost of {}", self.number, self.most);
            known.ended |= !there;
        }
        assert!(alive <= self.most, "user {}: {alive} of {}", self.number, self.most);
    }
}

async fn play(seed: u64) -> [u64; 2] {
    let mut chance = Chance::new(seed);
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy").seeded(seed);
    let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_secs(5));
    let seawall = builder.connect().await.expect("in");
    let most = [1, 2, 3, 5, 40, 1_000][chance.below(6) as usize];
    let slides = 2 + chance.below(30) as u32;
    let sessions = seawall.sessions::<u64>("web").max_per_user(most).slides(slides);
    let sessions = sessions.build().expect("valid");
    let lost = [0.0, 0.01, 0.04][chance.below(3) as usize];
    proxy.drop_reply(On::any().probability(lost));
    let mut users = tokio::task::JoinSet::new();
    for number in 0..USERS {
        let (sessions, chance) = (sessions.clone(), Chance::new(chance.below(u64::MAX)));
        users.spawn(async move {
            let known = Vec::new();
            let mut user = User { number, most, chance, sessions, known, opened: 0, failed: 0 };
            for _ in 0..STEPS {
                user.step().await;
            }
            user
        });
    }
    let mut users = users.join_all().await;
    proxy.heal();
    let mut counts = [0; 2];
    for user in &mut users {
        user.judge().await;
        counts[0] += user.opened;
        counts[1] += user.failed;
        if lost == 0.0 {
            assert_eq!(user.failed, 0, "nothing broke");
        }
    }
    seawall.shutdown().await;
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_open_stays_open_and_what_ended_stays_ended() {
    campaign_support::run("sessions", ["opened", "failed"], play).await;
}
