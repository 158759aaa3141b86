//! However input is cut into pieces, the output is the same, and nothing makes the engine panic.

use std::sync::Arc;

use proptest::prelude::*;
use seawall_engine::{Core, ManualClock, Options, Peer, Transport};

/// Everything the engine answers to these pieces, and whether it wants to close the session.
fn run(pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let core = Core::new(Options::default(), Arc::new(ManualClock::at_millis(1_000_000)));
    let peer = Peer {
        addr: "127.0.0.1:1".into(),
        local_addr: "127.0.0.1:2".into(),
        transport: Transport::Tcp,
    };
    let session = core.open(peer);
    for piece in pieces {
        core.feed(session, piece);
    }
    let mut engine = core.engine();
    let output = engine.take_output(session).expect("the session is open");
    (output, engine.wants_close(session))
}

/// Cuts `bytes` at the places that `cuts` point to.
fn cut<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut from = 0;
    for place in places {
        pieces.push(&bytes[from..place]);
        from = place;
    }
    pieces.push(&bytes[from..]);
    pieces
}

fn word() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"a".to_vec()),
        Just(b"b".to_vec()),
        Just(b"1".to_vec()),
        prop::collection::vec(any::<u8>(), 0..40),
    ]
}

const NAMES: [&str; 10] =
    ["GET", "SET", "APPEND", "INCR", "LPUSH", "LRANGE", "DEL", "ECHO", "PING", "nope"];

/// A well-formed request, not always a sensible one.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::sample::select(&NAMES[..]);
    (name, prop::collection::vec(word(), 0..4)).prop_map(|(name, args)| {
        let head = format!("*{}\r\n${}\r\n{name}\r\n", args.len() + 1, name.len());
        let mut out = head.into_bytes();
        for arg in args {
            out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            out.extend_from_slice(&arg);
            out.extend_from_slice(b"\r\n");
        }
        out
    })
}

/// Something that may or may not be a request.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => request(),
        2 => "(PING|GET a|SET a 'b c'|ECHO \"x\\\\x41\"|set a \"q)\r?\n".prop_map(String::into_bytes),
        1 => "[*$:+-]{1,2}[0-9-]{0,12}\r\n".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..30),
        1 => Just(b"\r\n".to_vec()),
    ]
}

proptest! {
    #[test]
    fn requests_may_be_cut_anywhere(
        fragments in prop::collection::vec(fragment(), 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let bytes = fragments.concat();
        prop_assert_eq!(run(&cut(&bytes, &cuts)), run(&[&bytes]));
    }

    #[test]
    fn any_bytes_may_be_cut_anywhere(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        prop_assert_eq!(run(&cut(&bytes, &cuts)), run(&[&bytes]));
    }

    #[test]
    fn single_bytes_give_the_same(fragments in prop::collection::vec(fragment(), 0..6)) {
        let bytes = fragments.concat();
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(run(&pieces), run(&[&bytes]));
    }
}

/// Arguments of which some are large enough for a buffer of their own.
fn large_word() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => word(),
        1 => (any::<u8>(), 60_000..140_000usize).prop_map(|(byte, size)| vec![byte; size]),
    ]
}

/// A command on two keys, with arguments of any size.
fn large_request() -> impl Strategy<Value = Vec<u8>> {
    let key = prop::sample::select(&["a", "b"][..]);
    let name = prop::sample::select(&["SET", "APPEND", "GETSET", "MSET"][..]);
    (name, key, large_word(), large_word()).prop_map(|(name, key, value, other)| {
        let mut args = vec![name.as_bytes().to_vec(), key.as_bytes().to_vec(), value];
        if name == "MSET" {
            args.extend([b"c".to_vec(), other]);
        }
        let mut out = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            out.extend_from_slice(&arg);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"GET a\r\nGETRANGE b 1 -2\r\nMGET c a\r\n");
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn large_arguments_may_be_cut_anywhere(
        requests in prop::collection::vec(large_request(), 1..5),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let bytes = requests.concat();
        let (cut_up, whole) = (run(&cut(&bytes, &cuts)), run(&[&bytes]));
        prop_assert!(cut_up == whole, "{} and {} bytes", cut_up.0.len(), whole.0.len());
    }
}
