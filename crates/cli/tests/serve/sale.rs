//! A flash sale over real HTTP, and with the process killed in the middle of it.

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use seawall_testkit::{Address, Client, ServerProcess};

use crate::client::{Answer, Http, Served, crowd};

/// Connections that buy at the same time.
const BUYERS_AT_ONCE: usize = 16;

#[test]
fn a_thousand_buyers_over_http_get_exactly_a_hundred() {
    let dir = tempfile::tempdir().expect("a folder");
    let served = Served::start(dir.path(), &[]);
    let tokens = crowd(&served, 1000);
    let answers = buy(served.address, &tokens, || ());
    let won: Vec<_> = answers.iter().filter(|(_, answer)| answer.status == 200).collect();
    assert_eq!((answers.len(), won.len()), (1000, 100));
    for (_, lost) in answers.iter().filter(|(_, answer)| answer.status != 200) {
        assert_eq!((lost.status, lost.code()), (409, "SOLD_OUT"));
    }
    let mut client = served.client();
    for (token, answer) in won {
        assert_eq!(client.settled(&answer.text(), token), "UNPAID");
    }
    assert_eq!(client.stock("1"), 0, "the database");
    assert_eq!(redis_stock(&engine(dir.path())), "0", "Redis");
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn killed_in_the_middle_of_a_sale_with_the_engine_inside() {
    let dir = tempfile::tempdir().expect("a folder");
    let engine = engine(dir.path());
    killed_in_the_middle(dir.path(), &[], &engine);
}

#[test]
fn killed_in_the_middle_of_a_sale_on_redis() {
    let dir = tempfile::tempdir().expect("a folder");
    let redis = ServerProcess::redis().expect("redis-server");
    let url = format!("redis://127.0.0.1:{}", redis.port());
    killed_in_the_middle(dir.path(), &["--redis", &url, "--sms", "echo"], &redis.address());
}

/// Everything a client was told before a kill is true after it, and the sale still comes out even.
fn killed_in_the_middle(data: &Path, args: &[&str], redis: &Address) {
    // Sales that are answered before each kill. Each kill loses at most one reply a connection, so
    // that there is still something to sell before the last.
    const KILLS: [usize; 3] = [20, 10, 15];
    let mut served = Served::start(data, args);
    let tokens = crowd(&served, 300);
    let mut told: HashMap<String, String> = HashMap::new();
    for wins_before_kill in KILLS {
        let left: Vec<_> =
            tokens.iter().filter(|token| !told.contains_key(*token)).cloned().collect();
        let wins = AtomicUsize::new(0);
        let address = served.address;
        let process = Mutex::new(served);
        let answers = buy(address, &left, || {
            if wins.fetch_add(1, Ordering::SeqCst) + 1 == wins_before_kill {
                process.lock().unwrap().kill();
            }
        });
        assert!(wins.into_inner() >= wins_before_kill, "it was killed while it sold");
        remember(&mut told, &answers);
        served = Served::start(data, args);
        let mut client = served.client();
        for (token, order) in &told {
            assert_eq!(client.settled(order, token), "UNPAID", "what was answered is true");
        }
    }
    let left: Vec<_> = tokens.iter().filter(|token| !told.contains_key(*token)).cloned().collect();
    remember(&mut told, &buy(served.address, &left, || ()));
    let mut client = served.client();
    for (token, order) in &told {
        assert_eq!(client.settled(order, token), "UNPAID");
    }
    assert_eq!(told.len(), 100, "sold exactly, one for each");
    assert_eq!((client.stock("1"), redis_stock(redis)), (0, "0".to_owned()));
    assert_eq!(served.terminate(), Some(0));
}

/// Notes each order that a client was told of: its own, or the one that was there before a reply
/// was lost.
fn remember(told: &mut HashMap<String, String>, answers: &[(String, Answer)]) {
    for (token, answer) in answers {
        match (answer.status, answer.code()) {
            (200, _) | (409, "DUPLICATE_ORDER") => {
                told.insert(token.clone(), answer.text());
            }
            (409, "SOLD_OUT") => {}
            _ => panic!("{answer:?}"),
        }
    }
}

/// Everybody buys; who gets no answer is left out.
fn buy(address: SocketAddr, tokens: &[String], won: impl Fn() + Sync) -> Vec<(String, Answer)> {
    let answers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for start in 0..BUYERS_AT_ONCE {
            let (answers, won) = (&answers, &won);
            scope.spawn(move || {
                let Ok(mut client) = Http::connect(address) else { return };
                for token in tokens.iter().skip(start).step_by(BUYERS_AT_ONCE) {
                    let Ok(answer) = client.post("/voucher-order/seckill/1", token) else { return };
                    let sold = answer.status == 200;
                    answers.lock().unwrap().push((token.clone(), answer));
                    if sold {
                        won();
                    }
                }
            });
        }
    });
    answers.into_inner().unwrap()
}

fn engine(data: &Path) -> Address {
    Address::Unix(data.join("engine.sock"))
}

fn redis_stock(address: &Address) -> String {
    let mut client = Client::connect(address).expect("the engine listens for tools");
    client.call(&["HGET", "sale:{1}:1", "left"]).expect("a reply").text()
}
