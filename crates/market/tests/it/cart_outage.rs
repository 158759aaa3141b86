//! Carts while Redis comes and goes: one user who acts in sequence is always told what a model says,
//! and both stores have it in the end.
//!
//! A user's requests go to one process or to two in turn; between them Redis is cut off, comes back,
//! resets its connections or carries something out without a reply. With two processes it is cut off only
//! when everything is written behind: what one changed in Redis the moment before, the other cannot see.

use std::{collections::BTreeMap, time::Duration};

use axum::http::Method;
use seawall::{Value, cmd, testing::TestServer};
use seawall_testkit::{FaultProxy, proxy::On};
use serde_json::{Value as Json, json};

use crate::{
    cart::{BO, add, forget_cart, items},
    market::{Answer, Market},
};

/// Steps of one run.
const STEPS: u64 = 40;
/// How often a client repeats what was answered with 503.
const REPEATS: usize = 50;

/// What stands between the market and Redis.
enum Cut<'a> {
    TestServer(&'a TestServer),
    Proxy(&'a FaultProxy),
}

impl Cut<'_> {
    fn begin(&self) {
        match self {
            Cut::TestServer(test_server) => test_server.faults().begin_outage(),
            Cut::Proxy(proxy) => proxy.down(),
        }
    }

    fn end(&self) {
        match self {
            Cut::TestServer(test_server) => test_server.faults().end_outage(),
            Cut::Proxy(proxy) => proxy.heal(),
        }
    }

    /// Something short, after which Redis answers.
    fn disturb(&self, chance: u64) {
        match self {
            // The engine has no connections that could break.
            Cut::TestServer(_) => {}
            Cut::Proxy(proxy) if chance == 0 => proxy.cut_all(),
            Cut::Proxy(proxy) => {
                proxy.drop_reply(On::any().key_prefix("cart:{cart:2}:2:").once());
            }
        }
    }

    /// Waits for an answer; where time is in the test's hands it goes on meanwhile.
    async fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        let Cut::TestServer(test_server) = self else { return work.await };
        let pass = async {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                test_server.advance(Duration::from_millis(200)).await;
            }
        };
        tokio::select! {
            done = work => done,
            () = pass => unreachable!("time does not end"),
        }
    }
}

/// Chances from a seed.
struct Chances(u64);

impl Chances {
    /// Below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % n
    }
}

/// A user who acts in sequence, and what their cart should be.
struct User<'a> {
    markets: Vec<&'a Market>,
    token: String,
    cut: Cut<'a>,
    chances: Chances,
    model: BTreeMap<u64, u64>,
    is_cut: bool,
    log: Vec<String>,
}

impl<'a> User<'a> {
    fn new(markets: Vec<&'a Market>, token: String, cut: Cut<'a>, seed: u64) -> Self {
        let (chances, model, log) = (Chances(seed), BTreeMap::new(), vec![format!("seed {seed}")]);
        User { markets, token, cut, chances, model, is_cut: false, log }
    }

    fn market(&mut self) -> &'a Market {
        let number = self.chances.below(self.markets.len() as u64) as usize;
        self.markets[number]
    }

    async fn send(&mut self, method: Method, path: &str, body: &Json, name: &str) -> Answer {
        for _ in 0..REPEATS {
            let market = self.market();
            let sent = market.send_named(method.clone(), path, &self.token, body, name);
            let answer = self.cut.wait(sent).await;
            self.log.push(format!("{method} {path} {body} {}", answer.status));
            if answer.status != 503 {
                return answer;
            }
            self.cut.wait(tokio::time::sleep(Duration::from_millis(50))).await;
        }
        panic!("never answered: {:#?}", self.log);
    }

    /// Checks what an answer should be.
    fn expect(&self, answer: &Answer, status: u16) -> Result<(), String> {
        if answer.status == status {
            return Ok(());
        }
        Err(format!("{status} is due: {:#?}, model {:?}", self.log, self.model))
    }

    async fn fault(&mut self) {
        match self.chances.below(6) {
            0 | 1 if !self.is_cut => {
                if self.markets.len() > 1 {
                    written(self.markets[0], &self.cut).await;
                }
                self.cut.begin();
                self.is_cut = true;
                self.log.push("Redis is away".into());
            }
            0 | 1 => {
                self.cut.end();
                self.is_cut = false;
                self.log.push("Redis is back".into());
            }
            2 if !self.is_cut => {
                let chance = self.chances.below(2);
                self.cut.disturb(chance);
                self.log.push(format!("Redis is disturbed, {chance}"));
            }
            _ => {}
        }
    }

    async fn act(&mut self, step: u64) -> Result<(), String> {
        let (sku, name) = (3 + self.chances.below(4), format!("step-{step}"));
        let path = format!("/cart/{sku}");
        match self.chances.below(10) {
            0..5 => {
                let count = 1 + self.chances.below(3);
                let body = json!({"skuId": sku.to_string(), "count": count});
                let answer = self.send(Method::POST, "/cart", &body, &name).await;
                self.expect(&answer, 200)?;
                *self.model.entry(sku).or_default() += count;
            }
            5..8 => {
                // Not 0 where a reply may be lost: who repeats that is told that it is not there.
                let least = u64::from(matches!(self.cut, Cut::Proxy(_)));
                let count = least + self.chances.below(4);
                let is_there = self.model.contains_key(&sku);
                let answer = self.send(Method::PUT, &path, &json!({"count": count}), &name).await;
                self.expect(&answer, if is_there { 200 } else { 404 })?;
                if is_there && count > 0 {
                    self.model.insert(sku, count);
                } else {
                    self.model.remove(&sku);
                }
            }
            _ => {
                let answer = self.send(Method::DELETE, &path, &Json::Null, &name).await;
                self.expect(&answer, 200)?;
                self.model.remove(&sku);
            }
        }
        self.compare().await
    }

    async fn compare(&mut self) -> Result<(), String> {
        let answer = self.send(Method::GET, "/cart", &Json::Null, "read").await;
        self.expect(&answer, 200)?;
        let lines = answer.body["data"].as_array().expect("a list");
        let line = |line: &Json| {
            let sku = line["skuId"].as_str().and_then(|id| id.parse().ok()).expect("an id");
            (sku, line["count"].as_u64().expect("a count"))
        };
        let found: BTreeMap<u64, u64> = lines.iter().map(line).collect();
        if found == self.model {
            return Ok(());
        }
        Err(format!("found {found:?}, model {:?}: {:#?}", self.model, self.log))
    }

    /// Acts, and compares after every step; both stores in the end.
    async fn run(mut self) -> Result<(), String> {
        for step in 0..STEPS {
            self.fault().await;
            self.act(step).await?;
        }
        self.cut.end();
        for market in self.markets.clone() {
            self.markets = vec![market];
            self.compare().await?;
        }
        written(self.markets[0], &self.cut).await;
        self.compare().await?;
        let market = self.markets[0];
        let held: BTreeMap<u64, u64> = market.redis(&["HGETALL", "cart:{cart:2}:2:counts"]).await;
        if held != self.model {
            return Err(format!("Redis has {held:?}, model {:?}: {:#?}", self.model, self.log));
        }
        // Nothing but the database is left of it.
        forget_cart(market).await;
        self.compare().await
    }
}

/// Waits until everything is in the rows.
async fn written(market: &Market, cut: &Cut<'_>) {
    let is_written = market.until("the database to have everything", async |market| {
        is_settled(market).await && market.sql("SELECT COUNT(*) FROM cart_pending").await == 0
    });
    cut.wait(is_written).await;
}

/// Whether the worker has acknowledged the newest change; not while Redis is away.
async fn is_settled(market: &Market) -> bool {
    let (key, client) = ("cart:{cart:2}:changes", market.seawall.client());
    let (mut groups, mut newest) = (cmd("XINFO"), cmd("XREVRANGE"));
    groups.arg("GROUPS").arg(key);
    newest.arg(key).arg("+").arg("-").arg("COUNT").arg(1);
    let groups = client.query::<Vec<BTreeMap<String, Value>>>(key.as_bytes(), &groups).await;
    let newest = client.query::<Vec<(String, Vec<String>)>>(key.as_bytes(), &newest).await;
    let (Ok(groups), Ok(newest)) = (groups, newest) else { return false };
    let Some(group) = groups.first() else { return false };
    let word = |name: &str| match group.get(name) {
        Some(Value::Int(number)) => number.to_string(),
        Some(Value::BulkString(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    };
    let is_delivered = newest.first().is_none_or(|(id, _)| *id == word("last-delivered-id"));
    is_delivered && word("pending") == "0"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_on_the_engine_is_always_right() {
    let test_server = TestServer::start().await.expect("it starts");
    let market = Market::on_test_server(&test_server).await;
    let bo = market.log_in(BO).await;
    let user = User::new(vec![&market], bo, Cut::TestServer(&test_server), 1);
    user.run().await.expect("as the model");
    market.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_on_the_engine_are_always_right() {
    let test_server = TestServer::start().await.expect("it starts");
    let market = Market::on_test_server(&test_server).await;
    let other = market.colleague().await;
    let bo = market.log_in(BO).await;
    let user = User::new(vec![&market, &other], bo, Cut::TestServer(&test_server), 2);
    user.run().await.expect("as the model");
    other.shutdown().await;
    market.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_on_redis_is_always_right() {
    let (market, proxy) = Market::behind_proxy().await;
    let bo = market.log_in(BO).await;
    let user = User::new(vec![&market], bo, Cut::Proxy(&proxy), 3);
    user.run().await.expect("as the model");
    market.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_on_redis_are_always_right() {
    let (market, proxy) = Market::behind_proxy().await;
    let other = market.colleague().await;
    let bo = market.log_in(BO).await;
    let user = User::new(vec![&market, &other], bo, Cut::Proxy(&proxy), 4);
    user.run().await.expect("as the model");
    other.shutdown().await;
    market.shutdown().await;
}

/// The checker notices when what was changed during an outage is taken for carried out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cart_that_skips_what_is_pending_is_found_out() {
    let test_server = TestServer::start().await.expect("it starts");
    let market = Market::on_test_server(&test_server).await;
    let bo = market.log_in(BO).await;
    assert_eq!(items(&market, &bo).await, []);
    let done = ["HSET", "cart:{cart:2}:2:meta", "replayed", "9000000000000000"];
    let _: i64 = market.redis(&done).await;
    let user = User::new(vec![&market], bo, Cut::TestServer(&test_server), 1);
    let found = user.run().await.expect_err("changes are lost");
    assert!(found.contains("model"), "{found}");
    // It may have been found while Redis was away: whoever waits for it needs time that goes on.
    Cut::TestServer(&test_server).wait(market.shutdown()).await;
}

/// What waits in Redis for the database when Redis goes away is there afterwards, and so is what was
/// changed in the database meanwhile, by a process that could not see the former.
async fn what_waits_is_added_to(market: &Market, cut: Cut<'_>) {
    let other = market.colleague().await;
    let bo = market.log_in(BO).await;
    add(market, &bo, 3, 2).await.ok();
    add(market, &bo, 4, 990).await.ok();
    add(market, &bo, 5, 1).await.ok();
    written(market, &cut).await;
    // As if the worker had not come to it.
    market.change("DELETE FROM cart WHERE user_id = 2").await;
    cut.begin();
    assert_eq!(cut.wait(items(&other, &bo)).await, []);
    cut.wait(add(&other, &bo, 3, 1)).await.ok();
    cut.wait(add(&other, &bo, 4, 20)).await.ok();
    let drop = other.send_json(Method::DELETE, "/cart/5", &bo, &Json::Null);
    cut.wait(drop).await.ok();
    assert_eq!(cut.wait(items(&other, &bo)).await, [(4, 20), (3, 1)]);
    cut.end();
    written(market, &cut).await;
    for market in [market, &other] {
        let mut items = cut.wait(items(market, &bo)).await;
        items.sort_unstable();
        assert_eq!(items, [(3, 3), (4, 999)], "all of it, up to the most");
    }
    let sql = "SELECT CAST(SUM(count) AS SIGNED) FROM cart WHERE user_id = 2";
    assert_eq!(market.sql(sql).await, 1_002);
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_in_the_engine_is_added_to() {
    let test_server = TestServer::start().await.expect("it starts");
    let market = Market::on_test_server(&test_server).await;
    what_waits_is_added_to(&market, Cut::TestServer(&test_server)).await;
    market.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_in_redis_is_added_to() {
    let (market, proxy) = Market::behind_proxy().await;
    what_waits_is_added_to(&market, Cut::Proxy(&proxy)).await;
    market.shutdown().await;
}
