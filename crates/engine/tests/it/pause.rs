//! What a pause of the clients holds back.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{Core, ManualClock, Options, Peer, SessionId, Transport};

struct Client {
    core: Arc<Core>,
    session: SessionId,
}

impl Client {
    fn new(core: &Arc<Core>) -> Client {
        let peer = Peer { addr: "a".into(), local_addr: "b".into(), transport: Transport::Local };
        Client { core: Arc::clone(core), session: core.open(peer) }
    }

    fn say(&self, request: &str) -> String {
        self.core.feed(self.session, format!("{request}\r\n").as_bytes());
        self.hear()
    }

    fn hear(&self) -> String {
        let output = self.core.engine().take_output(self.session).expect("it is open");
        String::from_utf8(output).expect("replies here are text")
    }
}

fn start() -> (Arc<ManualClock>, Arc<Core>) {
    let clock = Arc::new(ManualClock::at_millis(1_700_000_000_000));
    let core = Core::new(Options::default(), clock.clone());
    (clock, core)
}

#[test]
fn due_keys_are_missing_but_stay_until_the_pause_ends() {
    let (clock, core) = start();
    let client = Client::new(&core);
    client.say("SET k v PX 100");
    client.say("CLIENT PAUSE 10000 WRITE");
    clock.advance(Duration::from_millis(500));
    core.tick();
    assert_eq!(client.say("GET k"), "$-1\r\n");
    assert!(client.say("INFO stats").contains("expired_keys:0\r\n"));
    assert_eq!(client.say("DBSIZE"), ":1\r\n");
    client.say("CLIENT UNPAUSE");
    assert_eq!(client.say("GET k"), "$-1\r\n");
    assert!(client.say("INFO stats").contains("expired_keys:1\r\n"));
    assert_eq!(client.say("DBSIZE"), ":0\r\n");
}

#[test]
fn writes_wait_for_the_end_of_the_pause_in_their_order() {
    let (clock, core) = start();
    let (first, second) = (Client::new(&core), Client::new(&core));
    first.say("CLIENT PAUSE 1000 WRITE");
    assert_eq!(first.say("RPUSH l a"), "");
    assert_eq!(second.say("RPUSH l b\r\nPING"), "");
    assert_eq!(Client::new(&core).say("LLEN l"), ":0\r\n");
    clock.advance(Duration::from_millis(1000));
    core.tick();
    assert_eq!(first.hear(), ":1\r\n");
    assert_eq!(second.hear(), ":2\r\n+PONG\r\n");
    assert_eq!(first.say("LINDEX l 0"), "$1\r\na\r\n");
}
