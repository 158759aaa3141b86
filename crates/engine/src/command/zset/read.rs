//! Commands that look at single members or count them, and ZSCAN.

use super::{lex_range, score_range};
use crate::args;
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::glob::{self, Case};
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
    let count = cx.get::<ZSet>(args[1])?.map_or(0, |set| set.lex_ranks(&range).len());
    out.count(count);
    Ok(())
}

/// ZSCAN key cursor [MATCH pattern] [COUNT count]
pub(in crate::command) fn zscan(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let cursor = cursor(args[2])?;
    let Some(set) = cx.get::<ZSet>(args[1])? else {
        out.array(2);
        out.bulk(b"0");
        out.array(0);
        return Ok(());
    };
    let (mut pattern, mut count) = (None, 10);
    let mut options = &args[3..];
    while let [option, rest @ ..] = options {
        options = match rest {
            [value, rest @ ..] if args::is(option, "count") => {
                count = args::int(value)?;
                if count < 1 {
                    return Err(Error::SYNTAX);
                }
                rest
            }
            [value, rest @ ..] if args::is(option, "match") => {
                pattern = Some(*value);
                rest
            }
            _ => return Err(Error::SYNTAX),
        };
    }
    let shows = |member: &[u8]| pattern.is_none_or(|p| glob::matches(p, member, Case::Sensitive));
    // Redis: the compact form shows whole scores as integers, the large form always with %.17g.
    let format = if set.is_compact() { number::format_f64 } else { number::format_double_reply };
    let mut shown = Vec::new();
    let next = set.scan(cursor, usize::try_from(count).unwrap_or(usize::MAX), |member, score| {
        if shows(member) {
            let mut text = Vec::new();
            format(&mut text, score);
            shown.push((member.to_vec(), text));
        }
    });
    out.array(2);
    out.bulk(itoa::Buffer::new().format(next).as_bytes());
    out.array(2 * shown.len());
    for (member, score) in shown {
        out.bulk(&member);
        out.bulk(&score);
    }
    Ok(())
}

fn cursor(arg: &[u8]) -> Result<u64, Error> {
    number::parse_u64_lenient(arg)
        .filter(|_| !arg.first().is_some_and(u8::is_ascii_whitespace))
        .ok_or(Error::fixed("ERR invalid cursor"))
}
