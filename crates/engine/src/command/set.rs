//! Sets: adding and removing members, one or several at random.
//!
//! `set/algebra.rs` has intersections, unions and differences.

mod algebra;
mod random;

pub(super) use algebra::{
    sdiff, sdiffstore, sinter, sintercard, sinterstore, smembers, sunion, sunionstore,
};
pub(super) use random::{spop, srandmember};

use super::cursor::{self, ScanOptions, Scanned};
use crate::{
    ctx::Ctx,
    error::Done,
    notify::Classes,
    resp::Reply,
    value::set::{Set, SetLimits},
};

pub(super) fn sadd(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let key = args[1];
    let limits = limits(cx);
    let mut set = cx.edit_or_new(key, Set::new)?;
    let added = args[2..].iter().filter(|member| set.add(member, &limits)).count();
    drop(set);
    if added > 0 {
        cx.touched(key);
        cx.notify(Classes::SET, "sadd", key);
        cx.dirty(added as u64);
    }
    out.count(added);
    Ok(())
}

pub(super) fn srem(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let key = args[1];
    let Some(mut set) = cx.edit::<Set>(key)? else {
        out.int(0);
        return Ok(());
    };
    let removed = args[2..].iter().filter(|member| set.remove(member)).count();
    drop(set);
    if removed > 0 {
        cx.touched(key);
        cx.notify(Classes::SET, "srem", key);
        cx.drop_if_empty::<Set>(key);
        cx.dirty(removed as u64);
    }
    out.count(removed);
    Ok(())
}

pub(super) fn smove(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let (from, to, member) = (args[1], args[2], args[3]);
    let limits = limits(cx);
    let Some(source) = cx.edit::<Set>(from)? else {
        out.int(0);
        return Ok(());
    };
    let found = source.contains(member);
    drop(source);
    cx.edit::<Set>(to)?;
    if from == to || !found {
        out.int(i64::from(found));
        return Ok(());
    }
    if let Some(mut source) = cx.edit::<Set>(from)? {
        source.remove(member);
    }
    cx.notify(Classes::SET, "srem", from);
    cx.drop_if_empty::<Set>(from);
    cx.touched(from);
    cx.dirty(1);
    if cx.edit_or_new(to, Set::new)?.add(member, &limits) {
        cx.wrote(to, Classes::SET, "sadd");
    }
    out.int(1);
    Ok(())
}

pub(super) fn scard(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    out.count(cx.get::<Set>(args[1])?.map_or(0, Set::len));
    Ok(())
}

pub(super) fn sismember(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let found = cx.get::<Set>(args[1])?.is_some_and(|set| set.contains(args[2]));
    out.int(i64::from(found));
    Ok(())
}

pub(super) fn smismember(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let set = cx.get::<Set>(args[1])?;
    out.array(args.len() - 2);
    for member in &args[2..] {
        out.int(i64::from(set.is_some_and(|set| set.contains(member))));
    }
    Ok(())
}

pub(super) fn sscan(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let cursor = cursor::parse_cursor(args[2])?;
    let Some(set) = cx.get::<Set>(args[1])? else {
        cursor::reply_empty(out);
        return Ok(());
    };
    let options = ScanOptions::parse(&args[3..], Scanned::Elements)?;
    cursor::reply(out, |out| {
        let mut shown = 0;
        let next = set.scan(cursor, options.count, |member| {
            if options.matches(member) {
                out.bulk(member);
                shown += 1;
            }
        });
        (next, shown)
    });
    Ok(())
}

/// When sets change their encoding, as configured now.
fn limits(cx: &mut Ctx<'_>) -> SetLimits {
    let max = cx.engine.settings.set_max_intset_entries;
    SetLimits { max_intset_entries: usize::try_from(max).unwrap_or(usize::MAX), seed: cx.seed() }
}
