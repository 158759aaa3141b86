//! Client-side caching, seen from several sessions: who is told what, and in which place among the
//! replies.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::{Core, ManualClock, Options, Peer, SessionId, Transport};

struct Host {
    core: Arc<Core>,
    clock: Arc<ManualClock>,
}

struct Client<'a> {
    host: &'a Host,
    id: SessionId,
}

impl Host {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at_millis(1_700_000_000_000));
        Self { core: Core::new(Options::default(), clock.clone()), clock }
    }

    fn client(&self) -> Client<'_> {
        let peer = Peer { addr: "t".into(), local_addr: "t".into(), transport: Transport::Local };
        Client { host: self, id: self.core.open(peer) }
    }

    /// A client that speaks RESP3.
    fn modern(&self) -> Client<'_> {
        let client = self.client();
        client.run("HELLO 3");
        client
    }
}

impl Client<'_> {
    /// Sends lines and returns everything that came back, line ends as spaces.
    fn run(&self, lines: &str) -> String {
        self.host.core.feed(self.id, format!("{}\r\n", lines.replace('\n', "\r\n")).as_bytes());
        self.heard()
    }

    fn heard(&self) -> String {
        let mut engine = self.host.core.engine();
        let output = engine.take_output(self.id).expect("an open session");
        String::from_utf8(output).expect("text").replace("\r\n", " ").trim().to_owned()
    }
}

fn invalid(key: &str) -> String {
    format!(">2 $10 invalidate *1 ${} {key}", key.len())
}

#[test]
fn a_reader_is_told_once() {
    let host = Host::new();
    let (reader, writer) = (host.modern(), host.client());
    reader.run("CLIENT TRACKING ON");
    reader.run("GET k");
    writer.run("SET k 1\nSET k 2\nSET other 3");
    assert_eq!(reader.heard(), invalid("k"));
    reader.run("GET k");
    writer.run("DEL k");
    assert_eq!(reader.heard(), invalid("k"));
}

#[test]
fn ones_own_change_is_told_behind_the_reply() {
    let host = Host::new();
    let client = host.modern();
    client.run("CLIENT TRACKING ON\nGET k");
    assert_eq!(client.run("SET k 1"), format!("+OK {}", invalid("k")));
    client.run("GET k\nMULTI\nINCR k\nGET other");
    assert_eq!(client.run("EXEC"), format!("*2 :2 _ {}", invalid("k")));
    client.run("CLIENT TRACKING ON NOLOOP\nGET k");
    assert_eq!(client.run("SET k 1"), "+OK");
}

#[test]
fn a_flush_invalidates_everything() {
    let host = Host::new();
    let (reader, writer) = (host.modern(), host.client());
    reader.run("CLIENT TRACKING ON\nGET k");
    writer.run("FLUSHALL");
    assert_eq!(reader.heard(), ">2 $10 invalidate _");
    assert_eq!(reader.run("FLUSHDB"), "+OK >2 $10 invalidate _");
}

#[test]
fn opting_in_lasts_for_one_command() {
    let host = Host::new();
    let (reader, writer) = (host.modern(), host.client());
    reader.run("CLIENT TRACKING ON OPTIN\nGET a\nCLIENT CACHING YES\nGET b\nGET c");
    writer.run("MSET a 1 b 1 c 1");
    assert_eq!(reader.heard(), invalid("b"));
    reader.run("CLIENT TRACKING OFF\nCLIENT TRACKING ON OPTOUT\nGET a\nCLIENT CACHING NO\nGET b");
    writer.run("MSET a 1 b 1");
    assert_eq!(reader.heard(), invalid("a"));
}

#[test]
fn broadcasts_gather_the_keys_of_a_batch() {
    let host = Host::new();
    let (listener, writer) = (host.modern(), host.modern());
    listener.run("CLIENT TRACKING ON BCAST PREFIX a: PREFIX b:");
    writer.run("CLIENT TRACKING ON BCAST NOLOOP");
    assert_eq!(writer.run("MSET b:1 x a:2 x\nSET a:1 x\nSET c x"), "+OK +OK +OK");
    let told = listener.heard();
    assert_eq!(told, ">2 $10 invalidate *2 $3 a:1 $3 a:2 >2 $10 invalidate *1 $3 b:1");
    let refused = listener.run("CLIENT TRACKING ON BCAST PREFIX a:x");
    assert!(refused.starts_with("-ERR Prefix 'a:x' overlaps with an existing prefix 'a:'."));
}

#[test]
fn resp2_hears_through_a_redirection_until_it_breaks() {
    let host = Host::new();
    let (reader, writer, ear) = (host.client(), host.client(), host.client());
    let id = ear.run("CLIENT ID").replace(':', "");
    ear.run("SUBSCRIBE __redis__:invalidate");
    assert_eq!(reader.run(&format!("CLIENT TRACKING ON REDIRECT {id}")), "+OK");
    reader.run("GET k");
    writer.run("SET k 1");
    assert_eq!(ear.heard(), "*3 $7 message $20 __redis__:invalidate *1 $1 k");
    host.core.close(ear.id);
    reader.run("HELLO 3\nGET k");
    writer.run("SET k 2");
    assert_eq!(reader.heard(), format!(">2 $21 tracking-redir-broken :{id}"));
    assert!(reader.run("CLIENT TRACKINGINFO").contains("broken_redirect"));
}

#[test]
fn a_key_that_expires_is_invalid() {
    let host = Host::new();
    let (reader, writer) = (host.modern(), host.client());
    writer.run("SET k 1 PX 10");
    reader.run("CLIENT TRACKING ON\nGET k");
    host.clock.advance(Duration::from_millis(20));
    assert_eq!(reader.run("GET k"), format!("_ {}", invalid("k")));
}

#[test]
fn the_table_has_a_bound() {
    let host = Host::new();
    let reader = host.modern();
    reader.run("CONFIG SET tracking-table-max-keys 1");
    reader.run("CLIENT TRACKING ON\nMGET a b c");
    assert_eq!(reader.run("PING").matches("invalidate").count(), 2);
}

#[test]
fn a_session_that_leaves_is_forgotten() {
    let host = Host::new();
    let (reader, writer) = (host.modern(), host.client());
    reader.run("CLIENT TRACKING ON\nGET k");
    host.core.close(reader.id);
    let successor = host.modern();
    successor.run("CLIENT TRACKING ON");
    writer.run("SET k 1");
    assert_eq!(successor.heard(), "");
}
