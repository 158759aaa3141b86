//! What the command table says about a command: arity, flags, where its keys are, its handler.

use crate::ctx::Ctx;
use crate::error::Done;
use crate::resp::Reply;

/// Runs a command: reads `args` (name included), writes its reply or returns a refusal.
pub(crate) type Handler = fn(&mut Ctx<'_>, &[&[u8]], &mut Reply) -> Done;

/// Flags of a command, combined as bits.
pub(crate) mod flag {
    pub(crate) const WRITE: u64 = 1;
    pub(crate) const READONLY: u64 = 1 << 1;
    pub(crate) const DENY_OOM: u64 = 1 << 2;
    pub(crate) const ADMIN: u64 = 1 << 3;
    pub(crate) const PUBSUB: u64 = 1 << 4;
    pub(crate) const NO_SCRIPT: u64 = 1 << 5;
    pub(crate) const BLOCKING: u64 = 1 << 6;
    pub(crate) const LOADING: u64 = 1 << 7;
    pub(crate) const STALE: u64 = 1 << 8;
    pub(crate) const SKIP_MONITOR: u64 = 1 << 9;
    pub(crate) const SKIP_SLOWLOG: u64 = 1 << 10;
    pub(crate) const FAST: u64 = 1 << 11;
    pub(crate) const NO_AUTH: u64 = 1 << 12;
    pub(crate) const NO_MULTI: u64 = 1 << 13;
    pub(crate) const ALLOW_BUSY: u64 = 1 << 14;
    pub(crate) const NO_MANDATORY_KEYS: u64 = 1 << 15;
    pub(crate) const NO_ASYNC_LOADING: u64 = 1 << 16;
    /// In the dangerous category although it is not an admin command.
    pub(crate) const DANGEROUS: u64 = 1 << 17;

    /// Flags that COMMAND shows, with their names.
    pub(crate) const NAMES: [(u64, &str); 17] = [
        (WRITE, "write"),
        (READONLY, "readonly"),
        (DENY_OOM, "denyoom"),
        (ADMIN, "admin"),
        (PUBSUB, "pubsub"),
        (NO_SCRIPT, "noscript"),
        (BLOCKING, "blocking"),
        (LOADING, "loading"),
        (STALE, "stale"),
        (SKIP_MONITOR, "skip_monitor"),
        (SKIP_SLOWLOG, "skip_slowlog"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_MULTI, "no_multi"),
        (ALLOW_BUSY, "allow_busy"),
        (NO_MANDATORY_KEYS, "no_mandatory_keys"),
        (NO_ASYNC_LOADING, "no_async_loading"),
    ];
}

/// What a command does with a key, combined as bits.
pub(crate) mod access {
    pub(crate) const RO: u32 = 1;
    pub(crate) const RW: u32 = 1 << 1;
    pub(crate) const OW: u32 = 1 << 2;
    pub(crate) const RM: u32 = 1 << 3;
    pub(crate) const ACCESS: u32 = 1 << 4;
    pub(crate) const UPDATE: u32 = 1 << 5;
    pub(crate) const INSERT: u32 = 1 << 6;
    pub(crate) const DELETE: u32 = 1 << 7;
    pub(crate) const NOT_KEY: u32 = 1 << 8;
    pub(crate) const INCOMPLETE: u32 = 1 << 9;
    pub(crate) const VARIABLE: u32 = 1 << 10;

    /// Names as COMMAND shows them.
    pub(crate) const NAMES: [(u32, &str); 11] = [
        (RO, "RO"),
        (RW, "RW"),
        (OW, "OW"),
        (RM, "RM"),
        (ACCESS, "access"),
        (UPDATE, "update"),
        (INSERT, "insert"),
        (DELETE, "delete"),
        (NOT_KEY, "not_key"),
        (INCOMPLETE, "incomplete"),
        (VARIABLE, "variable_flags"),
    ];
}

/// Where the search for keys begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Begin {
    Index(usize),
    /// Behind this word, looked for from an argument on (negative: from the end, backwards).
    Keyword(&'static str, isize),
    Unknown,
}

/// Which arguments from there on are keys.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Find {
    /// Up to `last` (relative; negative counts from the end), every `step`th, at most a `limit`th
    /// part of what is left.
    Range {
        last: isize,
        step: usize,
        limit: usize,
    },
    /// A count, followed by that many keys.
    Counted,
    Unknown,
}

/// One rule that finds keys among a command's arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeySpec {
    pub(crate) begin: Begin,
    pub(crate) find: Find,
    pub(crate) access: u32,
}

/// A family of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Generic,
    String,
    List,
    Set,
    Hash,
    SortedSet,
    Stream,
    Geo,
    Bitmap,
    HyperLogLog,
    PubSub,
    Transactions,
    Scripting,
    Connection,
    Server,
    Cluster,
}

impl Group {
    /// What COMMAND DOCS calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Group::Generic => "generic",
            Group::String => "string",
            Group::List => "list",
            Group::Set => "set",
            Group::Hash => "hash",
            Group::SortedSet => "sorted-set",
            Group::Stream => "stream",
            Group::Geo => "geo",
            Group::Bitmap => "bitmap",
            Group::HyperLogLog => "hyperloglog",
            Group::PubSub => "pubsub",
            Group::Transactions => "transactions",
            Group::Scripting => "scripting",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Cluster => "cluster",
        }
    }
}

/// One command, or one subcommand.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// Number of arguments, the name included; negative: minimum number.
    pub(crate) arity: i32,
    pub(crate) flags: u64,
    pub(crate) keys: &'static [KeySpec],
    pub(crate) since: &'static str,
    pub(crate) run: Handler,
    pub(crate) subs: &'static [Command],
}

impl Command {
    pub(crate) fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn accepts(&self, argc: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity >= 0 { argc == wanted } else { argc >= wanted }
    }
}

// Constructors that keep the table short.

pub(super) const fn cmd(
    name: &'static str,
    arity: i32,
    flags: u64,
    keys: &'static [KeySpec],
    since: &'static str,
    run: Handler,
) -> Command {
    Command { name, arity, flags, keys, since, run, subs: &[] }
}

/// A command that is only its subcommands.
pub(super) const fn group(
    name: &'static str,
    arity: i32,
    flags: u64,
    since: &'static str,
    subs: &'static [Command],
) -> Command {
    Command { name, arity, flags, keys: &[], since, run: super::no_subcommand, subs }
}

/// A command that has subcommands and also runs alone.
pub(super) const fn group_with(
    name: &'static str,
    run: Handler,
    arity: i32,
    flags: u64,
    since: &'static str,
    subs: &'static [Command],
) -> Command {
    Command { name, arity, flags, keys: &[], since, run, subs }
}

pub(super) const fn key(index: usize, access: u32) -> KeySpec {
    range(index, 0, 1, 0, access)
}

pub(super) const fn keys_from(index: usize, access: u32) -> KeySpec {
    range(index, -1, 1, 0, access)
}

pub(super) const fn range(
    index: usize,
    last: isize,
    step: usize,
    limit: usize,
    access: u32,
) -> KeySpec {
    KeySpec { begin: Begin::Index(index), find: Find::Range { last, step, limit }, access }
}

pub(super) const fn keyword(
    word: &'static str,
    from: isize,
    last: isize,
    step: usize,
    limit: usize,
    access: u32,
) -> KeySpec {
    KeySpec { begin: Begin::Keyword(word, from), find: Find::Range { last, step, limit }, access }
}

pub(super) const fn counted(index: usize, access: u32) -> KeySpec {
    KeySpec { begin: Begin::Index(index), find: Find::Counted, access }
}

pub(super) const fn unknown(access: u32) -> KeySpec {
    KeySpec { begin: Begin::Unknown, find: Find::Unknown, access }
}
