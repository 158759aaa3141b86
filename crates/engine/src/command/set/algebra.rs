//! Intersections, unions and differences, answered or stored.

use super::limits;
use crate::{
    args,
    ctx::Ctx,
    error::{Done, Error},
    keyspace::Db,
    notify::Classes,
    resp::Reply,
    value::{
        Kind,
        elem::Elem,
        set::{Set, SetLimits},
    },
};

pub(crate) fn smembers(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let Some(set) = cx.get::<Set>(args[1])? else {
        out.set(0);
        return Ok(());
    };
    out.set(set.len());
    set.iter().for_each(|member| out.bulk(&member));
    Ok(())
}

// ---- intersections -----------------------------------------------------------------------------

pub(crate) fn sinter(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let keys = &args[1..];
    check(cx, keys)?;
    let mark = out.defer();
    let mut count = 0;
    intersect(&sets(cx.db(), keys), |member| {
        out.bulk(&member);
        count += 1;
        true
    });
    out.end_set(mark, count);
    Ok(())
}

pub(crate) fn sintercard(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let refusal = Error::fixed("ERR numkeys should be greater than 0");
    let numkeys = args::positive_or(args[1], refusal)?;
    if numkeys > args.len() - 2 {
        return Err(Error::fixed("ERR Number of keys can't be greater than number of args"));
    }
    let (keys, options) = args[2..].split_at(numkeys);
    let mut limit = 0;
    for option in options.chunks(2) {
        match option {
            [name, value] if args::is(name, "limit") => {
                limit = args::count_or(value, Error::fixed("ERR LIMIT can't be negative"))?;
            }
            _ => return Err(Error::SYNTAX),
        }
    }
    check(cx, keys)?;
    let mut count = 0;
    intersect(&sets(cx.db(), keys), |_| {
        count += 1;
        count != limit
    });
    out.count(count);
    Ok(())
}

pub(crate) fn sinterstore(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let (to, keys) = (args[1], &args[2..]);
    check(cx, keys)?;
    let limits = limits(cx);
    let mut result = Set::new();
    intersect(&sets(cx.db(), keys), |member| {
        result.add(&member, &limits);
        true
    });
    store(cx, to, result, "sinterstore", out);
    Ok(())
}

/// Shows the members that all sets have, until told to stop.
fn intersect(sets: &[Option<&Set>], mut show: impl FnMut(Elem<'_>) -> bool) {
    let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else { return };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else { return };
    for member in smallest.iter() {
        let everywhere =
            others.iter().all(|set| std::ptr::eq(*set, *smallest) || set.contains(&member));
        if everywhere && !show(member) {
            return;
        }
    }
}

// ---- unions and differences --------------------------------------------------------------------

pub(crate) fn sunion(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let union = combine(cx, &args[1..], union)?;
    reply(&union, out);
    Ok(())
}

pub(crate) fn sunionstore(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let union = combine(cx, &args[2..], union)?;
    store(cx, args[1], union, "sunionstore", out);
    Ok(())
}

pub(crate) fn sdiff(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let difference = combine(cx, &args[1..], difference)?;
    reply(&difference, out);
    Ok(())
}

pub(crate) fn sdiffstore(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let difference = combine(cx, &args[2..], difference)?;
    store(cx, args[1], difference, "sdiffstore", out);
    Ok(())
}

fn combine(
    cx: &mut Ctx<'_>,
    keys: &[&[u8]],
    combine: fn(&[Option<&Set>], &SetLimits) -> Set,
) -> Result<Set, Error> {
    check(cx, keys)?;
    let limits = limits(cx);
    Ok(combine(&sets(cx.db(), keys), &limits))
}

fn union(sets: &[Option<&Set>], limits: &SetLimits) -> Set {
    let mut result = Set::new();
    for set in sets.iter().flatten() {
        for member in set.iter() {
            result.add(&member, limits);
        }
    }
    result
}

fn difference(sets: &[Option<&Set>], limits: &SetLimits) -> Set {
    let mut result = Set::new();
    let Some((Some(first), others)) = sets.split_first() else { return result };
    let mut others: Vec<&Set> = others.iter().flatten().copied().collect();
    if others.iter().any(|set| std::ptr::eq(*set, *first)) {
        return result;
    }
    // Either look up each member of the first in the others, or take each member of the others out
    // of a copy; the first way stops early where sets overlap, which is worth a factor of two.
    let lookups = first.len().saturating_mul(others.len() + 1) / 2;
    let removals = first.len() + others.iter().map(|set| set.len()).sum::<usize>();
    if lookups <= removals {
        others.sort_by_key(|set| std::cmp::Reverse(set.len()));
        for member in first.iter().filter(|m| !others.iter().any(|set| set.contains(m))) {
            result.add(&member, limits);
        }
    } else {
        for member in first.iter() {
            result.add(&member, limits);
        }
        for member in others.iter().flat_map(|set| set.iter()) {
            result.remove(&member);
        }
    }
    result
}

fn reply(set: &Set, out: &mut Reply) {
    out.set(set.len());
    set.iter().for_each(|member| out.bulk(&member));
}

// ---- common ------------------------------------------------------------------------------------

/// Refuses keys of another type; those that are there count as used.
fn check(cx: &mut Ctx<'_>, keys: &[&[u8]]) -> Done {
    keys.iter().try_for_each(|key| cx.get::<Set>(key).map(|_| ()))
}

/// The sets under keys that were checked; `None` for those that do not exist.
fn sets<'a>(db: &'a Db, keys: &[&[u8]]) -> Vec<Option<&'a Set>> {
    keys.iter().map(|key| db.get(key).and_then(|entry| Set::of(entry.value()))).collect()
}

/// Stores a result under a key, or removes the key if there is nothing to store.
fn store(cx: &mut Ctx<'_>, to: &[u8], result: Set, event: &str, out: &mut Reply) {
    out.count(result.len());
    if !result.is_empty() {
        cx.set_value(to, result.into_value());
        cx.wrote(to, Classes::SET, event);
    } else if cx.remove(to).is_some() {
        cx.wrote(to, Classes::GENERIC, "del");
    }
}
