//! Union, intersection and difference of sorted and plain sets, answered, counted or stored.
//!
//! Plain sets take part with a score of 1 for every member. Inputs of unions and intersections are
//! worked through from the smallest to the largest, as Redis does: it decides in which order
//! scores are added up.

use super::{Scores, limits, reply_members, store};
use crate::args;
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::keyspace::{Db, Entry};
use crate::number;
use crate::resp::Reply;
use crate::value::Kind;
use crate::value::member::Member;
use crate::value::set::Set;
use crate::value::table::Table;
use crate::value::zset::{Scored, ZSet, sort_pairs};

/// Which operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Union,
    Inter,
    Diff,
}

/// How scores of one member are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn apply(self, a: f64, b: f64) -> f64 {
        match self {
            // Redis: infinity minus infinity is 0 here.
            Aggregate::Sum => zero_if_nan(a + b),
            Aggregate::Min => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Aggregate::Max => {
                if b > a {
                    b
                } else {
                    a
                }
            }
        }
    }
}

fn zero_if_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// What becomes of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Answer,
    Count,
    Store,
}

/// A parsed request.
struct Query<'a> {
    keys: &'a [&'a [u8]],
    weights: Vec<f64>,
    aggregate: Aggregate,
    scores: Scores,
    /// ZINTERCARD: where to stop counting.
    limit: usize,
}

/// ZUNION numkeys key … [WEIGHTS …] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]
pub(in crate::command) fn zunion(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    combine(cx, args, out, Op::Union, Outcome::Answer)
}

/// ZINTER numkeys key … [WEIGHTS …] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]
pub(in crate::command) fn zinter(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    combine(cx, args, out, Op::Inter, Outcome::Answer)
}

/// ZDIFF numkeys key … [WITHSCORES]
pub(in crate::command) fn zdiff(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    combine(cx, args, out, Op::Diff, Outcome::Answer)
}

/// ZUNIONSTORE dst numkeys key … [WEIGHTS …] [AGGREGATE SUM|MIN|MAX]
pub(in crate::command) fn zunionstore(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    combine(cx, args, out, Op::Union, Outcome::Store)
}

/// ZINTERSTORE dst numkeys key … [WEIGHTS …] [AGGREGATE SUM|MIN|MAX]
pub(in crate::command) fn zinterstore(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    combine(cx, args, out, Op::Inter, Outcome::Store)
}

/// ZDIFFSTORE dst numkeys key …
pub(in crate::command) fn zdiffstore(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    combine(cx, args, out, Op::Diff, Outcome::Store)
}

/// ZINTERCARD numkeys key … [LIMIT limit]
pub(in crate::command) fn zintercard(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    combine(cx, args, out, Op::Inter, Outcome::Count)
}

fn combine(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply, op: Op, outcome: Outcome) -> Done {
    let at = if outcome == Outcome::Store { 2 } else { 1 };
    let (keys, options) = keys_and_options(&args[at..], cx.command.name)?;
    // Redis: a key of the wrong type is reported before a wrong option.
    for key in keys {
        if let Some(entry) = cx.read(key) {
            let value = entry.value();
            if ZSet::of(value).is_none() && Set::of(value).is_none() {
                return Err(Error::WRONG_TYPE);
            }
        }
    }
    let query = parse_options(keys, options, op, outcome)?;
    let seed = cx.seed();
    let inputs = inputs(cx.db(), &query, op);
    if outcome == Outcome::Count {
        out.count(count_common(&inputs, query.limit));
        return Ok(());
    }
    let mut pairs = match op {
        Op::Union => union(&inputs, query.aggregate, seed),
        Op::Inter => intersection(&inputs, query.aggregate),
        Op::Diff => difference(&inputs),
    };
    if outcome == Outcome::Store {
        let event = match op {
            Op::Union => "zunionstore",
            Op::Inter => "zinterstore",
            Op::Diff => "zdiffstore",
        };
        let result = ZSet::from_pairs(pairs, &limits(cx));
        let len = store(cx, args[1], result, event, 1);
        out.count(len);
        return Ok(());
    }
    sort_pairs(&mut pairs);
    reply_members(out, pairs.iter().map(|(m, score)| (m.as_bytes(), *score)), query.scores);
    Ok(())
}

/// Some of the words of a request.
type Words<'a> = &'a [&'a [u8]];

/// Splits numkeys key … options.
fn keys_and_options<'a>(words: Words<'a>, command: &str) -> Result<(Words<'a>, Words<'a>), Error> {
    let numkeys = args::int(words[0])?;
    if numkeys < 1 {
        return Err(Error::new(format!(
            "ERR at least 1 input key is needed for '{command}' command"
        )));
    }
    let numkeys = usize::try_from(numkeys).unwrap_or(usize::MAX);
    words[1..].split_at_checked(numkeys).ok_or(Error::SYNTAX)
}

fn parse_options<'a>(
    keys: &'a [&'a [u8]],
    mut options: &[&[u8]],
    op: Op,
    outcome: Outcome,
) -> Result<Query<'a>, Error> {
    let mut query = Query {
        keys,
        weights: vec![1.0; keys.len()],
        aggregate: Aggregate::Sum,
        scores: Scores::Without,
        limit: usize::MAX,
    };
    let weighs = op != Op::Diff && outcome != Outcome::Count;
    while let [option, rest @ ..] = options {
        let is = |word: &str| args::is(option, word);
        options = if weighs
            && is("weights")
            && let Some((weights, rest)) = rest.split_at_checked(keys.len())
        {
            for (place, weight) in query.weights.iter_mut().zip(weights) {
                *place = number::parse_f64(weight)
                    .ok_or(Error::fixed("ERR weight value is not a float"))?;
            }
            rest
        } else if weighs
            && is("aggregate")
            && let [kind, rest @ ..] = rest
        {
            query.aggregate = match kind.to_ascii_lowercase().as_slice() {
                b"sum" => Aggregate::Sum,
                b"min" => Aggregate::Min,
                b"max" => Aggregate::Max,
                _ => return Err(Error::SYNTAX),
            };
            rest
        } else if outcome == Outcome::Answer && is("withscores") {
            query.scores = Scores::With;
            rest
        } else if outcome == Outcome::Count
            && is("limit")
            && let [limit, rest @ ..] = rest
        {
            let limit = args::count_or(limit, Error::fixed("ERR LIMIT can't be negative"))?;
            query.limit = if limit == 0 { usize::MAX } else { limit };
            rest
        } else {
            return Err(Error::SYNTAX);
        };
    }
    Ok(query)
}

/// One input set with its weight.
#[derive(Clone, Copy)]
struct Input<'a> {
    source: Source<'a>,
    weight: f64,
}

#[derive(Clone, Copy)]
enum Source<'a> {
    Absent,
    Plain(&'a Set),
    Sorted(&'a ZSet),
}

impl Input<'_> {
    fn len(&self) -> usize {
        match self.source {
            Source::Absent => 0,
            Source::Plain(set) => set.len(),
            Source::Sorted(set) => set.len(),
        }
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        match self.source {
            Source::Absent => None,
            Source::Plain(set) => set.contains(member).then_some(1.0),
            Source::Sorted(set) => set.score(member),
        }
    }

    /// Shows all members with their scores until `f` says to stop.
    fn visit(&self, mut f: impl FnMut(&[u8], f64) -> Visit) {
        match self.source {
            Source::Absent => {}
            Source::Plain(set) => {
                for member in set.iter() {
                    if f(&member, 1.0) == Visit::Stop {
                        return;
                    }
                }
            }
            Source::Sorted(set) => {
                for (member, score) in set.iter() {
                    if f(member, score) == Visit::Stop {
                        return;
                    }
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visit {
    Continue,
    Stop,
}

fn inputs<'a>(db: &'a Db, query: &Query<'_>, op: Op) -> Vec<Input<'a>> {
    let source = |key: &[u8]| {
        let Some(value) = db.get(key).map(Entry::value) else { return Source::Absent };
        match (ZSet::of(value), Set::of(value)) {
            (Some(set), _) => Source::Sorted(set),
            (_, Some(set)) => Source::Plain(set),
            _ => Source::Absent,
        }
    };
    let mut inputs: Vec<_> = query
        .keys
        .iter()
        .zip(&query.weights)
        .map(|(key, &weight)| Input { source: source(key), weight })
        .collect();
    match op {
        Op::Union | Op::Inter => inputs.sort_by_key(Input::len),
        // The larger a set, the sooner a member is found in it.
        Op::Diff => inputs[1..].sort_by_key(|input| std::cmp::Reverse(input.len())),
    }
    inputs
}

fn union(inputs: &[Input<'_>], aggregate: Aggregate, seed: u64) -> Vec<(Member, f64)> {
    let mut all = Table::<Scored>::new(seed);
    for input in inputs {
        input.visit(|member, score| {
            let score = zero_if_nan(input.weight * score);
            let hash = all.hash_of(member);
            match all.get_mut_hashed(hash, member) {
                Some(known) => known.score = aggregate.apply(known.score, score),
                None => all.insert_new(hash, Scored { member: Member::new(member), score }),
            }
            Visit::Continue
        });
    }
    all.drain().map(|scored| (scored.member, scored.score)).collect()
}

fn intersection(inputs: &[Input<'_>], aggregate: Aggregate) -> Vec<(Member, f64)> {
    let (smallest, others) = inputs.split_first().expect("there is at least one key");
    let mut pairs = Vec::new();
    smallest.visit(|member, score| {
        let first = zero_if_nan(smallest.weight * score);
        let all = others.iter().try_fold(first, |sum, other| {
            Some(aggregate.apply(sum, other.score(member)? * other.weight))
        });
        pairs.extend(all.map(|score| (Member::new(member), score)));
        Visit::Continue
    });
    pairs
}

fn count_common(inputs: &[Input<'_>], limit: usize) -> usize {
    let (smallest, others) = inputs.split_first().expect("there is at least one key");
    let mut count = 0;
    smallest.visit(|member, _| {
        count += usize::from(others.iter().all(|other| other.score(member).is_some()));
        if count >= limit { Visit::Stop } else { Visit::Continue }
    });
    count
}

fn difference(inputs: &[Input<'_>]) -> Vec<(Member, f64)> {
    let (first, others) = inputs.split_first().expect("there is at least one key");
    let mut pairs = Vec::new();
    first.visit(|member, score| {
        if others.iter().all(|other| other.score(member).is_none()) {
            pairs.push((Member::new(member), score));
        }
        Visit::Continue
    });
    pairs
}
