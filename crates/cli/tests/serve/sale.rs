//! A flash sale over real HTTP.

use std::{net::SocketAddr, path::Path, sync::Mutex};

use seawall_testkit::{Address, Client};

use crate::client::{Answer, Http, MarketProcess, crowd};

/// Connections that buy at the same time.
const BUYERS_AT_ONCE: usize = 16;

#[test]
fn a_thousand_buyers_over_http_get_exactly_a_hundred() {
    let dir = tempfile::tempdir().expect("a folder");
    let served = MarketProcess::start(dir.path(), &[]);
    let tokens = crowd(&served, 1000);
    let answers = buy(served.address, &tokens);
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

/// Everybody buys; who gets no answer is left out.
fn buy(address: SocketAddr, tokens: &[String]) -> Vec<(String, Answer)> {
    let answers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for start in 0..BUYERS_AT_ONCE {
            let answers = &answers;
            scope.spawn(move || {
                let Ok(mut client) = Http::connect(address) else { return };
                for token in tokens.iter().skip(start).step_by(BUYERS_AT_ONCE) {
                    let Ok(answer) = client.post("/voucher-order/seckill/1", token) else { return };
                    answers.lock().unwrap().push((token.clone(), answer));
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
