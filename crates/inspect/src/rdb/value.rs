//! Skips the value of a key, and determines its members and its memory.
//!
//! | Type in the file | |
//! | --- | --- |
//! | 0 | string |
//! | 1, 10, 14, 18 | list: plain, ziplist, ziplists, listpacks |
//! | 2, 11, 20 | set: table, intset, listpack |
//! | 3, 5, 12, 17 | sorted set: table with text or binary scores, ziplist, listpack |
//! | 4, 9, 13, 16 | hash: table, zipmap, ziplist, listpack |
//! | 22, 24 / 23, 25 | hash with lifetimes of fields (Redis 7.4): table / listpack of triples |
//! | 22 in a Valkey file | hash with lifetimes of fields (Valkey 9): table |
//! | 15, 19, 21 | stream, with the additions of 7.0 and 7.2 |
//! | 7 | a module's value, which contains its own end mark |

use std::io::Read;

use super::{
    Maker, RdbError,
    index::{ID, Index},
    packed, size,
    source::{Count, Skipped, Source},
};
use crate::Kind;

/// What is known about a value without building it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) kind: Kind,
    pub(super) members: u64,
    /// Memory without the key.
    pub(super) bytes: u64,
}

/// The end mark of a module's value or auxiliary data.
const MODULE_END: u64 = 0;

pub(super) fn read<R: Read>(
    source: &mut Source<R>,
    kind: u8,
    maker: Maker,
    scratch: &mut Vec<u8>,
) -> Result<Value, RdbError> {
    match kind {
        0 => {
            let Skipped { length, integer } = source.skip_string()?;
            Ok(Value { kind: Kind::String, members: length, bytes: size::string(length, integer) })
        }
        1 => plain_list(source),
        2 => table(source, Kind::Set, 1, Tail::Nothing),
        3 => table(source, Kind::Zset, 1, Tail::TextScore),
        4 => table(source, Kind::Hash, 2, Tail::Nothing),
        5 => table(source, Kind::Zset, 1, Tail::Score),
        6 => Err(source.corrupt("a module's value of a release candidate of Redis 4")),
        7 => {
            source.length()?;
            let bytes = module(source)?;
            Ok(Value { kind: Kind::Other, members: 0, bytes })
        }
        9 => one_pack(source, Kind::Hash, 1, packed::zipmap, scratch),
        10 => one_pack(source, Kind::List, 1, packed::ziplist, scratch),
        11 => one_pack(source, Kind::Set, 1, packed::intset, scratch),
        12 => one_pack(source, Kind::Zset, 2, packed::ziplist, scratch),
        13 => one_pack(source, Kind::Hash, 2, packed::ziplist, scratch),
        14 => quick_list(source, packed::ziplist, Pieces::Packs, scratch),
        15 => stream(source, Added::Nothing, scratch),
        16 => one_pack(source, Kind::Hash, 2, packed::listpack, scratch),
        17 => one_pack(source, Kind::Zset, 2, packed::listpack, scratch),
        18 => quick_list(source, packed::listpack, Pieces::Tagged, scratch),
        19 => stream(source, Added::InSeven, scratch),
        20 => one_pack(source, Kind::Set, 1, packed::listpack, scratch),
        21 => stream(source, Added::InSevenTwo, scratch),
        22 if maker == Maker::Valkey => table(source, Kind::Hash, 2, Tail::Lifetime),
        22 if maker == Maker::Redis => lifetimes(source),
        23 if maker == Maker::Redis => one_pack(source, Kind::Hash, 3, packed::listpack, scratch),
        24 if maker == Maker::Redis => {
            source.skip(8)?; // The earliest expiry of a field.
            lifetimes(source)
        }
        25 if maker == Maker::Redis => {
            source.skip(8)?;
            one_pack(source, Kind::Hash, 3, packed::listpack, scratch)
        }
        other => Err(source.corrupt(format!("a value of the unknown type {other}"))),
    }
}

/// Reads one packed piece with this number of entries per member.
fn one_pack<R: Read>(
    source: &mut Source<R>,
    kind: Kind,
    entries_each: u64,
    count: fn(&[u8]) -> Count,
    scratch: &mut Vec<u8>,
) -> Result<Value, RdbError> {
    let (length, entries) = source.packed(count, scratch)?;
    Ok(Value { kind, members: entries / entries_each, bytes: size::packed(length) })
}

/// What follows the texts of an entry.
#[derive(Clone, Copy)]
enum Tail {
    Nothing,
    /// A double of eight bytes.
    Score,
    /// A number as text, after its length in one byte; three length values stand for NaN and the
    /// infinities.
    TextScore,
    /// A time in milliseconds.
    Lifetime,
}

/// Reads entries of this number of texts each.
fn table<R: Read>(
    source: &mut Source<R>,
    kind: Kind,
    texts_each: u64,
    tail: Tail,
) -> Result<Value, RdbError> {
    let members = source.length()?;
    let mut texts = 0u64;
    for _ in 0..members {
        for _ in 0..texts_each {
            texts += size::text(source.skip_string()?.length);
        }
        match tail {
            Tail::Nothing => {}
            Tail::Score | Tail::Lifetime => source.skip(8)?,
            Tail::TextScore => match source.byte()? {
                253..=255 => {}
                length => source.skip(length.into())?,
            },
        }
    }
    let bytes = match kind {
        Kind::Zset => size::sorted(members, texts),
        _ => size::table(members, texts),
    };
    Ok(Value { kind, members, bytes })
}

/// Reads fields, each with its lifetime before it.
fn lifetimes<R: Read>(source: &mut Source<R>) -> Result<Value, RdbError> {
    let members = source.length()?;
    let mut texts = 0u64;
    for _ in 0..members {
        source.length()?;
        for _ in 0..2 {
            texts += size::text(source.skip_string()?.length);
        }
    }
    Ok(Value { kind: Kind::Hash, members, bytes: size::table(members, texts) })
}

fn plain_list<R: Read>(source: &mut Source<R>) -> Result<Value, RdbError> {
    let members = source.length()?;
    let mut bytes = 0;
    for _ in 0..members {
        bytes += source.skip_string()?.length;
    }
    // Servers from 3.2 on pack such a list into pieces of about 8 KB when they load it.
    let pieces = bytes / 8_192 + 1;
    Ok(Value { kind: Kind::List, members, bytes: size::list(pieces, bytes + 2 * members) })
}

/// Whether each piece of a list is tagged with its encoding.
#[derive(Clone, Copy, PartialEq)]
enum Pieces {
    Packs,
    Tagged,
}

fn quick_list<R: Read>(
    source: &mut Source<R>,
    count: fn(&[u8]) -> Count,
    form: Pieces,
    scratch: &mut Vec<u8>,
) -> Result<Value, RdbError> {
    let pieces = source.length()?;
    let (mut members, mut packs) = (0, 0);
    for _ in 0..pieces {
        let tag = if form == Pieces::Tagged { source.length()? } else { 2 };
        let (length, entries) = match tag {
            1 => (source.skip_string()?.length, 1),
            2 => source.packed(count, scratch)?,
            other => {
                return Err(source.corrupt(format!("a list's piece of the unknown form {other}")));
            }
        };
        members += entries;
        packs += size::allocated(length);
    }
    Ok(Value { kind: Kind::List, members, bytes: size::list(pieces, packs) })
}

/// What later versions added to a stream.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Added {
    Nothing,
    InSeven,
    InSevenTwo,
}

fn stream<R: Read>(
    source: &mut Source<R>,
    added: Added,
    scratch: &mut Vec<u8>,
) -> Result<Value, RdbError> {
    let pieces = source.length()?;
    let mut index = Index::default();
    let mut packs = 0;
    for _ in 0..pieces {
        source.string(ID, scratch)?;
        let first = scratch.as_slice().try_into();
        index.add(first.map_err(|_| source.corrupt("a stream's piece without its id"))?);
        packs += size::allocated(source.skip_string()?.length);
    }
    let members = source.length()?;
    let ids = if added >= Added::InSeven { 2 + 5 } else { 2 };
    for _ in 0..ids {
        source.length()?;
    }
    let mut bytes = size::stream(index, packs);
    for _ in 0..source.length()? {
        source.skip_string()?;
        for _ in 0..if added >= Added::InSeven { 3 } else { 2 } {
            source.length()?;
        }
        let mut pending = Index::default();
        for _ in 0..source.length()? {
            pending.add(source.array()?);
            source.skip(8)?;
            source.length()?;
        }
        bytes += size::group(pending);
        for _ in 0..source.length()? {
            let name = source.string(0, scratch)?;
            source.skip(if added == Added::InSevenTwo { 16 } else { 8 })?;
            let mut pending = Index::default();
            for _ in 0..source.length()? {
                pending.add(source.array()?);
            }
            bytes += size::consumer(name, pending);
        }
    }
    Ok(Value { kind: Kind::Stream, members, bytes })
}

/// Skips a module's data. Returns its size in the file.
pub(super) fn module<R: Read>(source: &mut Source<R>) -> Result<u64, RdbError> {
    let start = source.offset();
    loop {
        match source.length()? {
            MODULE_END => return Ok(source.offset() - start),
            1 | 2 => {
                source.length()?;
            }
            3 => source.skip(4)?,
            4 => source.skip(8)?,
            5 => {
                source.skip_string()?;
            }
            other => return Err(source.corrupt(format!("a module's mark {other}"))),
        }
    }
}
