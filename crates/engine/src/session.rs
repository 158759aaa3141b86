//! A session: everything the engine knows about one client.
//!
//! The host only moves bytes. Input that cannot run yet (a partial request, or requests behind a
//! blocked one) waits in `input`; replies and pushes gather in `output` until the host drains them.

use std::collections::BTreeSet;

use crate::command::index::CommandRef;
use crate::resp::{Output, Parser, Protocol};

/// Names a session inside one engine; reused after the session is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub(crate) usize);

impl SessionId {
    /// A small number that is unique among open sessions; hosts may index by it.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

impl Peer {
    /// Returns `true` if it is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        let on_loopback = ["127.", "[::1]", "::1"].iter().any(|ip| self.addr.starts_with(ip));
        self.transport != Transport::Tcp || on_loopback
    }
}

/// A reply to a request that changed data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// From here to there in the session's output.
    Reply(usize, usize),
    /// A part of a longer reply, from here on; it cannot be replaced.
    Part(usize),
}

/// How a session reached the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Over TCP.
    Tcp,
    /// Over a unix socket.
    Unix,
    /// In the same process.
    Local,
}

/// The other end of a session.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The client's address as CLIENT LIST shows it.
    pub addr: String,
    /// The server's address that the client connected to.
    pub local_addr: String,
    /// How it connected.
    pub transport: Transport,
}

/// Memory of a session that holds nothing.
pub(crate) const SESSION_BYTES: usize = 512;

/// A command waiting in a transaction.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) command: CommandRef,
    pub(crate) args: Vec<Box<[u8]>>,
}

/// An open transaction.
#[derive(Debug, Default)]
pub(crate) struct Multi {
    pub(crate) queue: Vec<Queued>,
    /// A queued command was refused: EXEC will be, too.
    pub(crate) refused: bool,
    /// Bytes of all queued arguments together.
    pub(crate) bytes: usize,
    /// Flags of all queued commands together.
    pub(crate) flags: u64,
}

/// A transaction that EXEC is running; it pauses while one of its scripts runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) queue: std::vec::IntoIter<Queued>,
}

/// A key that a session watches.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) db: u32,
    pub(crate) key: Box<[u8]>,
    /// It had expired when it was watched, so that its removal is not a change.
    pub(crate) expired_at_watch: bool,
}

/// What CLIENT REPLY asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReplyMode {
    #[default]
    On,
    Off,
    /// The next command's reply is dropped.
    SkipNext,
    /// This command's reply is dropped.
    Skip,
}

/// The session that gets another session's invalidations, if it is still the same session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) session: usize,
    pub(crate) client_id: u64,
}

/// Client-side caching state of a session.
#[derive(Debug, Default, Clone)]
pub(crate) struct TrackingState {
    pub(crate) redirect: Option<Redirect>,
    pub(crate) broken_redirect: bool,
    pub(crate) broadcast: bool,
    pub(crate) prefixes: BTreeSet<Vec<u8>>,
    pub(crate) opt_in: bool,
    pub(crate) opt_out: bool,
    pub(crate) no_loop: bool,
    /// CLIENT CACHING YES/NO for the next command.
    pub(crate) caching: Option<bool>,
}

/// Why a session waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For data under these keys of a database.
    Keys { db: u32, keys: Vec<Box<[u8]>> },
    /// For replicas that do not exist: only the time-out ends it.
    Replicas,
    /// For the host to finish something (SAVE, SHUTDOWN …).
    Host,
    /// For the end of a pause.
    Pause,
}

/// A session that waits, with the request to try again.
#[derive(Debug)]
pub(crate) struct Blocked {
    pub(crate) wait: Wait,
    pub(crate) command: CommandRef,
    pub(crate) args: Vec<Box<[u8]>>,
    /// Unix milliseconds; `None` waits for ever.
    pub(crate) deadline: Option<i64>,
    /// Orders waiters: first come, first served.
    pub(crate) ticket: u64,
}

/// All state of one client.
#[derive(Debug)]
pub(crate) struct Session {
    /// What CLIENT ID answers; never reused.
    pub(crate) client_id: u64,
    pub(crate) peer: Peer,
    pub(crate) name: Vec<u8>,
    pub(crate) lib_name: Vec<u8>,
    pub(crate) lib_version: Vec<u8>,
    pub(crate) db: u32,
    pub(crate) protocol: Protocol,
    pub(crate) authenticated: bool,
    pub(crate) input: Vec<u8>,
    pub(crate) parser: Parser,
    /// Bytes of the batch that is being run, this request included.
    pub(crate) in_hand: usize,
    pub(crate) output: Output,
    /// The parts of the output that acknowledge changes, so that the log must hold them first.
    pub(crate) acks: Vec<Ack>,
    /// In the list of sessions that the host must check.
    pub(crate) touched: bool,
    /// In the queue of sessions whose input can continue.
    pub(crate) runnable: bool,
    pub(crate) close_after_flush: bool,
    /// Ends at once; nothing more is sent.
    pub(crate) doomed: bool,
    /// Bytes that left the engine and wait in the host.
    pub(crate) unsent: usize,
    /// Bytes of this session in [`Engine::client_bytes`](crate::Engine).
    pub(crate) counted: usize,
    pub(crate) monitor: bool,
    pub(crate) no_evict: bool,
    pub(crate) reply_mode: ReplyMode,
    pub(crate) multi: Option<Multi>,
    pub(crate) running: Option<Running>,
    /// Watched keys, and whether one of them changed.
    pub(crate) watching: Vec<Watched>,
    pub(crate) watch_broken: bool,
    pub(crate) channels: BTreeSet<Vec<u8>>,
    pub(crate) patterns: BTreeSet<Vec<u8>>,
    pub(crate) shard_channels: BTreeSet<Vec<u8>>,
    pub(crate) tracking: Option<Box<TrackingState>>,
    pub(crate) blocked: Option<Box<Blocked>>,
    pub(crate) created_ms: i64,
    pub(crate) last_ms: i64,
    pub(crate) last_command: &'static str,
}

impl Session {
    pub(crate) fn new(client_id: u64, peer: Peer, now_ms: i64, authenticated: bool) -> Session {
        Session {
            client_id,
            peer,
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_version: Vec::new(),
            db: 0,
            protocol: Protocol::Resp2,
            authenticated,
            input: Vec::new(),
            parser: Parser::default(),
            in_hand: 0,
            output: Output::default(),
            acks: Vec::new(),
            touched: false,
            runnable: false,
            close_after_flush: false,
            doomed: false,
            unsent: 0,
            counted: 0,
            monitor: false,
            no_evict: false,
            reply_mode: ReplyMode::On,
            multi: None,
            running: None,
            watching: Vec::new(),
            watch_broken: false,
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            shard_channels: BTreeSet::new(),
            tracking: None,
            blocked: None,
            created_ms: now_ms,
            last_ms: now_ms,
            last_command: "NULL",
        }
    }

    /// Bytes of input that wait here, those of a large argument included.
    pub(crate) fn unread_input(&self) -> usize {
        self.input.len() + self.parser.held_bytes()
    }

    /// Bytes that this client holds: input, output here and in the host with what is known of its
    /// replies, a queued transaction.
    pub(crate) fn memory(&self) -> usize {
        let queued = self.multi.as_ref().map_or(0, |multi| multi.bytes);
        let input = self.input.capacity() + self.parser.held_bytes();
        let acks = self.acks.capacity() * size_of::<Ack>();
        SESSION_BYTES + input + self.output.held_bytes() + acks + self.unsent + queued
    }

    /// Subscriptions of the classic kinds, the number that SUBSCRIBE answers.
    pub(crate) fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    pub(crate) fn all_subscriptions(&self) -> usize {
        self.subscriptions() + self.shard_channels.len()
    }

    /// Whether only subscription commands are allowed.
    pub(crate) fn in_subscriber_mode(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.all_subscriptions() > 0
    }
}
