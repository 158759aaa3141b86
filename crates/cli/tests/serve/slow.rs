//! Thousands of clients that send their headers a byte at a time, and one that does not.

use std::{
    io::Write as _,
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::client::MarketProcess;

/// Connections that dribble; the service takes 8,192.
const SLOW: usize = 5_000;
/// Requests of the one in a hurry.
const REQUESTS: usize = 200;
/// Far more than any of them takes, on a machine that does other things as well.
const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn five_thousand_slow_connections_do_not_stop_the_others() {
    let dir = tempfile::tempdir().expect("a folder");
    let served = MarketProcess::start(dir.path(), &[]);
    let mut slow: Vec<TcpStream> = (0..SLOW)
        .map(|number| {
            let mut stream = TcpStream::connect(served.address)
                .unwrap_or_else(|error| panic!("connection {number}: {error}"));
            stream.write_all(b"GET /shop/1 HTTP/1.1\r\nx-slow: ").expect("taken");
            stream
        })
        .collect();
    let mut client = served.client();
    let mut longest = Duration::ZERO;
    for round in 0..REQUESTS {
        // Each of them goes on a little, all the time.
        for stream in slow.iter_mut().skip(round % 10).step_by(10) {
            // Who was cut off for being slow is no harm.
            let _ = stream.write_all(b"x");
        }
        let began = Instant::now();
        let answer = client.get("/shop/1", "").expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        longest = longest.max(began.elapsed());
    }
    assert!(longest < LIMIT, "one request took {longest:?}");
    let token = client.log_in("10000000001");
    assert_eq!(client.post("/voucher-order/seckill/1", &token).expect("an answer").status, 200);
    drop(slow);
    assert_eq!(served.terminate(), Some(0));
}
