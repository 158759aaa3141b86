//! ZRANDMEMBER.

use std::collections::HashSet;

use super::{Scores, reply_members};
use crate::args::{self, is};
use crate::command::pick;
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::resp::Reply;
use crate::rng::Rng;
use crate::value::Kind;
use crate::value::zset::{End, ZSet};

/// A set this many times larger than the sample is drawn from at random places, a smaller one is
/// walked.
const SPARSE: usize = 3;

/// ZRANDMEMBER key [count [WITHSCORES]]
pub(in crate::command) fn zrandmember(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let Some(count) = args.get(2) else {
        let found = cx.get::<ZSet>(args[1])?.is_some();
        match set_and_rng(cx, args[1]).and_then(|(set, rng)| set.random(rng)) {
            Some((member, _)) if found => out.bulk(member),
            _ => out.null(),
        }
        return Ok(());
    };
    let count = args::signed_count(count)?;
    let scores = match &args[3..] {
        [] => Scores::Without,
        [word] if is(word, "withscores") => Scores::With,
        _ => return Err(Error::SYNTAX),
    };
    if scores == Scores::With && !(-(i64::MAX / 2)..=i64::MAX / 2).contains(&count) {
        return Err(Error::fixed("ERR value is out of range"));
    }
    let found = cx.get::<ZSet>(args[1])?.is_some();
    let Some((set, rng)) = set_and_rng(cx, args[1]).filter(|_| found && count != 0) else {
        out.array(0);
        return Ok(());
    };
    let wanted = usize::try_from(count).unwrap_or(0);
    if count < 0 {
        let drawn =
            (0..pick::repeated(count)?).map(|_| set.random(rng).expect("no stored set is empty"));
        reply_members(out, drawn, scores);
    } else if wanted >= set.len() {
        // Redis: the whole set comes from the high end.
        reply_members(out, set.range(0..set.len(), End::Max), scores);
    } else {
        let ranks = distinct_ranks(set, wanted, rng);
        let members = ranks.into_iter().map(|rank| set.nth(rank).expect("a rank below the length"));
        reply_members(out, members, scores);
    }
    Ok(())
}

/// The set under a key that was checked before, and the generator.
fn set_and_rng<'c>(cx: &'c mut Ctx<'_>, key: &[u8]) -> Option<(&'c ZSet, &'c mut Rng)> {
    let engine = &mut *cx.engine;
    let entry = engine.dbs[cx.db as usize].get(key)?;
    Some((ZSet::of(entry.value())?, &mut engine.rng))
}

/// As many different ranks as wanted, fewer than the set has; every choice is as likely.
fn distinct_ranks(set: &ZSet, wanted: usize, rng: &mut Rng) -> Vec<usize> {
    let len = set.len();
    let mut ranks = Vec::with_capacity(wanted);
    if wanted.saturating_mul(SPARSE) > len {
        for rank in 0..len {
            if rng.index(len - rank) < wanted - ranks.len() {
                ranks.push(rank);
            }
        }
        return ranks;
    }
    let mut seen = HashSet::with_capacity(wanted);
    while ranks.len() < wanted {
        let rank = rng.index(len);
        if seen.insert(rank) {
            ranks.push(rank);
        }
    }
    ranks
}
