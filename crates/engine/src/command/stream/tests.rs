//! What the log gets is enough: a twin that runs only the effects ends in the same state.

use std::sync::Arc;

use proptest::prelude::*;

use crate::effects;
use crate::{Core, ManualClock, Options, Peer, SessionId, Transport};

const NOW_MS: i64 = 1_700_000_000_000;

struct Host {
    core: Arc<Core>,
    session: SessionId,
}

impl Host {
    fn new() -> Host {
        let mut options = Options { logging: true, ..Options::default() };
        options.settings.stream_node_max_entries = 3;
        let core = Core::new(options, Arc::new(ManualClock::at_millis(NOW_MS)));
        let (addr, local_addr) = ("test".into(), "test".into());
        let session = core.open(Peer { addr, local_addr, transport: Transport::Local });
        Host { core, session }
    }

    fn run<'a>(&self, words: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend(word);
            request.extend(b"\r\n");
        }
        self.core.feed(self.session, &request);
        self.core.engine().take_output(self.session).expect("an open session")
    }

    fn run_line(&self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        String::from_utf8(self.run(words.into_iter())).expect("replies of these tests are text")
    }

    /// Runs the effects of `other` since the last call.
    fn follow(&self, other: &Host) {
        let mut log = Vec::new();
        other.core.engine().take_effects(&mut log);
        for operation in effects::operations(&log) {
            let operation = operation.expect("what was just encoded");
            let reply = self.run(operation.args());
            assert_ne!(reply.first(), Some(&b'-'), "{}", String::from_utf8_lossy(&reply));
        }
    }
}

fn command() -> impl Strategy<Value = String> {
    let id = (0u64..6, 0u64..4).prop_map(|(ms, seq)| format!("{ms}-{seq}"));
    let ids = prop::collection::vec(id.clone(), 1..4).prop_map(|ids| ids.join(" "));
    let member = (0u8..2, 0u8..3).prop_map(|(group, consumer)| {
        format!("{} {}", ["g", "h"][usize::from(group)], ["a", "b", "c"][usize::from(consumer)])
    });
    let trim = prop_oneof![
        4 => Just(String::new()),
        1 => (0u8..9).prop_map(|max| format!("MAXLEN ~ {max} ")),
        1 => (0u8..9).prop_map(|max| format!("MAXLEN {max} ")),
        1 => (id.clone(), 0u8..9).prop_map(|(id, n)| format!("MINID ~ {id} LIMIT {n} ")),
    ];
    let spec = prop_oneof![
        1 => Just("*".to_owned()),
        9 => id.clone(),
        9 => (0u64..6).prop_map(|ms| format!("{ms}-*")),
    ];
    let options = prop_oneof![
        Just(""),
        Just(" FORCE"),
        Just(" JUSTID"),
        Just(" FORCE RETRYCOUNT 7 IDLE 5"),
        Just(" LASTID 3-3"),
        Just(" FORCE JUSTID TIME 12345"),
    ];
    prop_oneof![
        8 => (trim.clone(), spec).prop_map(|(trim, id)| format!("XADD s {trim}{id} f v")),
        2 => ids.clone().prop_map(|ids| format!("XDEL s {ids}")),
        1 => trim.prop_map(|trim| format!("XTRIM s {}", trim.trim_end())),
        2 => (member.clone(), id.clone()).prop_map(|(member, id)| {
            format!("XGROUP CREATE s {} {id} MKSTREAM", &member[..1])
        }),
        1 => (member.clone(), id.clone()).prop_map(|(member, id)| {
            format!("XGROUP SETID s {} {id} ENTRIESREAD 2", &member[..1])
        }),
        1 => member.clone().prop_map(|member| format!("XGROUP DELCONSUMER s {member}")),
        6 => (member.clone(), 1u8..4).prop_map(|(member, count)| {
            format!("XREADGROUP GROUP {member} COUNT {count} STREAMS s >")
        }),
        1 => member.clone().prop_map(|member| format!("XREADGROUP GROUP {member} NOACK STREAMS s >")),
        2 => member.clone().prop_map(|member| format!("XREADGROUP GROUP {member} STREAMS s 0")),
        3 => (member.clone(), ids.clone()).prop_map(|(member, ids)| {
            format!("XACK s {} {ids}", &member[..1])
        }),
        3 => (member.clone(), ids, options).prop_map(|(member, ids, options)| {
            format!("XCLAIM s {member} 0 {ids}{options}")
        }),
        2 => (member, id.clone(), 1u8..4).prop_map(|(member, id, count)| {
            format!("XAUTOCLAIM s {member} 0 {id} COUNT {count}")
        }),
        1 => id.prop_map(|id| format!("XSETID s {id}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_replay_of_the_effects_gives_the_same_stream(
        commands in prop::collection::vec(command(), 1..80),
    ) {
        let (host, twin) = (Host::new(), Host::new());
        for command in &commands {
            host.run_line(command);
            twin.follow(&host);
            let (is, must) = (
                twin.run_line("XINFO STREAM s FULL COUNT 0"),
                host.run_line("XINFO STREAM s FULL COUNT 0"),
            );
            prop_assert_eq!(is, must, "after {}", command);
        }
    }
}
