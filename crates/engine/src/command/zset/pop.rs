//! ZPOPMIN, ZPOPMAX, ZMPOP and the blocking forms of them.

use crate::args::{self, is};
use crate::ctx::{Caller, Ctx};
use crate::error::{Done, Error};
use crate::notify::Classes;
use crate::resp::Reply;
use crate::value::zset::{End, ZSet};

/// How a reply is laid out; they all differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// ZPOPMIN: member, score, member, score …
    Flat,
    /// ZPOPMIN with a count in RESP3: pairs.
    Pairs,
    /// BZPOPMIN: key, member, score.
    KeyFlat,
    /// ZMPOP: the key and an array of pairs.
    KeyPairs,
}

/// ZPOPMIN key [count]
pub(in crate::command) fn zpopmin(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    pop_one_key(cx, args, out, End::Min)
}

/// ZPOPMAX key [count]
pub(in crate::command) fn zpopmax(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    pop_one_key(cx, args, out, End::Max)
}

fn pop_one_key(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply, end: End) -> Done {
    if args.len() > 3 {
        return Err(Error::SYNTAX);
    }
    let count = match args.get(2) {
        Some(arg) => args::count(arg)?,
        None => 1,
    };
    let layout = if args.len() == 3 && out.is_resp3() { Layout::Pairs } else { Layout::Flat };
    if cx.edit::<ZSet>(args[1])?.is_none() || count == 0 {
        out.array(0);
        return Ok(());
    }
    pop(cx, args[1], end, count, layout, out)
}

/// ZMPOP numkeys key … MIN|MAX [COUNT count]
pub(in crate::command) fn zmpop(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let query = MultiPop::parse(&args[1..])?;
    for key in query.keys {
        if cx.edit::<ZSet>(key)?.is_some() {
            return pop(cx, key, query.end, query.count, Layout::KeyPairs, out);
        }
    }
    out.null_array();
    Ok(())
}

/// BZPOPMIN key … timeout
pub(in crate::command) fn bzpopmin(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    block_on_keys(cx, args, out, End::Min)
}

/// BZPOPMAX key … timeout
pub(in crate::command) fn bzpopmax(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    block_on_keys(cx, args, out, End::Max)
}

fn block_on_keys(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply, end: End) -> Done {
    let (timeout, keys) = args[1..].split_last().ok_or(Error::SYNTAX)?;
    let wanted = Wanted { keys, end, count: None };
    pop_or_wait(cx, args, out, timeout, &wanted)
}

/// BZMPOP timeout numkeys key … MIN|MAX [COUNT count]
pub(in crate::command) fn bzmpop(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let query = MultiPop::parse(&args[2..])?;
    let wanted = Wanted { keys: query.keys, end: query.end, count: Some(query.count) };
    pop_or_wait(cx, args, out, args[1], &wanted)
}

/// What a blocking command waits for.
struct Wanted<'a> {
    keys: &'a [&'a [u8]],
    end: End,
    /// `None`: one member, in BZPOPMIN's layout.
    count: Option<usize>,
}

fn pop_or_wait(
    cx: &mut Ctx<'_>,
    request: &[&[u8]],
    out: &mut Reply,
    timeout: &[u8],
    wanted: &Wanted<'_>,
) -> Done {
    let timeout_ms = args::timeout_ms(timeout)?;
    let waits_already = cx.caller == Caller::Retry;
    for key in wanted.keys {
        if !cx.may_serve(key) {
            continue;
        }
        match cx.edit::<ZSet>(key) {
            Ok(Some(_)) => {}
            Ok(None) => continue,
            // Redis: a session that already waits goes on waiting when a key of another type
            // appears.
            Err(_) if waits_already => continue,
            Err(error) => return Err(error),
        }
        let (count, layout) = match wanted.count {
            Some(count) => (count, Layout::KeyPairs),
            None => (1, Layout::KeyFlat),
        };
        return pop(cx, key, wanted.end, count, layout, out);
    }
    if cx.may_block() {
        cx.park_on_keys(wanted.keys, request, timeout_ms);
    } else {
        out.null_array();
    }
    Ok(())
}

/// Pops from a set that exists and answers. The log gets the members, so that it depends neither on
/// which key was found nor on the rest of the set.
fn pop(
    cx: &mut Ctx<'_>,
    key: &[u8],
    end: End,
    count: usize,
    layout: Layout,
    out: &mut Reply,
) -> Done {
    let logging = cx.engine.logging;
    let Some(mut set) = cx.edit::<ZSet>(key)? else { return Ok(()) };
    let len = set.len();
    let count = count.min(len);
    let ranks = match end {
        End::Min => 0..count,
        End::Max => len - count..len,
    };
    match layout {
        Layout::Flat => out.array(2 * count),
        Layout::Pairs => out.array(count),
        Layout::KeyFlat => {
            out.array(2 * count + 1);
            out.bulk(key);
        }
        Layout::KeyPairs => {
            out.array(2);
            out.bulk(key);
            out.array(count);
        }
    }
    let mut logged = vec![b"ZREM".to_vec(), key.to_vec()];
    for (member, score) in set.range(ranks.clone(), end) {
        if logging {
            logged.push(member.to_vec());
        }
        if matches!(layout, Layout::Pairs | Layout::KeyPairs) {
            out.array(2);
        }
        out.bulk(member);
        out.double(score);
    }
    set.remove_ranks(ranks);
    drop(set);
    let event = if end == End::Min { "zpopmin" } else { "zpopmax" };
    cx.touched(key);
    cx.notify(Classes::ZSET, event, key);
    cx.drop_if_empty::<ZSet>(key);
    cx.dirty(count as u64);
    cx.rewrite(&logged);
    Ok(())
}

/// The arguments that ZMPOP and BZMPOP share.
struct MultiPop<'a> {
    keys: &'a [&'a [u8]],
    end: End,
    count: usize,
}

impl<'a> MultiPop<'a> {
    /// Reads numkeys key … MIN|MAX [COUNT count].
    fn parse(words: &'a [&'a [u8]]) -> Result<Self, Error> {
        const FEW_KEYS: Error = Error::fixed("ERR numkeys should be greater than 0");
        const FEW: Error = Error::fixed("ERR count should be greater than 0");
        let numkeys = args::positive_or(words[0], FEW_KEYS)?;
        let rest = &words[1..];
        let (keys, rest) = rest.split_at_checked(numkeys).ok_or(Error::SYNTAX)?;
        let (end, options) = rest.split_first().ok_or(Error::SYNTAX)?;
        let end = match end {
            word if is(word, "min") => End::Min,
            word if is(word, "max") => End::Max,
            _ => return Err(Error::SYNTAX),
        };
        let count = match options {
            [] => 1,
            [word, count, more @ ..] if is(word, "count") => {
                let count = args::positive_or(count, FEW)?;
                if !more.is_empty() {
                    return Err(Error::SYNTAX);
                }
                count
            }
            _ => return Err(Error::SYNTAX),
        };
        Ok(Self { keys, end, count })
    }
}
