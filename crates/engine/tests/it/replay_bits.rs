//! What the log gets is enough: a twin that runs only the effects of random bitmap, HyperLogLog and
//! SORT commands ends with the same bytes under every key.

use std::sync::Arc;

use proptest::prelude::*;
use seawall_engine::{Core, ManualClock, Options, Peer, SessionId, Transport, effects};

const KEYS: [&str; 4] = ["a", "b", "c", "l"];

struct Host {
    core: Arc<Core>,
    session: SessionId,
}

impl Host {
    fn new(seed: u64) -> Self {
        let options = Options { logging: true, seed, ..Options::default() };
        let core = Core::new(options, Arc::new(ManualClock::at_millis(1_700_000_000_000)));
        let peer = Peer { addr: "t".into(), local_addr: "t".into(), transport: Transport::Local };
        let session = core.open(peer);
        Self { core, session }
    }

    fn run(&self, words: &[&[u8]]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend_from_slice(word);
            request.extend(b"\r\n");
        }
        self.core.feed(self.session, &request);
        self.core.engine().take_output(self.session).expect("an open session")
    }

    fn follow(&self, other: &Self) {
        let mut log = Vec::new();
        other.core.engine().take_effects(&mut log);
        for operation in effects::operations(&log) {
            let operation = operation.expect("what was just encoded");
            let words: Vec<&[u8]> = operation.args().collect();
            let reply = self.run(&words);
            assert_ne!(reply.first(), Some(&b'-'), "{}", String::from_utf8_lossy(&reply));
        }
    }

    fn state(&self) -> Vec<Vec<u8>> {
        let strings = KEYS.iter().map(|key| self.run(&[b"GET", key.as_bytes()]));
        strings.chain([self.run(&[b"LRANGE", b"l", b"0", b"-1"])]).collect()
    }
}

fn command() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let key = prop::sample::select(KEYS.to_vec());
    let words = |line: String| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let plain = prop_oneof![
        4 => (key.clone(), 0..200, 0..2).prop_map(|(k, o, b)| format!("SETBIT {k} {o} {b}")),
        2 => (key.clone(), key.clone(), key.clone()).prop_map(|(d, a, b)| format!("BITOP XOR {d} {a} {b}")),
        1 => (key.clone(), key.clone()).prop_map(|(d, a)| format!("BITOP NOT {d} {a}")),
        3 => (key.clone(), 0..100, -300..300)
            .prop_map(|(k, o, v)| format!("BITFIELD {k} OVERFLOW FAIL INCRBY i5 {o} {v} SET u9 #3 {v}")),
        4 => (key.clone(), 0..50, 0..50).prop_map(|(k, a, b)| format!("PFADD {k} {a} {b}")),
        2 => key.clone().prop_map(|k| format!("PFCOUNT {k}")),
        2 => (key.clone(), key.clone()).prop_map(|(d, s)| format!("PFMERGE {d} {s}")),
        1 => key.clone().prop_map(|k| format!("PFDEBUG TODENSE {k}")),
        2 => prop::collection::vec(0..9, 1..5).prop_map(|v| {
            let members: Vec<String> = v.iter().map(i32::to_string).collect();
            format!("SADD set {}", members.join(" "))
        }),
        2 => Just("SORT set STORE l DESC".to_owned()),
        1 => Just("SORT set BY none_* ALPHA GET # GET a STORE l".to_owned()),
        1 => key.clone().prop_map(|k| format!("DEL {k}")),
    ];
    prop_oneof![
        9 => plain.prop_map(words),
        // A sketch whose runs may or may not add up.
        1 => (key, prop::collection::vec(any::<u8>(), 0..6)).prop_map(|(k, runs)| {
            let sketch = [b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80".as_slice(), &runs].concat();
            vec![b"SET".to_vec(), k.as_bytes().to_vec(), sketch]
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_replay_of_the_effects_gives_the_same_strings(
        commands in prop::collection::vec(command(), 1..60),
    ) {
        let (live, twin) = (Host::new(1), Host::new(2));
        for command in &commands {
            live.run(&command.iter().map(Vec::as_slice).collect::<Vec<_>>());
            twin.follow(&live);
        }
        prop_assert_eq!(live.state(), twin.state());
    }
}
