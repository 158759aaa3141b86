//! ZADD and ZINCRBY; GEOADD uses them too.

use smallvec::SmallVec;

use super::limits;
use crate::args;
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::notify::Classes;
use crate::resp::Reply;
use crate::value::zset::{AddRule, Added, Limits, ZSet};

/// What ZADD was asked, apart from the members.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::command) struct Add {
    /// The conditions.
    pub(in crate::command) rule: AddRule,
    /// CH: count changed members as well.
    pub(in crate::command) count_changed: bool,
}

impl Add {
    /// Takes note of one option; `false` if it is none.
    fn option(&mut self, word: &[u8]) -> bool {
        let options = [
            (&b"nx"[..], &mut self.rule.only_new),
            (b"xx", &mut self.rule.only_existing),
            (b"gt", &mut self.rule.only_greater),
            (b"lt", &mut self.rule.only_less),
            (b"incr", &mut self.rule.increment),
            (b"ch", &mut self.count_changed),
        ];
        for (name, place) in options {
            if word.eq_ignore_ascii_case(name) {
                *place = true;
                return true;
            }
        }
        false
    }
}

/// ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member …
pub(in crate::command) fn zadd(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    parse_and_add(cx, args, out, Add::default())
}

/// ZINCRBY key increment member
pub(in crate::command) fn zincrby(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let rule = AddRule { increment: true, ..AddRule::default() };
    parse_and_add(cx, args, out, Add { rule, count_changed: false })
}

fn parse_and_add(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply, mut add: Add) -> Done {
    // Redis: ZINCRBY takes ZADD's options, too; its arity leaves room for none that works.
    let options = args[2..].iter().take_while(|word| add.option(word)).count();
    let members = &args[2 + options..];
    if members.is_empty() || !members.len().is_multiple_of(2) {
        return Err(Error::SYNTAX);
    }
    let rule = add.rule;
    if rule.only_new && rule.only_existing {
        return Err(Error::fixed("ERR XX and NX options at the same time are not compatible"));
    }
    let one_of = [rule.only_new, rule.only_greater, rule.only_less];
    if one_of.into_iter().filter(|&set| set).count() > 1 {
        return Err(Error::fixed(
            "ERR GT, LT, and/or NX options at the same time are not compatible",
        ));
    }
    if rule.increment && members.len() > 2 {
        return Err(Error::fixed("ERR INCR option supports a single increment-element pair"));
    }
    let mut pairs = SmallVec::<[(f64, &[u8]); 8]>::new();
    for pair in members.chunks_exact(2) {
        pairs.push((args::float(pair[0])?, pair[1]));
    }
    add_members(cx, args[1], add, &pairs, out)
}

/// Adds members and answers as ZADD does.
pub(in crate::command) fn add_members(
    cx: &mut Ctx<'_>,
    key: &[u8],
    add: Add,
    pairs: &[(f64, &[u8])],
    out: &mut Reply,
) -> Done {
    let Add { rule, count_changed } = add;
    let limits = limits(cx);
    let Tally { new, changed, score } = if rule.only_existing {
        match cx.edit::<ZSet>(key)? {
            Some(mut set) => tally(&mut set, pairs, rule, &limits)?,
            None => Tally::default(),
        }
    } else {
        tally(&mut *cx.edit_or_new(key, ZSet::new)?, pairs, rule, &limits)?
    };
    if new + changed > 0 {
        cx.touched(key);
        cx.notify(Classes::ZSET, if rule.increment { "zincr" } else { "zadd" }, key);
        cx.dirty(new + changed);
    }
    match (rule.increment, score) {
        (true, Some(score)) => out.double(score),
        (true, None) => out.null(),
        (false, _) => out.int((new + if count_changed { changed } else { 0 }) as i64),
    }
    Ok(())
}

/// Outcome of an addition.
#[derive(Default)]
struct Tally {
    new: u64,
    changed: u64,
    /// The score of the last member that no condition kept from being added.
    score: Option<f64>,
}

fn tally(
    set: &mut ZSet,
    pairs: &[(f64, &[u8])],
    rule: AddRule,
    limits: &Limits,
) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    for &(score, member) in pairs {
        let after = match set.add(member, score, rule, limits) {
            Added::New(score) => {
                tally.new += 1;
                score
            }
            Added::Changed(score) => {
                tally.changed += 1;
                score
            }
            Added::Same(score) => score,
            Added::Skipped => continue,
            Added::NotANumber => {
                return Err(Error::fixed("ERR resulting score is not a number (NaN)"));
            }
        };
        tally.score = Some(after);
    }
    Ok(tally)
}
