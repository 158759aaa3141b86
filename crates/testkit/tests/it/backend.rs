//! A stand of each backend answers where its URL says.

use std::time::{Duration, Instant};

use seawall_testkit::backend::{Backend, TestBackend};
use seawall_testkit::{Address, Client};

/// The first port that a URL names.
fn port(url: &str) -> u16 {
    let rest = url.split("127.0.0.1:").nth(1).unwrap();
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn a_shared_stand_answers() {
    for backend in Backend::all() {
        let stand = TestBackend::shared(backend).unwrap();
        assert_eq!(stand.backend(), backend);
        if backend == Backend::Embedded {
            assert_eq!(stand.url(), "embedded:");
            continue;
        }
        let mut client = Client::connect(&Address::Tcp(port(stand.url()))).unwrap();
        assert_eq!(client.call(&["PING"]).unwrap().text(), "PONG", "{backend}");
    }
}

#[test]
fn private_stands_start_quickly_and_hand_their_processes_out() {
    let started = Instant::now();
    let redis = TestBackend::private(Backend::Redis).unwrap();
    let sentinel = TestBackend::private(Backend::Sentinel).unwrap();
    let cluster = TestBackend::private(Backend::Cluster).unwrap();
    // About 1.5 s on two idle cores; a start that has to be tried again would show.
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert!(redis.server().is_some() && redis.cluster().is_none());
    assert_eq!(sentinel.sentinel().unwrap().servers().len(), 3);
    assert_eq!(cluster.cluster().unwrap().nodes().len(), 6);
}
