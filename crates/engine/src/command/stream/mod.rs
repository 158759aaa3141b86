//! Stream commands.
//!
//! One file per idea: `add` (XADD, XDEL, XTRIM, XSETID) with `trim` for the options it shares,
//! `range`, `read` (XREAD, XREADGROUP and how they wait) with `deliver` for what groups add,
//! `group`, `pending`, `claim`, `autoclaim`, `info`.
//! `effects` determines what the log gets from commands whose request would not replay the same
//! way.
//!
//! The common parts are here: ids as arguments, entries as replies.

mod add;
mod autoclaim;
mod claim;
mod deliver;
mod effects;
mod group;
mod info;
mod pending;
mod range;
mod read;
#[cfg(test)]
mod tests;
mod trim;

pub(super) use add::{xadd, xdel, xlen, xsetid, xtrim};
pub(super) use autoclaim::xautoclaim;
pub(super) use claim::xclaim;
pub(super) use group::{
    xack, xgroup_create, xgroup_createconsumer, xgroup_delconsumer, xgroup_destroy, xgroup_help,
    xgroup_setid,
};
pub(super) use info::{xinfo_consumers, xinfo_groups, xinfo_help, xinfo_stream};
pub(super) use pending::xpending;
pub(super) use range::{xrange, xrevrange};
pub(super) use read::{xread, xreadgroup};

use crate::error::{Error, printable};
use crate::number;
use crate::resp::Reply;
use crate::value::stream::{Entry, StreamId};

const INVALID_ID: Error =
    Error::fixed("ERR Invalid stream ID specified as stream command argument");

/// An id; the sequence may be missing and is then zero.
fn parse_id(arg: &[u8]) -> Result<StreamId, Error> {
    StreamId::parse(arg, 0).ok_or(INVALID_ID)
}

fn parse_ids(args: &[&[u8]]) -> Result<Vec<StreamId>, Error> {
    args.iter().map(|arg| parse_id(arg)).collect()
}

/// Where a range starts: an id, `-`, `+`, or `(` and an id that is not to be included.
fn parse_start(arg: &[u8]) -> Result<StreamId, Error> {
    match arg {
        [b'(', id @ ..] if !id.is_empty() => StreamId::parse(id, 0)
            .ok_or(INVALID_ID)?
            .next()
            .ok_or(Error::fixed("ERR invalid start ID for the interval")),
        _ => StreamId::parse_bound(arg, 0).ok_or(INVALID_ID),
    }
}

/// Where a range ends; a missing sequence is the greatest.
fn parse_end(arg: &[u8]) -> Result<StreamId, Error> {
    match arg {
        [b'(', id @ ..] if !id.is_empty() => StreamId::parse(id, u64::MAX)
            .ok_or(INVALID_ID)?
            .prev()
            .ok_or(Error::fixed("ERR invalid end ID for the interval")),
        _ => StreamId::parse_bound(arg, u64::MAX).ok_or(INVALID_ID),
    }
}

fn parse_int_or(arg: &[u8], refusal: Error) -> Result<i64, Error> {
    number::parse_i64(arg).ok_or(refusal)
}

/// A count where zero or less means "all", as a limit for an iterator.
fn limit(count: i64) -> usize {
    if count <= 0 { usize::MAX } else { usize::try_from(count).unwrap_or(usize::MAX) }
}

fn no_key_or_group(key: &[u8], group: &[u8]) -> Error {
    let (key, group) = (printable(key, usize::MAX), printable(group, usize::MAX));
    Error::new(format!("NOGROUP No such key '{key}' or consumer group '{group}'"))
}

fn no_group(key: &[u8], group: &[u8]) -> Error {
    let (key, group) = (printable(key, usize::MAX), printable(group, usize::MAX));
    Error::new(format!("NOGROUP No such consumer group '{group}' for key name '{key}'"))
}

/// Returns the refusal of a subcommand with invalid arguments.
fn bad_subcommand(args: &[&[u8]], container: &str) -> Error {
    let shown = printable(args[1], 128);
    Error::new(format!(
        "ERR unknown subcommand or wrong number of arguments for '{shown}'. Try {container} HELP."
    ))
}

fn write_id(reply: &mut Reply, id: StreamId) {
    reply.bulk(id.text().as_bytes());
}

/// An entry: its id and a flat list of fields and values.
fn write_entry(reply: &mut Reply, entry: &Entry<'_>) {
    reply.array(2);
    write_id(reply, entry.id);
    reply.array(entry.fields.len() * 2);
    for (field, value) in entry.fields.clone() {
        reply.bulk(field);
        reply.bulk(value);
    }
}

fn write_entries<'a>(reply: &mut Reply, entries: impl Iterator<Item = Entry<'a>>) {
    let mark = reply.defer();
    let mut count = 0;
    for entry in entries {
        write_entry(reply, &entry);
        count += 1;
    }
    reply.end_array(mark, count);
}
