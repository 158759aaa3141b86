//! Sorted-set commands.
//!
//! `add` and `remove` change members, `read` looks at single ones, `range` serves the ZRANGE family
//! and ZRANGESTORE, `combine` union, intersection and difference, `pop` the popping commands with
//! their blocking forms, `random` ZRANDMEMBER.

mod add;
mod combine;
mod pop;
mod random;
mod range;
mod read;
mod remove;

pub(super) use add::{Add, add_members, zadd, zincrby};
pub(super) use combine::{zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion, zunionstore};
pub(super) use pop::{bzmpop, bzpopmax, bzpopmin, zmpop, zpopmax, zpopmin};
pub(super) use random::zrandmember;
pub(super) use range::{
    zrange, zrangebylex, zrangebyscore, zrangestore, zrevrange, zrevrangebylex, zrevrangebyscore,
};
pub(super) use read::{zcard, zcount, zlexcount, zmscore, zrank, zrevrank, zscan, zscore};
pub(super) use remove::{zrem, zremrangebylex, zremrangebyrank, zremrangebyscore};

use crate::args;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::notify::Classes;
use crate::number;
use crate::resp::Reply;
use crate::value::Kind;
use crate::value::zset::{LexRange, Limits, ScoreRange, ZSet};

/// The limits of the small form, as configured now.
pub(super) fn limits(cx: &mut Ctx<'_>) -> Limits {
    let seed = cx.seed();
    let settings = &cx.engine.settings;
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    Limits {
        entries: size(settings.zset_max_listpack_entries),
        value: size(settings.zset_max_listpack_value),
        seed,
    }
}

/// Reads both ends of a range of scores.
fn score_range(min: &[u8], max: &[u8]) -> Result<ScoreRange, Error> {
    // Redis: blanks in front, bytes behind a NUL and an empty text, which is 0, pass (7.0).
    let bound = |text: &[u8]| match text {
        [b'(', rest @ ..] => number::parse_f64_lenient(rest).map(|value| (value, true)),
        _ => number::parse_f64_lenient(text).map(|value| (value, false)),
    };
    match (bound(min), bound(max)) {
        (Some((min, min_open)), Some((max, max_open))) => {
            Ok(ScoreRange { min, min_open, max, max_open })
        }
        _ => Err(Error::fixed("ERR min or max is not a float")),
    }
}

/// Reads both ends of a range of bytes.
fn lex_range<'a>(min: &'a [u8], max: &'a [u8]) -> Result<LexRange<'a>, Error> {
    LexRange::parse(min, max).ok_or(Error::fixed("ERR min or max not valid string range item"))
}

/// Ranks as a client names them, negative ones counted from the end.
fn rank_range(start: i64, stop: i64, len: usize) -> std::ops::Range<usize> {
    let (start, count) = args::range(start, stop, len);
    start..start + count
}

/// Writes members, with scores if asked: pairs are nested in RESP3 and flat in RESP2.
fn reply_members<'a>(
    out: &mut Reply,
    members: impl ExactSizeIterator<Item = (&'a [u8], f64)>,
    scores: Scores,
) {
    let nested = scores == Scores::With && out.is_resp3();
    let flat = scores == Scores::With && !out.is_resp3();
    out.array(members.len() * if flat { 2 } else { 1 });
    for (member, score) in members {
        if nested {
            out.array(2);
        }
        out.bulk(member);
        if scores == Scores::With {
            out.double(score);
        }
    }
}

/// Whether a reply shows scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scores {
    With,
    Without,
}

/// Stores a result under `key` and announces it, or deletes the key if the result is empty.
///
/// Returns the number of members. `changes` is what the command counts for a result.
pub(super) fn store(cx: &mut Ctx<'_>, key: &[u8], set: ZSet, event: &str, changes: u64) -> usize {
    let len = set.len();
    if len > 0 {
        cx.set_value(key, set.into_value());
        cx.touched(key);
        cx.notify(Classes::ZSET, event, key);
        cx.dirty(changes);
    } else if cx.remove(key).is_some() {
        cx.touched(key);
        cx.notify(Classes::GENERIC, "del", key);
        cx.dirty(1);
    }
    len
}
