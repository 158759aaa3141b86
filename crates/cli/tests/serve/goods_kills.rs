//! Orders of goods while the process is killed in the middle: every unit is on hand or in an order,
//! every order that was answered is there, and nobody has two.
//!
//! The oracle is what the buyers saw. Everybody asks with one key until there is an answer. Whoever is
//! told that the quote is over, because the process died while it let go of the units, asks for
//! another one.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use seawall_testkit::{ServerBuilder, TestDatabase};
use serde_json::json;

use crate::client::{Http, MarketProcess, PATIENCE, crowd, data, eventually};

/// Users who buy, together more than there is.
const BUYERS: usize = 160;
/// Connections that buy at the same time.
const AT_ONCE: usize = 8;
/// Orders that are answered before the process is killed.
const BEFORE: usize = 40;
/// What everybody buys some of, and how many there are.
const SKU: &str = "1";
const UNITS: i64 = 300;
/// What everybody buys one of besides; there are fewer than buyers.
const SCARCE: &str = "3";

/// What one user was told in the end.
#[derive(Debug)]
enum Told {
    Order(String),
    SoldOut,
}

/// Where buyers can go at the moment.
type Door = Mutex<Option<SocketAddr>>;

/// So many of the first SKU.
fn wanted(buyer: usize) -> i64 {
    [1, 2, 3][buyer % 3]
}

#[test]
fn the_one_process_with_everything_inside_is_killed_and_comes_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let served = killed_in_the_middle(|| MarketProcess::start(dir.path(), &[]));
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn a_process_on_redis_and_mariadb_is_killed_and_comes_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let redis = ServerBuilder::redis().start().expect("redis-server");
    let database = TestDatabase::create().expect("MariaDB answers");
    let url = format!("redis://127.0.0.1:{}", redis.port());
    let served = killed_in_the_middle(|| {
        let variables = [("SEAWALL_DATABASE", database.url())];
        MarketProcess::start_with(dir.path(), &["--redis", &url, "--sms", "echo"], &variables)
    });
    let log = "SELECT CONCAT(COUNT(*), ' ', COUNT(DISTINCT o.user_id)) FROM orders o WHERE o.id > 1000; \
               SELECT COUNT(*) FROM inventory i JOIN (SELECT sku_id, SUM(delta) AS units FROM \
               inventory_log GROUP BY sku_id) l ON l.sku_id = i.sku_id WHERE i.num <> l.units";
    let said = database.query(log).expect("an answer");
    let lines: Vec<&str> = said.lines().collect();
    let (orders, buyers) = lines[0].split_once(' ').expect("two numbers");
    assert_eq!(orders, buyers, "one order a user");
    assert_eq!(lines[1], "0", "the log comes to what is on hand");
    assert_eq!(served.terminate(), Some(0));
}

/// Lets everybody buy from a process that is killed meanwhile, and checks what came of it.
fn killed_in_the_middle(start: impl Fn() -> MarketProcess + Sync) -> MarketProcess {
    let first = start();
    let tokens = crowd(&first, BUYERS);
    let before = on_hand(&mut first.client(), SCARCE);
    let door = Mutex::new(Some(first.address));
    let (told, served) = storm(&door, &tokens, || {
        let mut first = first;
        *door.lock().unwrap() = None;
        first.kill();
        let second = start();
        *door.lock().unwrap() = Some(second.address);
        second
    });
    check(&told, &tokens, &served, before);
    served
}

/// Everybody orders until there is an answer; `kill` is called once, in the middle of it.
fn storm(
    door: &Door,
    tokens: &[String],
    kill: impl FnOnce() -> MarketProcess + Send,
) -> (HashMap<String, Told>, MarketProcess) {
    let told = Mutex::new(HashMap::new());
    let placed = AtomicUsize::new(0);
    let (middle, reached) = mpsc::channel();
    let served = std::thread::scope(|scope| {
        let killer = scope.spawn(move || {
            reached.recv().expect("the middle is reached");
            kill()
        });
        for start in 0..AT_ONCE {
            let (told, placed, middle) = (&told, &placed, middle.clone());
            scope.spawn(move || {
                let mut buyer = Buyer { door, client: None };
                for (number, token) in tokens.iter().enumerate().skip(start).step_by(AT_ONCE) {
                    let answer = buyer.buy(number, token);
                    let order = matches!(answer, Told::Order(_));
                    told.lock().unwrap().insert(token.clone(), answer);
                    if order && placed.fetch_add(1, Ordering::SeqCst) + 1 == BEFORE {
                        middle.send(()).expect("somebody waits for it");
                    }
                }
            });
        }
        killer.join().expect("it came back")
    });
    (told.into_inner().unwrap(), served)
}

/// One connection at a time.
struct Buyer<'a> {
    door: &'a Door,
    client: Option<Http>,
}

impl Buyer<'_> {
    fn buy(&mut self, number: usize, token: &str) -> Told {
        // Said with a number that may be repeated, so that no lost answer counts twice.
        for (sku, count) in [(SKU, wanted(number)), (SCARCE, 1)] {
            let add = json!({ "skuId": sku, "count": 1 });
            self.ask("POST", "/cart", token, &add, "");
            self.ask("PUT", &format!("/cart/{sku}"), token, &json!({ "count": count }), "");
        }
        for attempt in 0.. {
            let quote = self.ask("POST", "/cart/checkout", token, &json!({}), "");
            assert_eq!(quote.0, 200, "{quote:?}");
            let body = json!({ "checkoutId": quote.2["checkoutId"] });
            let answer = self.ask("POST", "/order", token, &body, &format!("key-{attempt}"));
            match (answer.0, answer.1.as_str()) {
                (200, _) => return Told::Order(answer.2.as_str().expect("an id").to_owned()),
                (409, "SOLD_OUT") => return Told::SoldOut,
                (409, "CHECKOUT_EXPIRED") => assert!(attempt < 5, "no quote is taken"),
                _ => panic!("{answer:?}"),
            }
        }
        unreachable!("it returns")
    }

    /// Asks until there is an answer: status, code and data.
    fn ask(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        body: &serde_json::Value,
        key: &str,
    ) -> (u16, String, serde_json::Value) {
        let headers = [("idempotency-key", key)];
        let headers = if key.is_empty() { &headers[..0] } else { &headers[..] };
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "no answer in all this time");
            let Some(client) = self.client() else {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            match client.json_with(method, path, token, body, headers) {
                Err(_) => self.client = None,
                Ok(answer) if answer.status == 503 => {
                    assert!(answer.headers.contains_key("retry-after"));
                    std::thread::sleep(Duration::from_millis(20));
                }
                Ok(answer) => {
                    let code = answer.code().to_owned();
                    return (answer.status, code, answer.body["data"].clone());
                }
            }
        }
    }

    fn client(&mut self) -> Option<&mut Http> {
        if self.client.is_none() {
            let door = *self.door.lock().unwrap();
            self.client = Http::connect(door?).ok();
        }
        self.client.as_mut()
    }
}

/// Units of a SKU by the database.
fn on_hand(client: &mut Http, sku: &str) -> i64 {
    data(client.get(&format!("/inventory/{sku}"), ""))["num"].as_i64().expect("a number")
}

/// What everybody was told is true, and every unit is accounted for in both stores.
fn check(told: &HashMap<String, Told>, tokens: &[String], served: &MarketProcess, scarce: i64) {
    assert_eq!(told.len(), BUYERS, "everybody got an answer");
    let mut client = served.client();
    let (mut sold, mut orders) = (0, 0);
    for (number, token) in tokens.iter().enumerate() {
        let list = data(client.get("/order", token));
        let list = list.as_array().expect("a list");
        match &told[token] {
            Told::SoldOut => assert_eq!(list.len(), 0, "who was turned away has nothing: {list:?}"),
            Told::Order(order) => {
                assert_eq!(list.len(), 1, "one order: {list:?}");
                assert_eq!((&list[0]["id"], &list[0]["status"]), (&json!(order), &json!("UNPAID")));
                let items = list[0]["items"].as_array().expect("items");
                let count = |sku: &str| {
                    items.iter().find(|item| item["skuId"] == sku).map(|item| &item["count"])
                };
                assert_eq!(count(SKU), Some(&json!(wanted(number))));
                assert_eq!(count(SCARCE), Some(&json!(1)));
                sold += wanted(number);
                orders += 1;
            }
        }
    }
    for (sku, left) in [(SKU, UNITS - sold), (SCARCE, scarce - orders)] {
        eventually("both stores to be even", || {
            let levels = data(client.get(&format!("/inventory/{sku}"), ""));
            let total = |name: &str| levels["total"][name].as_i64().expect("a number");
            levels["num"] == left
                && (total("left"), total("held")) == (left, 0)
                && total("received") == total("sold") + left
        });
    }
    assert!(orders > 0 && orders <= scarce, "{orders} orders");
}
