//! A flash sale in which something is killed in the middle: exactly what there is is sold, one for each
//! user, and every answer that anybody got is true afterwards.
//!
//! The oracle is what the clients saw. Everybody asks until there is an answer; a reply that was lost
//! with its process is asked for again, and the answer then names the order that there is.

use std::{
    collections::HashMap,
    fs,
    net::SocketAddr,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use seawall_testkit::{Address, Client, Reply, ServerBuilder, ServerProcess, TestDatabase};
use tempfile::TempDir;

use crate::client::{Http, MarketProcess, PATIENCE, crowd};

/// Users who buy, and vouchers that there are.
const BUYERS: usize = 1_000;
const VOUCHERS: usize = 100;
/// Connections that buy at the same time.
const AT_ONCE: usize = 16;
/// Sales that are answered before something is killed.
const BEFORE: usize = 25;

/// What one user was told in the end.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// This order is theirs.
    Order(String),
    SoldOut,
}

/// Where buyers can go at the moment.
type Doors<'a> = &'a Mutex<Vec<SocketAddr>>;

#[test]
fn one_of_two_instances_is_killed() {
    let redis = durable_redis();
    let database = TestDatabase::create().expect("MariaDB answers");
    let (one, other) = (Instance::new(), Instance::new());
    let mut killed = one.serve(&redis, &database);
    let stays = other.serve(&redis, &database);
    let tokens = crowd(&stays, BUYERS);
    let doors = Mutex::new(vec![killed.address, stays.address]);
    let told = storm(&doors, &tokens, || {
        // Whoever was there goes to the other one.
        doors.lock().unwrap().remove(0);
        killed.kill();
    });
    check(&told, &stays, &redis.address());
    check_rows(&database);
    assert_eq!(stays.terminate(), Some(0));
}

#[test]
fn redis_is_killed_and_comes_back() {
    let mut redis = durable_redis();
    let (address, url) = (redis.address(), redis_url(&redis));
    let database = TestDatabase::create().expect("MariaDB answers");
    let (one, other) = (Instance::new(), Instance::new());
    let served = [one.serve_at(&url, &database), other.serve_at(&url, &database)];
    let tokens = crowd(&served[0], BUYERS);
    let doors = Mutex::new(served.iter().map(|served| served.address).collect());
    let told = storm(&doors, &tokens, || {
        redis.kill().expect("it ran");
        redis.restart().expect("it comes back");
    });
    check(&told, &served[0], &address);
    check_rows(&database);
    for served in served {
        assert_eq!(served.terminate(), Some(0));
    }
}

/// A Redis that comes back without its last writes, as after a crash of the machine: what the database
/// has sold is not sold once more.
#[test]
fn redis_comes_back_without_its_last_orders() {
    let mut redis = durable_redis();
    let (log, kept) = (redis.dir().join("appendonlydir"), redis.dir().join("kept"));
    let (address, url) = (redis.address(), redis_url(&redis));
    let database = TestDatabase::create().expect("MariaDB answers");
    let (one, other) = (Instance::new(), Instance::new());
    let served = [one.serve_at(&url, &database), other.serve_at(&url, &database)];
    let tokens = crowd(&served[0], BUYERS);
    let doors = Mutex::new(served.iter().map(|served| served.address).collect());
    let (first, later) = tokens.split_at(30);
    let (forgotten, later) = later.split_at(30);
    let buy = |tokens| {
        let told = storm(&doors, tokens, || ());
        all_stand(&told, &served[0]);
        told
    };
    let mut told = buy(first);
    fs::create_dir(&kept).expect("a folder");
    for file in fs::read_dir(&log).expect("its log") {
        let file = file.expect("a file");
        fs::copy(file.path(), kept.join(file.file_name())).expect("copied");
    }
    told.extend(buy(forgotten));
    redis.kill().expect("it ran");
    fs::remove_dir_all(&log).expect("removed");
    fs::rename(&kept, &log).expect("put back");
    redis.restart().expect("it comes back");
    told.extend(storm(&doors, later, || ()));
    check(&told, &served[0], &address);
    check_rows(&database);
    for served in served {
        assert_eq!(served.terminate(), Some(0));
    }
}

#[test]
fn the_one_process_with_everything_inside_is_killed_and_comes_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut served = MarketProcess::start(dir.path(), &[]);
    let tokens = crowd(&served, BUYERS);
    let doors = Mutex::new(vec![served.address]);
    let told = storm(&doors, &tokens, || {
        doors.lock().unwrap().clear();
        served.kill();
        served = MarketProcess::start(dir.path(), &[]);
        doors.lock().unwrap().push(served.address);
    });
    check(&told, &served, &Address::Unix(dir.path().join("engine.sock")));
    assert_eq!(served.terminate(), Some(0));
}

/// A Redis that has on disk what it has answered.
fn durable_redis() -> ServerProcess {
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    ServerBuilder::redis().args(args).start().expect("redis-server")
}

fn redis_url(redis: &ServerProcess) -> String {
    format!("redis://127.0.0.1:{}", redis.port())
}

/// One process of a fleet, by its folder.
struct Instance(TempDir);

impl Instance {
    fn new() -> Self {
        Instance(tempfile::tempdir().expect("a folder"))
    }

    fn serve(&self, redis: &ServerProcess, database: &TestDatabase) -> MarketProcess {
        self.serve_at(&redis_url(redis), database)
    }

    fn serve_at(&self, redis: &str, database: &TestDatabase) -> MarketProcess {
        let path: &Path = self.0.path();
        let variables = [("SEAWALL_DATABASE", database.url())];
        MarketProcess::start_with(path, &["--redis", redis, "--sms", "echo"], &variables)
    }
}

/// Everybody buys until there is an answer; `kill` is called once, in the middle of it.
fn storm(doors: Doors<'_>, tokens: &[String], kill: impl FnOnce() + Send) -> HashMap<String, Told> {
    let told = Mutex::new(HashMap::new());
    let won = AtomicUsize::new(0);
    let (middle, reached) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            reached.recv().expect("the middle is reached");
            kill();
        });
        for start in 0..AT_ONCE {
            let (told, won, middle) = (&told, &won, middle.clone());
            scope.spawn(move || {
                let mut buyer = Buyer { doors, start, client: None };
                for token in tokens.iter().skip(start).step_by(AT_ONCE) {
                    let answer = buyer.buy(token);
                    let order = matches!(answer, Told::Order(_));
                    assert!(told.lock().unwrap().insert(token.clone(), answer).is_none());
                    if order && won.fetch_add(1, Ordering::SeqCst) + 1 == BEFORE {
                        middle.send(()).expect("somebody waits for it");
                    }
                }
            });
        }
    });
    told.into_inner().unwrap()
}

/// One connection at a time, to whatever door is open.
struct Buyer<'a> {
    doors: Doors<'a>,
    start: usize,
    client: Option<Http>,
}

impl Buyer<'_> {
    fn buy(&mut self, token: &str) -> Told {
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "no answer in all this time");
            let Some(client) = self.client() else {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            let Ok(answer) = client.post("/voucher-order/seckill/1", token) else {
                self.client = None;
                continue;
            };
            match (answer.status, answer.code()) {
                // A duplicate names the order whose reply was lost.
                (200, _) | (409, "DUPLICATE_ORDER") => return Told::Order(answer.text()),
                (409, "SOLD_OUT") => return Told::SoldOut,
                // Redis' answer was lost: whoever buys again cannot buy twice.
                (202, "ORDER_UNDECIDED") => std::thread::sleep(Duration::from_millis(20)),
                (503, _) => {
                    assert!(answer.headers.contains_key("retry-after"));
                    std::thread::sleep(Duration::from_millis(20));
                }
                _ => panic!("{answer:?}"),
            }
        }
    }

    fn client(&mut self) -> Option<&mut Http> {
        if self.client.is_none() {
            let doors = self.doors.lock().unwrap().clone();
            let door = doors.get(self.start % doors.len().max(1))?;
            self.client = Http::connect(*door).ok();
        }
        self.client.as_mut()
    }
}

/// What everybody was told is true, and both stores come out even.
fn check(told: &HashMap<String, Told>, served: &MarketProcess, redis: &Address) {
    assert_eq!(told.len(), BUYERS, "everybody got an answer");
    let mut client = served.client();
    let mut orders = all_stand(told, served);
    orders.sort_unstable();
    orders.dedup();
    assert_eq!(orders.len(), VOUCHERS, "sold exactly; whoever heard SOLD_OUT was told the truth");
    // Nobody who was turned away has an order after all.
    for (token, _) in told.iter().filter(|(_, answer)| **answer == Told::SoldOut).take(200) {
        let list = client.get("/voucher-order", token).expect("an answer");
        assert_eq!(list.body["data"], serde_json::json!([]));
    }
    assert_eq!(client.stock("1"), 0, "the database");
    let mut redis = Client::connect(redis).expect("it listens");
    let mut ask = |words: &[&str]| redis.call(words).expect("a reply");
    assert_eq!(ask(&["HGET", "sale:{1}:1", "left"]).text(), "0", "Redis");
    let deadline = Instant::now() + PATIENCE;
    while ask(&["EXISTS", "sale:{1}:waiting"]) != Reply::Int(0) {
        assert!(Instant::now() < deadline, "something waits for ever");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Every order that anybody was told of stands in the database.
fn all_stand(told: &HashMap<String, Told>, served: &MarketProcess) -> Vec<String> {
    let mut client = served.client();
    let mut orders = Vec::new();
    for (token, answer) in told {
        if let Told::Order(order) = answer {
            assert_eq!(client.settled(order, token), "UNPAID", "what was answered is true");
            orders.push(order.clone());
        }
    }
    orders
}

/// The rows themselves: so many orders, one a user, and nothing besides.
fn check_rows(database: &TestDatabase) {
    let counts = "SELECT CONCAT(COUNT(*), ' ', COUNT(DISTINCT user_id), ' ', SUM(live)) \
                  FROM voucher_order WHERE voucher_id = 1";
    let counts = database.query(counts).expect("an answer");
    assert_eq!(counts.trim(), format!("{VOUCHERS} {VOUCHERS} {VOUCHERS}"));
}
