//! What may have been carried out stays unknown, although asking again finds a closed door.

use std::time::Duration;

use seawall::{
    Error, Seawall, cmd,
    lock::{Lock, MultiLock},
};
use seawall_testkit::{FaultProxy, Reply, ServerProcess, proxy::On};

use crate::ground::{eventually, take};

/// How long who waits goes on asking behind the closed door.
const WITHIN: Duration = Duration::from_millis(300);

struct Site {
    server: ServerProcess,
    proxy: FaultProxy,
    seawall: Seawall,
}

impl Site {
    async fn open() -> Self {
        let server = ServerProcess::redis().expect("it starts");
        let proxy = FaultProxy::start(server.port()).expect("it starts");
        let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_millis(500));
        let seawall = builder.connect().await.expect("connected");
        Site { server, proxy, seawall }
    }

    /// A lock whose scripts the server knows.
    async fn lock(&self, name: &str) -> Lock {
        let lock = self.seawall.lock(name);
        let _ = take(&lock).await.release().await.expect("answered");
        lock
    }

    /// Two of them at once.
    async fn both(&self) -> MultiLock {
        let (_, _) = (self.lock("one").await, self.lock("two").await);
        self.seawall.multi_lock(["one", "two"])
    }

    /// The next script is carried out, its reply is lost, and nobody is let in again.
    fn lose_and_shut(&self) {
        self.proxy.refuse();
        self.proxy.drop_reply(On::command("EVALSHA").once());
    }

    /// How many locks there are, asked past the proxy.
    fn locks(&self) -> i64 {
        let mut client = self.server.connect().expect("connected");
        let names = ["lock:{x}", "lock:{one}", "lock:{two}"];
        let words: Vec<&str> = ["EXISTS"].into_iter().chain(names).collect();
        match client.call(&words).expect("answered") {
            Reply::Int(count) => count,
            other => panic!("{other:?}"),
        }
    }

    async fn close(self) {
        self.proxy.heal();
        let client = self.seawall.client();
        eventually("it answers again", async || client.send(b"", &cmd("PING")).await.is_ok()).await;
        self.seawall.shutdown().await;
    }
}

fn unknown<T: std::fmt::Debug>(outcome: &Result<T, Error>) {
    assert!(matches!(outcome, Err(error) if error.is_indeterminate()), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_may_have_been_carried_out_was_not_unsent() {
    let site = Site::open().await;
    let guard = take(&site.lock("x").await).await;
    site.lose_and_shut();
    unknown(&guard.release().await);
    assert_eq!(site.locks(), 0, "it was carried out");
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquisition_that_may_have_been_carried_out_was_not_unsent() {
    let site = Site::open().await;
    let lock = site.lock("x").await;
    site.lose_and_shut();
    unknown(&lock.acquire(WITHIN).await);
    assert_eq!(site.locks(), 1, "it was carried out");
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_that_may_have_been_taken_were_not_unsent() {
    let site = Site::open().await;
    let both = site.both().await;
    site.lose_and_shut();
    unknown(&both.acquire(WITHIN).await);
    assert!(site.locks() > 0, "it was carried out");
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_that_may_have_been_given_back_were_not_unsent() {
    let site = Site::open().await;
    let both = site.both().await;
    let held = both.try_acquire().await.expect("answered").acquired().expect("free");
    site.lose_and_shut();
    unknown(&held.release().await);
    assert!(site.locks() < 2, "it was carried out");
    site.close().await;
}

/// Nothing was sent: that is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_sent_is_called_so() {
    let site = Site::open().await;
    let lock = site.lock("x").await;
    let guard = take(&lock).await;
    site.proxy.down();
    eventually("the connection is gone", async || {
        matches!(lock.try_acquire().await, Err(Error::Unavailable(_)))
    })
    .await;
    let outcome = guard.release().await;
    assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
    site.close().await;
}
