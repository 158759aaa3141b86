//! Each rule of the fault proxy, shown with the plain client and a real `redis-server`.

use std::io;
use std::time::{Duration, Instant};

use seawall_testkit::proxy::{Direction, FaultProxy, On};
use seawall_testkit::{Client, Reply, ServerProcess};

/// Long enough for anything that is going to happen on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long nothing must happen.
const SILENCE: Duration = Duration::from_millis(150);

struct Stand {
    server: ServerProcess,
    proxy: FaultProxy,
}

impl Stand {
    fn new() -> Self {
        let server = ServerProcess::redis().unwrap();
        let proxy = FaultProxy::start(server.port()).unwrap().seeded(7);
        Self { server, proxy }
    }

    fn client(&self) -> Client {
        self.proxy.connect().unwrap()
    }

    /// What the server itself says, past the proxy.
    fn truth(&self, command: &[&str]) -> Reply {
        self.server.connect().unwrap().call(command).unwrap()
    }
}

fn assert_cut(outcome: &io::Result<Reply>) {
    let kind = outcome.as_ref().expect_err("a reply came through").kind();
    let ends = [io::ErrorKind::ConnectionReset, io::ErrorKind::UnexpectedEof];
    assert!(ends.contains(&kind), "{kind:?}");
}

fn eventually(what: &str, mut test: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !test() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn without_rules_everything_goes_through_and_is_counted() {
    let stand = Stand::new();
    let mut client = stand.client();
    let watch = stand.proxy.watch(On::command("GET").key_prefix("a"));
    let mut wire = Vec::new();
    for n in 0..1000 {
        wire.extend_from_slice(format!("*2\r\n$4\r\nINCR\r\n$2\r\nn{}\r\n", n % 2).as_bytes());
    }
    wire.extend_from_slice(b"GET a\r\nget b\r\n");
    client.send_raw(&wire).unwrap();
    for n in 0..1000 {
        assert_eq!(client.read().unwrap(), Reply::Int(n / 2 + 1));
    }
    assert!(client.read().unwrap().is_nil() && client.read().unwrap().is_nil());
    assert_eq!((stand.proxy.count("incr"), stand.proxy.count("GET"), watch.count()), (1000, 2, 1));
    assert_eq!((stand.proxy.connections(), stand.proxy.accepted()), (1, 1));
    let large = vec![b'x'; 5_000_000];
    assert_eq!(client.call(&[b"SET".as_slice(), b"large", &large]).unwrap().text(), "OK");
    assert_eq!(client.call(&["GET", "large"]).unwrap().as_bytes(), Some(large.as_slice()));
    assert_eq!(client.call(&["QUIT"]).unwrap().text(), "OK");
    assert_cut(&client.read());
    eventually("the link is gone", || stand.proxy.connections() == 0);
}

#[test]
fn a_lost_reply_leaves_the_command_done() {
    let stand = Stand::new();
    stand.proxy.drop_reply(On::command("SET").key_prefix("k").nth(2));
    let mut client = stand.client();
    for key in ["k1", "other", "k2", "k3"] {
        client.send(&["SET", key, "v"]).unwrap();
    }
    assert_eq!(client.read().unwrap().text(), "OK");
    assert_eq!(client.read().unwrap().text(), "OK");
    assert_cut(&client.read());
    assert_eq!(stand.truth(&["EXISTS", "k1", "other", "k2"]), Reply::Int(3));
    assert_eq!(stand.client().call(&["SET", "k4", "v"]).unwrap().text(), "OK");
}

#[test]
fn a_lost_request_never_arrives() {
    let stand = Stand::new();
    let rule = stand.proxy.drop_request(On::command("SET").key_prefix("k"));
    let mut client = stand.client();
    assert_eq!(client.call(&["SET", "other", "v"]).unwrap().text(), "OK");
    assert_cut(&client.call(&["SET", "k", "v"]));
    assert_eq!(stand.truth(&["EXISTS", "k"]), Reply::Int(0));
    assert_eq!(stand.proxy.count("SET"), 1);
    stand.proxy.remove(rule);
    assert_eq!(stand.client().call(&["SET", "k", "v"]).unwrap().text(), "OK");
}

#[test]
fn an_error_takes_the_place_of_the_reply_in_order() {
    let stand = Stand::new();
    stand.proxy.fail_with(On::command("GET").key_prefix("k").times(2), "-LOADING not yet");
    let mut client = stand.client();
    for command in [["GET", "k"], ["INCR", "n"], ["GET", "k"], ["INCR", "n"], ["GET", "k"]] {
        client.send(&command).unwrap();
    }
    let replies: Vec<String> = (0..5).map(|_| client.read().unwrap().to_string()).collect();
    assert_eq!(replies, ["-LOADING not yet", ":1", "-LOADING not yet", ":2", "nil"]);
    assert_eq!((stand.proxy.count("GET"), stand.proxy.count("INCR")), (1, 2));
}

#[test]
fn chances_come_from_the_seed() {
    let lost = |seed: u64| -> Vec<bool> {
        let server = ServerProcess::redis().unwrap();
        let proxy = FaultProxy::start(server.port()).unwrap().seeded(seed);
        proxy.fail_with(On::command("GET").probability(0.5), "ERR chance");
        let mut client = proxy.connect().unwrap();
        (0..64).map(|_| client.call(&["GET", "k"]).unwrap().is_error()).collect()
    };
    assert_eq!(lost(3), lost(3));
    assert_ne!(lost(3), lost(4));
}

#[test]
fn cutting_resets_everybody_also_those_who_block() {
    let stand = Stand::new();
    let mut idle = stand.client();
    let mut blocked = stand.client();
    idle.call(&["PING"]).unwrap();
    blocked.send(&["BLPOP", "queue", "0"]).unwrap();
    eventually("it blocks", || {
        stand.truth(&["INFO", "clients"]).text().contains("blocked_clients:1")
    });
    stand.proxy.cut_all();
    assert_eq!(stand.proxy.connections(), 0);
    assert_eq!(idle.read().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(blocked.read().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    eventually("the server noticed", || {
        stand.truth(&["INFO", "clients"]).text().contains("blocked_clients:0")
    });
    assert_eq!(stand.client().call(&["PING"]).unwrap().text(), "PONG");
}

#[test]
fn the_reply_of_a_blocking_command_can_be_lost() {
    let stand = Stand::new();
    stand.proxy.drop_reply(On::command("BLPOP"));
    let mut client = stand.client();
    client.send(&["BLPOP", "queue", "0"]).unwrap();
    eventually("it blocks", || {
        stand.truth(&["INFO", "clients"]).text().contains("blocked_clients:1")
    });
    stand.truth(&["RPUSH", "queue", "job"]);
    assert_cut(&client.read());
    assert_eq!(stand.truth(&["EXISTS", "queue"]), Reply::Int(0), "the job was taken and is lost");
}

#[test]
fn a_closed_door_refuses_and_opens_again() {
    let stand = Stand::new();
    let mut early = stand.client();
    early.call(&["PING"]).unwrap();
    stand.proxy.refuse();
    let refused = stand.proxy.connect().map(drop).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(early.call(&["PING"]).unwrap().text(), "PONG");
    stand.proxy.accept();
    assert_eq!(stand.client().call(&["PING"]).unwrap().text(), "PONG");
    stand.proxy.down();
    assert_cut(&early.read());
    assert!(stand.proxy.connect().is_err());
    stand.proxy.heal();
    assert_eq!(stand.client().call(&["PING"]).unwrap().text(), "PONG");
}

#[test]
fn a_server_that_is_away_looks_away() {
    let mut stand = Stand::new();
    stand.server.kill().unwrap();
    assert_cut(&stand.client().call(&["PING"]));
    stand.server.restart().unwrap();
    assert_eq!(stand.client().call(&["PING"]).unwrap().text(), "PONG");
}

#[test]
fn a_black_hole_takes_bytes_and_answers_nothing() {
    let stand = Stand::new();
    let mut old = stand.client();
    old.call(&["PING"]).unwrap();
    stand.proxy.black_hole();
    let mut new = stand.client();
    for client in [&mut old, &mut new] {
        client.send(&["INCR", "n"]).unwrap();
        assert_eq!(client.read_within(SILENCE).unwrap(), None);
    }
    stand.proxy.heal();
    assert_cut(&old.read());
    assert_cut(&new.read());
    assert_eq!(stand.truth(&["EXISTS", "n"]), Reply::Int(0));
    assert_eq!(stand.client().call(&["INCR", "n"]).unwrap(), Reply::Int(1));
}

#[test]
fn a_one_way_cut_lets_the_command_happen() {
    let stand = Stand::new();
    let mut client = stand.client();
    stand.proxy.cut_one_way(Direction::Replies);
    client.send(&["INCR", "n"]).unwrap();
    eventually("it arrives", || stand.truth(&["GET", "n"]).text() == "1");
    assert_eq!(client.read_within(SILENCE).unwrap(), None);
    stand.proxy.heal();
    assert_cut(&client.read());
}

#[test]
fn stalled_bytes_arrive_later() {
    let stand = Stand::new();
    let mut client = stand.client();
    stand.proxy.stall(Direction::Requests);
    client.send(&["INCR", "n"]).unwrap();
    assert_eq!(client.read_within(SILENCE).unwrap(), None);
    assert_eq!(stand.truth(&["EXISTS", "n"]), Reply::Int(0));
    stand.proxy.heal();
    assert_eq!(client.read().unwrap(), Reply::Int(1));
    stand.proxy.stall(Direction::Replies);
    client.send(&["INCR", "n"]).unwrap();
    eventually("it is done", || stand.truth(&["GET", "n"]).text() == "2");
    assert_eq!(client.read_within(SILENCE).unwrap(), None);
    stand.proxy.heal();
    assert_eq!(client.read().unwrap(), Reply::Int(2));
}

#[test]
fn what_is_held_holds_up_its_own_connection_only() {
    let stand = Stand::new();
    let (mut held, mut other) = (stand.client(), stand.client());
    let rule = stand.proxy.hold_request(On::command("INCR").once());
    held.send(&["PING"]).unwrap();
    held.send(&["INCR", "n"]).unwrap();
    held.send(&["GET", "n"]).unwrap();
    eventually("it is held", || stand.proxy.held() == 1);
    assert_eq!(held.read().unwrap().text(), "PONG", "what came before it went on");
    assert_eq!(held.read_within(SILENCE).unwrap(), None);
    assert_eq!(other.call(&["INCR", "n"]).unwrap(), Reply::Int(1));
    stand.proxy.remove(rule);
    assert_eq!(held.read().unwrap(), Reply::Int(2));
    assert_eq!(held.read().unwrap().text(), "2");

    stand.proxy.hold_reply(On::command("INCR").once());
    held.send(&["INCR", "n"]).unwrap();
    held.send(&["GET", "n"]).unwrap();
    eventually("its reply is held", || stand.proxy.held() == 1);
    assert_eq!(held.read_within(SILENCE).unwrap(), None);
    assert_eq!(other.call(&["INCR", "n"]).unwrap(), Reply::Int(4), "it was carried out");
    stand.proxy.heal();
    assert_eq!(held.read().unwrap(), Reply::Int(3));
    held.read().unwrap();
    assert_eq!(stand.proxy.held(), 0);
}

#[test]
fn a_delay_is_a_latency_and_not_a_lower_throughput() {
    let stand = Stand::new();
    let mut client = stand.client();
    let delay = Duration::from_millis(60);
    stand.proxy.delay(Direction::Requests, delay);
    stand.proxy.delay(Direction::Replies, delay);
    let started = Instant::now();
    for _ in 0..50 {
        client.send(&["PING"]).unwrap();
        // One packet each, so that a delay a packet would add up to three seconds.
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..50 {
        client.read().unwrap();
    }
    let took = started.elapsed();
    assert!(took >= delay * 2, "{took:?}");
    assert!(took < delay * 25, "{took:?}");
}

#[test]
fn pushes_are_swallowed_in_both_protocols_and_replies_are_not() {
    for protocol in ["2", "3"] {
        let stand = Stand::new();
        let mut client = stand.client();
        client.call(&["HELLO", protocol]).unwrap();
        client.send(&["SUBSCRIBE", "a", "b"]).unwrap();
        client.read().unwrap();
        client.read().unwrap();
        stand.proxy.drop_next_pushes("a", 1);
        for (channel, text) in [("a", "1"), ("b", "2"), ("a", "3")] {
            stand.truth(&["PUBLISH", channel, text]);
        }
        let texts: Vec<String> = (0..2).map(|_| client.read().unwrap().items()[2].text()).collect();
        assert_eq!(texts, ["2", "3"], "protocol {protocol}");
        assert_eq!(stand.proxy.lost_pushes(), 1);

        stand.proxy.drop_pushes(1.0);
        stand.truth(&["PUBLISH", "a", "lost"]);
        client.send(&["SUBSCRIBE", "c"]).unwrap();
        assert_eq!(client.read().unwrap().items()[1].text(), "c");
        client.send(&["UNSUBSCRIBE"]).unwrap();
        for _ in 0..3 {
            assert_eq!(client.read().unwrap().items()[0].text(), "unsubscribe");
        }
        // A list that looks like a message is none.
        stand.truth(&["RPUSH", "list", "message", "a", "x"]);
        assert_eq!(client.call(&["LRANGE", "list", "0", "-1"]).unwrap().items().len(), 3);
        // The replies still find their requests.
        stand.proxy.drop_reply(On::command("GET"));
        assert_eq!(client.call(&["PING"]).unwrap().text(), "PONG");
        assert_cut(&client.call(&["GET", "k"]));
    }
}

#[test]
fn invalidations_of_tracking_count_as_pushes() {
    let stand = Stand::new();
    let mut client = stand.client();
    client.call(&["HELLO", "3"]).unwrap();
    client.call(&["CLIENT", "TRACKING", "ON"]).unwrap();
    for (lost, key) in [(false, "a"), (true, "b")] {
        stand.proxy.drop_pushes(f64::from(u8::from(lost)));
        client.call(&["GET", key]).unwrap();
        stand.truth(&["SET", key, "v"]);
        if lost {
            eventually("it is swallowed", || stand.proxy.lost_pushes() == 1);
        } else {
            assert_eq!(client.read().unwrap().items()[0].text(), "invalidate");
        }
    }
    assert_eq!(client.call(&["GET", "b"]).unwrap().text(), "v");
}
