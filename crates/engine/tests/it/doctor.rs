//! MEMORY DOCTOR looks before it speaks.

use std::sync::Arc;

use seawall_engine::{Core, ManualClock, Options, Peer, Transport};

#[test]
fn it_tells_a_full_memory_from_a_healthy_one() {
    let core = Core::new(Options::default(), Arc::new(ManualClock::at_millis(1_700_000_000_000)));
    let peer = Peer { addr: "a".into(), local_addr: "b".into(), transport: Transport::Local };
    let session = core.open(peer);
    let ask = |request: &str| {
        core.feed(session, format!("{request}\r\n").as_bytes());
        let output = core.engine().take_output(session).expect("it is open");
        String::from_utf8(output).expect("replies here are text")
    };
    assert!(ask("MEMORY DOCTOR").contains("Nothing looks wrong"));
    ask("CONFIG SET maxmemory 1");
    assert!(ask("MEMORY DOCTOR").contains("nine tenths of maxmemory"));
}
