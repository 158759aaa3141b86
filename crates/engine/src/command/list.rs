//! Lists: pushing, popping, reading and editing by index or by value.
//!
//! `moves.rs` has the commands that take from one key and may push to another, blocking or not;
//! `pos.rs` has the search.

mod moves;
mod pos;

pub(super) use moves::{blmove, blmpop, blpop, brpop, brpoplpush, lmove, lmpop, rpoplpush};
pub(super) use pos::lpos;

use crate::{
    args,
    ctx::Ctx,
    error::{Done, Error},
    notify::Classes,
    resp::Reply,
    value::list::{ChunkLimit, End, List, Side},
};

pub(super) fn lpush(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    push(cx, args, End::Head, out)
}

pub(super) fn rpush(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    push(cx, args, End::Tail, out)
}

pub(super) fn lpushx(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    push_existing(cx, args, End::Head, out)
}

pub(super) fn rpushx(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    push_existing(cx, args, End::Tail, out)
}

fn push(cx: &mut Ctx<'_>, args: &[&[u8]], end: End, out: &mut Reply) -> Done {
    let (key, items) = (args[1], &args[2..]);
    let limit = chunk_limit(cx);
    let mut list = cx.edit_or_new(key, List::new)?;
    items.iter().for_each(|item| list.push(end, item, limit));
    out.count(list.len());
    drop(list);
    pushed(cx, key, end);
    cx.dirty(items.len() as u64);
    Ok(())
}

fn push_existing(cx: &mut Ctx<'_>, args: &[&[u8]], end: End, out: &mut Reply) -> Done {
    if cx.edit::<List>(args[1])?.is_none() {
        out.int(0);
        return Ok(());
    }
    push(cx, args, end, out)
}

/// Reports that elements were added at an end.
fn pushed(cx: &mut Ctx<'_>, key: &[u8], end: End) {
    cx.touched(key);
    cx.notify(Classes::LIST, if end == End::Head { "lpush" } else { "rpush" }, key);
}

pub(super) fn lpop(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    pop(cx, args, End::Head, out)
}

pub(super) fn rpop(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    pop(cx, args, End::Tail, out)
}

fn pop(cx: &mut Ctx<'_>, args: &[&[u8]], end: End, out: &mut Reply) -> Done {
    let (key, count) = match *args {
        [_, key] => (key, None),
        [_, key, count] => (key, Some(args::count(count)?)),
        _ => return Err(Error::arity(if end == End::Head { "lpop" } else { "rpop" })),
    };
    let Some(mut list) = cx.edit::<List>(key)? else {
        if count.is_some() {
            out.null_array();
        } else {
            out.null();
        }
        return Ok(());
    };
    let popped = match count {
        Some(0) => {
            out.array(0);
            return Ok(());
        }
        Some(count) => reply_popped(&mut list, end, count, out),
        None => {
            out.bulk_or_null(list.peek(end).as_deref());
            list.pop(end);
            1
        }
    };
    drop(list);
    removed(cx, key, end);
    cx.touched(key);
    cx.dirty(popped as u64);
    Ok(())
}

/// Takes up to `count` elements from an end and writes them as an array; returns how many.
fn reply_popped(list: &mut List, end: End, count: usize, out: &mut Reply) -> usize {
    let count = count.min(list.len());
    out.array(count);
    match end {
        End::Head => {
            list.iter().take(count).for_each(|item| out.bulk(&item));
            list.cut_head(count);
        }
        End::Tail => {
            list.iter_rev().take(count).for_each(|item| out.bulk(&item));
            list.cut_tail(count);
        }
    }
    count
}

/// Reports that elements were taken from an end, and removes the key if nothing is left.
fn removed(cx: &mut Ctx<'_>, key: &[u8], end: End) {
    cx.notify(Classes::LIST, if end == End::Head { "lpop" } else { "rpop" }, key);
    cx.drop_if_empty::<List>(key);
}

pub(super) fn llen(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    out.count(cx.get::<List>(args[1])?.map_or(0, List::len));
    Ok(())
}

pub(super) fn lindex(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let Some(list) = cx.get::<List>(args[1])? else {
        out.null();
        return Ok(());
    };
    let index = args::from_start(args::int(args[2])?, list.len());
    let item = usize::try_from(index).ok().and_then(|index| list.get(index));
    out.bulk_or_null(item.as_deref());
    Ok(())
}

pub(super) fn lrange(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let (start, end) = (args::int(args[2])?, args::int(args[3])?);
    let Some(list) = cx.get::<List>(args[1])? else {
        out.array(0);
        return Ok(());
    };
    let (start, count) = args::range(start, end, list.len());
    out.array(count);
    list.iter_from(start).take(count).for_each(|item| out.bulk(&item));
    Ok(())
}

pub(super) fn lset(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let key = args[1];
    let limit = chunk_limit(cx);
    let Some(mut list) = cx.edit::<List>(key)? else { return Err(Error::NO_SUCH_KEY) };
    let index = args::from_start(args::int(args[2])?, list.len());
    let set = usize::try_from(index).is_ok_and(|index| list.set(index, args[3], limit));
    drop(list);
    if !set {
        return Err(Error::OUT_OF_RANGE);
    }
    out.ok();
    cx.wrote(key, Classes::LIST, "lset");
    Ok(())
}

pub(super) fn linsert(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let (key, pivot, item) = (args[1], args[3], args[4]);
    let side = if args::is(args[2], "after") {
        Side::After
    } else if args::is(args[2], "before") {
        Side::Before
    } else {
        return Err(Error::SYNTAX);
    };
    let limit = chunk_limit(cx);
    let Some(mut list) = cx.edit::<List>(key)? else {
        out.int(0);
        return Ok(());
    };
    if !list.insert(side, pivot, item, limit) {
        out.int(-1);
        return Ok(());
    }
    out.count(list.len());
    drop(list);
    cx.wrote(key, Classes::LIST, "linsert");
    Ok(())
}

pub(super) fn lrem(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let key = args[1];
    let count = args::int(args[2])?;
    let (max, from) = match count {
        0 | i64::MIN => (usize::MAX, if count == 0 { End::Head } else { End::Tail }),
        1.. => (count as usize, End::Head),
        _ => (count.unsigned_abs() as usize, End::Tail),
    };
    let Some(mut list) = cx.edit::<List>(key)? else {
        out.int(0);
        return Ok(());
    };
    let removed = list.remove(args[3], max, from);
    drop(list);
    if removed > 0 {
        cx.touched(key);
        cx.notify(Classes::LIST, "lrem", key);
        cx.drop_if_empty::<List>(key);
        cx.dirty(removed as u64);
    }
    out.count(removed);
    Ok(())
}

pub(super) fn ltrim(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let key = args[1];
    let (start, end) = (args::int(args[2])?, args::int(args[3])?);
    out.ok();
    let Some(mut list) = cx.edit::<List>(key)? else { return Ok(()) };
    let before = list.len();
    let (start, count) = args::range(start, end, before);
    list.trim(start, count);
    drop(list);
    cx.notify(Classes::LIST, "ltrim", key);
    cx.drop_if_empty::<List>(key);
    cx.touched(key);
    cx.dirty((before - count) as u64);
    Ok(())
}

/// The bound of list chunks, as configured now.
fn chunk_limit(cx: &Ctx<'_>) -> ChunkLimit {
    ChunkLimit::from_config(cx.engine.settings.list_max_listpack_size)
}
