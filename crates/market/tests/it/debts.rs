//! Changes that were answered while Redis was away, by a process that then dies: whoever lives makes
//! them visible when Redis is back.
//!
//! A process is a runtime of its own here: it ends with all its tasks and all that it remembers,
//! while it runs and without being asked. Both stores stay.

use std::{sync::Arc, time::Duration};

use axum::http::Method;
use seawall::Seawall;
use seawall_market::Parts;
use seawall_testkit::{
    FaultProxy,
    backend::{Backend, TestBackend},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::{
    follows::follow,
    market::{Database, Market, new_dir},
    notes::{ids, publish, send},
};

/// Somebody new, who follows nobody.
const MAX: &str = "11900000001";
const BO: &str = "10000000002";
const BO_ID: u64 = 2;
const EMIL: &str = "10000000005";
/// Where the shop goes.
const THERE: &str = "/shop/of/type?typeId=9&x=121&y=31";
/// How long a process may take to notice that it ended.
const END: Duration = Duration::from_secs(10);

/// What a change concerns, in the order in which it is looked at.
const EVERYTHING: [&str; 12] = [
    "profile",
    "me",
    "shop",
    "map",
    "deleted note",
    "author's page",
    "is liked",
    "who likes",
    "comments",
    "follows",
    "fans",
    "feed",
];

/// Two stores, and what can take one of them away.
struct Stores {
    _stand: TestBackend,
    proxy: FaultProxy,
    database: Arc<Database>,
    _folder: Arc<TempDir>,
}

impl Stores {
    fn new(database: impl FnOnce(&TempDir) -> Database) -> Self {
        let stand = TestBackend::private(Backend::Redis).expect("the backend starts");
        let server = stand.server().expect("it is a private one");
        let proxy = FaultProxy::start(server.port()).expect("a port is free");
        let folder = new_dir();
        let database = Arc::new(database(&folder));
        Stores { _stand: stand, proxy, database, _folder: folder }
    }

    async fn process(&self) -> Market {
        let builder = Seawall::builder(&self.proxy.url()).response_timeout(Duration::from_secs(2));
        let seawall = builder.connect().await.expect("it answers");
        let database = Arc::clone(&self.database);
        Market::start(seawall, new_dir(), database, Parts::default(), &[]).await
    }
}

/// People, their tokens, and what they have to do with.
struct World {
    max: String,
    max_id: String,
    emil: String,
    /// Bo's note, which Max will like and comment.
    note: String,
    /// Max' note, which will go.
    gone: String,
    fans: i64,
}

impl World {
    async fn new(market: &Market) -> Self {
        let max = market.log_in(MAX).await;
        let (emil, bo) = (market.log_in(EMIL).await, market.log_in(BO).await);
        let max_id = data(market, "/user/me", &max).await["id"].as_str().expect("text").to_owned();
        let note = publish(market, &bo, "A walk").await;
        let gone = publish(market, &max, "A mistake").await;
        let fans = data(market, &format!("/user/{BO_ID}"), "").await["fans"].as_i64();
        World { max, max_id, emil, note, gone, fans: fans.expect("a number") }
    }

    /// Changes everything; each change is answered well.
    async fn change(&self, market: &Market) {
        let (max, note) = (&self.max, &self.note);
        let name = json!({ "nickName": "Maxine" });
        send(market, Method::PUT, "/user/me", max, Some(&name)).await.ok();
        let moved = json!({ "name": "Far Away", "x": 121.0, "y": 31.0, "typeId": "9" });
        send(market, Method::PUT, "/shop/2", &self.emil, Some(&moved)).await.ok();
        send(market, Method::DELETE, &format!("/blog/{}", self.gone), max, None).await.ok();
        publish(market, max, "Second thoughts").await;
        let like = format!("/blog/like/{note}?liked=true");
        send(market, Method::PUT, &like, max, None).await.ok();
        let comment = json!({ "content": "Indeed." });
        let comments = format!("/blog/{note}/comments");
        send(market, Method::POST, &comments, max, Some(&comment)).await.ok();
        follow(market, max, BO_ID, true).await.ok();
    }

    /// What a process does not show yet.
    async fn behind(&self, market: &Market) -> Vec<&'static str> {
        let max = self.max.as_str();
        let (named, note) = (json!("Maxine"), format!("/blog/{}", self.note));
        let page = format!("/blog/of/user?id={}", self.max_id);
        let likes = data(market, &format!("/blog/likes/{}", self.note), "").await;
        let read = data(market, &note, max).await;
        let gone = market.get(&format!("/blog/{}", self.gone), "").await;
        let seen = [
            data(market, &format!("/user/{}", self.max_id), "").await["nickName"] == named,
            data(market, "/user/me", max).await["nickName"] == named,
            data(market, "/shop/2", "").await["name"] == "Far Away",
            ids(&data(market, THERE, "").await) == ["2"],
            gone.status == 404,
            data(market, &page, "").await[0]["title"] == "Second thoughts",
            read["isLike"] == true,
            ids(&likes).contains(&self.max_id),
            read["comments"] == 1,
            data(market, &format!("/follow/or/not/{BO_ID}"), max).await == true,
            data(market, &format!("/user/{BO_ID}"), "").await["fans"] == self.fans + 1,
            ids(&data(market, "/blog/of/follow", max).await["list"]).contains(&self.note),
        ];
        let behind = EVERYTHING.into_iter().zip(seen).filter(|(_, seen)| !seen);
        behind.map(|(what, _)| what).collect()
    }
}

async fn data(market: &Market, path: &str, token: &str) -> Value {
    market.get(path, token).await.ok().body["data"].take()
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// A process changes everything while Redis is away, and is killed; then Redis is back. The witness
/// has read everything before, and lives.
fn outage(stores: &Stores, witness: Option<&Market>) -> World {
    let process = runtime();
    let (world, market) = process.block_on(async {
        let market = stores.process().await;
        let world = World::new(&market).await;
        for market in std::iter::once(&market).chain(witness) {
            assert_eq!(world.behind(market).await, EVERYTHING, "nothing is changed yet");
        }
        stores.proxy.down();
        world.change(&market).await;
        assert_eq!(world.behind(&market).await, [""; 0], "who changed it knows");
        (world, market)
    });
    // Only now, so that nothing learns that it ends.
    process.shutdown_timeout(END);
    runtime().block_on(async { drop(market) });
    stores.proxy.heal();
    world
}

fn another_that_lives_makes_it_visible(stores: &Stores) {
    let living = runtime();
    let witness = living.block_on(stores.process());
    let world = outage(stores, Some(&witness));
    living.block_on(async {
        witness
            .until("everything to be seen", async |witness| world.behind(witness).await.is_empty())
            .await;
        witness
            .until("the debts to be settled", async |witness| {
                witness.sql("SELECT COUNT(*) FROM debt").await == 0
            })
            .await;
        witness.shutdown().await;
    });
}

fn the_next_one_shows_it_from_its_first_answer_on(stores: &Stores) {
    let world = outage(stores, None);
    runtime().block_on(async {
        let next = stores.process().await;
        assert_eq!(world.behind(&next).await, [""; 0], "what the next one does not show");
        assert_eq!(next.sql("SELECT COUNT(*) FROM debt").await, 0);
        next.shutdown().await;
    });
}

mod sqlite {
    use super::*;

    #[test]
    fn another_that_lives_makes_it_visible() {
        super::another_that_lives_makes_it_visible(&Stores::new(Database::in_folder));
    }

    #[test]
    fn the_next_one_shows_it_from_its_first_answer_on() {
        super::the_next_one_shows_it_from_its_first_answer_on(&Stores::new(Database::in_folder));
    }
}

mod mariadb {
    use super::*;

    fn stores() -> Stores {
        Stores::new(|folder| Database::beside(Backend::Redis, folder))
    }

    #[test]
    fn another_that_lives_makes_it_visible() {
        super::another_that_lives_makes_it_visible(&stores());
    }

    #[test]
    fn the_next_one_shows_it_from_its_first_answer_on() {
        super::the_next_one_shows_it_from_its_first_answer_on(&stores());
    }
}
