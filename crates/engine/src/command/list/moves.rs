//! Takes elements from lists that may not exist yet, and moves them between lists.
//!
//! A blocking command is tried when it arrives and, if it has to wait, again for each key that was
//! written to. A retry may only use that key, as Redis serves waiters key by key, and a key of
//! another type does not end the waiting. The log always gets the non-blocking command.

use super::{chunk_limit, pushed, removed, reply_popped};
use crate::{
    args,
    ctx::{Caller, Ctx},
    error::{Done, Error},
    resp::Reply,
    value::list::{End, List},
};

// ---- from one of several keys ------------------------------------------------------------------

pub(crate) fn blpop(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    blocking_pop(cx, args, End::Head, out)
}

pub(crate) fn brpop(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    blocking_pop(cx, args, End::Tail, out)
}

fn blocking_pop(cx: &mut Ctx<'_>, args: &[&[u8]], end: End, out: &mut Reply) -> Done {
    let (keys, timeout) = (&args[1..args.len() - 1], args[args.len() - 1]);
    let timeout_ms = args::timeout_ms(timeout)?;
    let Some(key) = first_list(cx, keys)? else {
        return wait(cx, keys, args, timeout_ms, out);
    };
    let Some(mut list) = cx.edit::<List>(key)? else { return Ok(()) };
    out.array(2);
    out.bulk(key);
    out.bulk_or_null(list.peek(end).as_deref());
    list.pop(end);
    drop(list);
    popped(cx, key, end, 1);
    cx.rewrite(&[pop_name(end), key]);
    Ok(())
}

pub(crate) fn lmpop(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let request = PopRequest::parse(&args[1..])?;
    match first_list(cx, request.keys)? {
        Some(key) => pop_many(cx, key, &request, out),
        None => {
            out.null_array();
            Ok(())
        }
    }
}

pub(crate) fn blmpop(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let request = PopRequest::parse(&args[2..])?;
    let timeout_ms = args::timeout_ms(args[1])?;
    match first_list(cx, request.keys)? {
        Some(key) => pop_many(cx, key, &request, out),
        None => wait(cx, request.keys, args, timeout_ms, out),
    }
}

/// What LMPOP asks for.
struct PopRequest<'a> {
    keys: &'a [&'a [u8]],
    end: End,
    count: usize,
}

impl<'a> PopRequest<'a> {
    /// Reads `numkeys key … LEFT|RIGHT [COUNT count]`.
    fn parse(args: &'a [&'a [u8]]) -> Result<Self, Error> {
        let refusal = Error::fixed("ERR numkeys should be greater than 0");
        let numkeys = args::positive_or(args[0], refusal)?;
        let rest = &args[1..];
        if numkeys >= rest.len() {
            return Err(Error::SYNTAX);
        }
        let (keys, rest) = rest.split_at(numkeys);
        let end = parse_end(rest[0])?;
        let count = match &rest[1..] {
            [] => 1,
            [option, count] if args::is(option, "count") => {
                args::positive_or(count, Error::fixed("ERR count should be greater than 0"))?
            }
            // Redis: a bad number is refused before what follows it.
            [option, count, ..] if args::is(option, "count") => {
                args::positive_or(count, Error::fixed("ERR count should be greater than 0"))?;
                return Err(Error::SYNTAX);
            }
            _ => return Err(Error::SYNTAX),
        };
        Ok(Self { keys, end, count })
    }
}

fn pop_many(cx: &mut Ctx<'_>, key: &[u8], request: &PopRequest<'_>, out: &mut Reply) -> Done {
    let Some(mut list) = cx.edit::<List>(key)? else { return Ok(()) };
    out.array(2);
    out.bulk(key);
    let count = reply_popped(&mut list, request.end, request.count, out);
    drop(list);
    popped(cx, key, request.end, count);
    let count = count.to_string();
    cx.rewrite(&[pop_name(request.end), key, count.as_bytes()]);
    Ok(())
}

/// The first of the keys that holds a list this call may take from.
fn first_list<'a>(cx: &mut Ctx<'_>, keys: &[&'a [u8]]) -> Result<Option<&'a [u8]>, Error> {
    for key in keys {
        if is_list(cx, key)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

fn is_list(cx: &mut Ctx<'_>, key: &[u8]) -> Result<bool, Error> {
    if !cx.may_serve(key) {
        return Ok(false);
    }
    let retry = cx.caller == Caller::Retry;
    match cx.edit::<List>(key) {
        Err(_) if retry => Ok(false),
        found => found.map(|list| list.is_some()),
    }
}

fn wait(
    cx: &mut Ctx<'_>,
    keys: &[&[u8]],
    args: &[&[u8]],
    timeout_ms: i64,
    out: &mut Reply,
) -> Done {
    if cx.may_block() {
        cx.park_on_keys(keys, args, timeout_ms);
    } else {
        out.null_array();
    }
    Ok(())
}

/// Reports that elements were taken from an end.
fn popped(cx: &mut Ctx<'_>, key: &[u8], end: End, count: usize) {
    removed(cx, key, end);
    cx.touched(key);
    cx.dirty(count as u64);
}

const fn pop_name(end: End) -> &'static [u8] {
    match end {
        End::Head => b"LPOP",
        End::Tail => b"RPOP",
    }
}

// ---- from one key to another -------------------------------------------------------------------

/// From which end of which list to which end of which.
struct Move<'a> {
    from: &'a [u8],
    to: &'a [u8],
    from_end: End,
    to_end: End,
}

pub(crate) fn lmove(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let (from_end, to_end) = (parse_end(args[3])?, parse_end(args[4])?);
    move_one(cx, &Move { from: args[1], to: args[2], from_end, to_end }, out)
}

pub(crate) fn rpoplpush(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let (from_end, to_end) = (End::Tail, End::Head);
    move_one(cx, &Move { from: args[1], to: args[2], from_end, to_end }, out)
}

pub(crate) fn blmove(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let (from_end, to_end) = (parse_end(args[3])?, parse_end(args[4])?);
    let timeout_ms = args::timeout_ms(args[5])?;
    let wanted = Move { from: args[1], to: args[2], from_end, to_end };
    if !move_or_wait(cx, &wanted, args, timeout_ms, out)? {
        return Ok(());
    }
    cx.rewrite(&[b"LMOVE", wanted.from, wanted.to, end_name(from_end), end_name(to_end)]);
    Ok(())
}

pub(crate) fn brpoplpush(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let timeout_ms = args::timeout_ms(args[3])?;
    let (from_end, to_end) = (End::Tail, End::Head);
    let wanted = Move { from: args[1], to: args[2], from_end, to_end };
    if move_or_wait(cx, &wanted, args, timeout_ms, out)? {
        cx.rewrite(&[b"RPOPLPUSH", wanted.from, wanted.to]);
    }
    Ok(())
}

/// Moves an element if there is one; else waits, or answers that there is none. Returns `true` if
/// it moved.
fn move_or_wait(
    cx: &mut Ctx<'_>,
    wanted: &Move<'_>,
    args: &[&[u8]],
    timeout_ms: i64,
    out: &mut Reply,
) -> Result<bool, Error> {
    if is_list(cx, wanted.from)? {
        move_one(cx, wanted, out)?;
        return Ok(true);
    }
    if cx.may_block() {
        cx.park_on_keys(&[wanted.from], args, timeout_ms);
    } else {
        out.null();
    }
    Ok(false)
}

fn move_one(cx: &mut Ctx<'_>, wanted: &Move<'_>, out: &mut Reply) -> Done {
    let &Move { from, to, from_end, to_end } = wanted;
    if cx.edit::<List>(from)?.is_none() {
        out.null();
        return Ok(());
    }
    cx.edit::<List>(to)?;
    let limit = chunk_limit(cx);
    let Some(mut list) = cx.edit::<List>(from)? else { return Ok(()) };
    let Some(item) = list.peek(from_end).map(|item| item.to_vec()) else { return Ok(()) };
    list.pop(from_end);
    drop(list);
    // Invariant: the types were checked above; a list that is its own destination may be empty for
    // a moment, but is still there.
    cx.edit_or_new(to, List::new)?.push(to_end, &item, limit);
    pushed(cx, to, to_end);
    out.bulk(&item);
    removed(cx, from, from_end);
    cx.touched(from);
    cx.dirty(1);
    Ok(())
}

fn parse_end(arg: &[u8]) -> Result<End, Error> {
    if args::is(arg, "right") {
        Ok(End::Tail)
    } else if args::is(arg, "left") {
        Ok(End::Head)
    } else {
        Err(Error::SYNTAX)
    }
}

const fn end_name(end: End) -> &'static [u8] {
    match end {
        End::Head => b"left",
        End::Tail => b"right",
    }
}
