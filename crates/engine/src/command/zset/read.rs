//! Commands that look at single members or count them, and ZSCAN.

use super::{lex_range, score_range};
use crate::command::cursor::{self, ScanOptions, Scanned, parse_cursor};
use crate::ctx::Ctx;
use crate::error::Done;
use crate::number;
use crate::resp::Reply;
use crate::value::zset::{End, ZSet};

/// ZCARD key
pub(in crate::command) fn zcard(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let len = cx.get::<ZSet>(args[1])?.map_or(0, ZSet::len);
    out.count(len);
    Ok(())
}

/// ZSCORE key member
pub(in crate::command) fn zscore(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    match cx.get::<ZSet>(args[1])?.and_then(|set| set.score(args[2])) {
        Some(score) => out.double(score),
        None => out.null(),
    }
    Ok(())
}

/// ZMSCORE key member …
pub(in crate::command) fn zmscore(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let set = cx.get::<ZSet>(args[1])?;
    out.array(args.len() - 2);
    for member in &args[2..] {
        match set.and_then(|set| set.score(member)) {
            Some(score) => out.double(score),
            None => out.null(),
        }
    }
    Ok(())
}

/// ZRANK key member
pub(in crate::command) fn zrank(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    rank_from(cx, args, out, End::Min)
}

/// ZREVRANK key member
pub(in crate::command) fn zrevrank(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    rank_from(cx, args, out, End::Max)
}

fn rank_from(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply, end: End) -> Done {
    let rank = cx.get::<ZSet>(args[1])?.and_then(|set| {
        let rank = set.rank(args[2])?;
        Some(if end == End::Min { rank } else { set.len() - 1 - rank })
    });
    match rank {
        Some(rank) => out.count(rank),
        None => out.null(),
    }
    Ok(())
}

/// ZCOUNT key min max
pub(in crate::command) fn zcount(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let range = score_range(args[2], args[3])?;
    let count = cx.get::<ZSet>(args[1])?.map_or(0, |set| set.score_ranks(&range).len());
    out.count(count);
    Ok(())
}

/// ZLEXCOUNT key min max
pub(in crate::command) fn zlexcount(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let range = lex_range(args[2], args[3])?;
    let count = cx.get::<ZSet>(args[1])?.map_or(0, |set| set.lex_ranks(&range, End::Min).len());
    out.count(count);
    Ok(())
}

/// ZSCAN key cursor [MATCH pattern] [COUNT count]
pub(in crate::command) fn zscan(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let from = parse_cursor(args[2])?;
    let Some(set) = cx.get::<ZSet>(args[1])? else {
        cursor::reply_empty(out);
        return Ok(());
    };
    let options = ScanOptions::parse(&args[3..], Scanned::Elements)?;
    // Redis: the compact form shows whole scores as integers, the large form always with %.17g.
    let format = if set.is_compact() { number::format_f64 } else { number::format_double_reply };
    cursor::reply(out, |out| {
        let mut shown = 0;
        let mut text = Vec::new();
        let next = set.scan(from, options.count, |member, score| {
            if options.matches(member) {
                text.clear();
                format(&mut text, score);
                out.bulk(member);
                out.bulk(&text);
                shown += 2;
            }
        });
        (next, shown)
    });
    Ok(())
}
