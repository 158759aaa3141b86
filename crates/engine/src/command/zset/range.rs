//! The ZRANGE family and ZRANGESTORE: one grammar, three kinds of range, two directions.

use std::ops::Range;

use super::{Scores, lex_range, limits, rank_range, reply_members, score_range, store};
use crate::args;
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::resp::Reply;
use crate::value::zset::{AddRule, End, LexRange, ScoreRange, Walk, ZSet};

/// By what a range is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// A command of the family: what its name fixes, where its arguments begin, what it may be told.
#[derive(Clone, Copy)]
struct Form {
    by: Option<By>,
    from: Option<End>,
    /// Where the source key stands.
    key_at: usize,
    stores: bool,
}

/// The range itself.
enum Bounds<'a> {
    Ranks(i64, i64),
    Scores(ScoreRange),
    Lex(LexRange<'a>),
}

/// A parsed request.
struct Query<'a> {
    bounds: Bounds<'a>,
    from: End,
    scores: Scores,
    offset: i64,
    /// Negative: no limit.
    limit: i64,
}

/// ZRANGE key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]
pub(in crate::command) fn zrange(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    answer(cx, args, out, None, None)
}

/// ZREVRANGE key start stop [WITHSCORES]
pub(in crate::command) fn zrevrange(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    answer(cx, args, out, Some(By::Rank), Some(End::Max))
}

/// ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]
pub(in crate::command) fn zrangebyscore(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    answer(cx, args, out, Some(By::Score), Some(End::Min))
}

/// ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]
pub(in crate::command) fn zrevrangebyscore(
    cx: &mut Ctx<'_>,
    args: &[&[u8]],
    out: &mut Reply,
) -> Done {
    answer(cx, args, out, Some(By::Score), Some(End::Max))
}

/// ZRANGEBYLEX key min max [LIMIT offset count]
pub(in crate::command) fn zrangebylex(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    answer(cx, args, out, Some(By::Lex), Some(End::Min))
}

/// ZREVRANGEBYLEX key max min [LIMIT offset count]
pub(in crate::command) fn zrevrangebylex(
    cx: &mut Ctx<'_>,
    args: &[&[u8]],
    out: &mut Reply,
) -> Done {
    answer(cx, args, out, Some(By::Lex), Some(End::Max))
}

/// ZRANGESTORE dst src start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count]
pub(in crate::command) fn zrangestore(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let form = Form { by: None, from: None, key_at: 2, stores: true };
    let query = parse(args, form)?;
    let limits = limits(cx);
    let mut result = ZSet::new();
    if let Some(set) = cx.get::<ZSet>(args[2])? {
        let walk = query.walk(set);
        // Redis: a result of known length takes its final form at once; the others pass through
        // the compact form, which shows in the sign of zero.
        if matches!(query.bounds, Bounds::Ranks(..)) && walk.len() > limits.entries {
            result = ZSet::new_large(limits.seed);
        }
        for (member, score) in walk {
            result.add(member, score, AddRule::default(), &limits);
        }
    }
    let len = store(cx, args[1], result, "zrangestore", 1);
    out.count(len);
    Ok(())
}

fn answer(
    cx: &mut Ctx<'_>,
    args: &[&[u8]],
    out: &mut Reply,
    by: Option<By>,
    from: Option<End>,
) -> Done {
    let query = parse(args, Form { by, from, key_at: 1, stores: false })?;
    match cx.get::<ZSet>(args[1])? {
        Some(set) => reply_members(out, query.walk(set), query.scores),
        None => out.array(0),
    }
    Ok(())
}

fn parse<'a>(words: &[&'a [u8]], form: Form) -> Result<Query<'a>, Error> {
    let Form { mut by, mut from, key_at, stores } = form;
    let mut scores = Scores::Without;
    let (mut offset, mut limit) = (0, -1);
    let mut options = &words[key_at + 3..];
    while let [option, rest @ ..] = options {
        options = rest;
        let is = |word: &str| args::is(option, word);
        if !stores && is("withscores") {
            scores = Scores::With;
        } else if is("limit")
            && let [first, second, rest @ ..] = rest
        {
            (offset, limit) = (args::int(first)?, args::int(second)?);
            options = rest;
        } else if from.is_none() && is("rev") {
            from = Some(End::Max);
        } else if by.is_none() && is("bylex") {
            by = Some(By::Lex);
        } else if by.is_none() && is("byscore") {
            by = Some(By::Score);
        } else {
            return Err(Error::SYNTAX);
        }
    }
    let by = by.unwrap_or(By::Rank);
    let from = from.unwrap_or(End::Min);
    if limit != -1 && by == By::Rank {
        return Err(Error::fixed(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if scores == Scores::With && by == By::Lex {
        return Err(Error::fixed(
            "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
        ));
    }
    let (first, second) = (words[key_at + 1], words[key_at + 2]);
    let (min, max) = if from == End::Max { (second, first) } else { (first, second) };
    let bounds = match by {
        By::Rank => Bounds::Ranks(args::int(first)?, args::int(second)?),
        By::Score => Bounds::Scores(score_range(min, max)?),
        By::Lex => Bounds::Lex(lex_range(min, max)?),
    };
    Ok(Query { bounds, from, scores, offset, limit })
}

impl Query<'_> {
    fn walk<'s>(&self, set: &'s ZSet) -> Walk<'s> {
        set.range(self.ranks(set), self.from)
    }

    /// The ranks asked for, counted from the low end.
    fn ranks(&self, set: &ZSet) -> Range<usize> {
        let len = set.len();
        match &self.bounds {
            Bounds::Ranks(start, stop) => {
                let ranks = rank_range(*start, *stop, len);
                match self.from {
                    End::Min => ranks,
                    End::Max => len - ranks.end..len - ranks.start,
                }
            }
            Bounds::Scores(range) => self.limited(set.score_ranks(range)),
            Bounds::Lex(range) => self.limited(set.lex_ranks(range, self.from)),
        }
    }

    /// Skips `offset` ranks from the end where the walk begins, and keeps `limit` of the rest.
    fn limited(&self, ranks: Range<usize>) -> Range<usize> {
        let Ok(offset) = usize::try_from(self.offset) else { return 0..0 };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let left = ranks.len().saturating_sub(offset);
        let count = left.min(limit);
        match self.from {
            _ if count == 0 => 0..0,
            End::Min => ranks.start + offset..ranks.start + offset + count,
            End::Max => ranks.end - offset - count..ranks.end - offset,
        }
    }
}
