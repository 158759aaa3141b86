//! Who is ended when all clients together hold too much.

use std::sync::Arc;

use seawall_engine::{Core, ManualClock, Options, Peer, SessionId, Transport};

const MB: usize = 1 << 20;

fn open(core: &Arc<Core>) -> SessionId {
    let peer = Peer { addr: "a".into(), local_addr: "b".into(), transport: Transport::Local };
    core.open(peer)
}

fn evicted(core: &Arc<Core>, client: SessionId) -> String {
    core.feed(client, b"INFO stats\r\n");
    let output = core.engine().take_output(client).expect("it is open");
    let text = String::from_utf8(output).expect("text");
    text.lines().find_map(|line| line.strip_prefix("evicted_clients:")).expect("told").to_owned()
}

/// What a client that is being ended still holds in the host is not charged to the next one.
#[test]
fn nobody_pays_for_who_is_being_ended() {
    let clock = Arc::new(ManualClock::at_millis(1_700_000_000_000));
    let core = Core::new(Options::default(), clock);
    let [greedy, modest, other] = [open(&core), open(&core), open(&core)];
    core.feed(other, b"CONFIG SET maxmemory-clients 100mb\r\n");
    core.engine().set_unsent(greedy, 60 * MB);
    core.engine().set_unsent(modest, 45 * MB);
    core.feed(other, b"PING\r\n");
    assert_eq!(evicted(&core, other), "1", "the one that holds most");
    for _ in 0..3 {
        core.feed(other, b"PING\r\n");
    }
    assert_eq!(evicted(&core, other), "1", "the host has not dropped it yet");
    core.feed(modest, b"PING\r\n");
    assert!(core.engine().take_output(modest).is_some_and(|output| output.ends_with(b"+PONG\r\n")));
}
