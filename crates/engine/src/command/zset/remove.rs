//! ZREM and the ZREMRANGEBY… commands.

use super::{lex_range, rank_range, score_range};
use crate::args;
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::notify::Classes;
use crate::resp::Reply;
use crate::value::zset::{End, ZSet};

/// ZREM key member …
pub(in crate::command) fn zrem(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    remove_with(cx, args[1], "zrem", out, |set| {
        args[2..].iter().filter(|member| set.remove(member).is_some()).count()
    })
}

/// ZREMRANGEBYRANK key start stop
pub(in crate::command) fn zremrangebyrank(
    cx: &mut Ctx<'_>,
    args: &[&[u8]],
    out: &mut Reply,
) -> Done {
    let (start, stop) = (args::int(args[2])?, args::int(args[3])?);
    remove_with(cx, args[1], "zremrangebyrank", out, |set| {
        set.remove_ranks(rank_range(start, stop, set.len()))
    })
}

/// ZREMRANGEBYSCORE key min max
pub(in crate::command) fn zremrangebyscore(
    cx: &mut Ctx<'_>,
    args: &[&[u8]],
    out: &mut Reply,
) -> Done {
    let range = score_range(args[2], args[3])?;
    remove_with(cx, args[1], "zremrangebyscore", out, |set| {
        set.remove_ranks(set.score_ranks(&range))
    })
}

/// ZREMRANGEBYLEX key min max
pub(in crate::command) fn zremrangebylex(
    cx: &mut Ctx<'_>,
    args: &[&[u8]],
    out: &mut Reply,
) -> Done {
    let range = lex_range(args[2], args[3])?;
    remove_with(cx, args[1], "zremrangebylex", out, |set| {
        set.remove_ranks(set.lex_ranks(&range, End::Min))
    })
}

/// Takes members out, announces it and answers how many they were.
fn remove_with(
    cx: &mut Ctx<'_>,
    key: &[u8],
    event: &str,
    out: &mut Reply,
    remove: impl FnOnce(&mut ZSet) -> usize,
) -> Result<(), Error> {
    let removed = match cx.edit::<ZSet>(key)? {
        Some(mut set) => remove(&mut set),
        None => 0,
    };
    if removed > 0 {
        cx.touched(key);
        cx.notify(Classes::ZSET, event, key);
        cx.drop_if_empty::<ZSet>(key);
        cx.dirty(removed as u64);
    }
    out.count(removed);
    Ok(())
}
