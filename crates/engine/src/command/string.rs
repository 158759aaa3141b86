//! Strings: single values. Ranges and floats are in `string_edit`, LCS in `string_lcs`.

use super::expire::{Lifetime, Unit};
use crate::args::{self, is};
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::keyspace::{Entry, NEVER, Str};
use crate::notify::Classes;
use crate::number;
use crate::resp::Reply;

pub(super) use super::string_edit::{append, getrange, incrbyfloat, setrange, strlen, substr};
pub(super) use super::string_lcs::lcs;

/// Writes a string value as a bulk reply.
pub(super) fn reply_str(out: &mut Reply, value: Option<Str<'_>>) {
    match value {
        None => out.null(),
        Some(Str::Int(n)) => out.bulk_int(n),
        Some(Str::Bytes(bytes)) => out.bulk(bytes),
        Some(Str::Large(bytes)) => out.bulk_shared(bytes, 0..bytes.len()),
    }
}

pub(super) fn get(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    reply_str(out, cx.str(a[1])?);
    Ok(())
}

/// What SET was asked for beyond key and value.
#[derive(Default)]
struct SetOptions {
    only_new: bool,
    only_existing: bool,
    get: bool,
    keep_ttl: bool,
    lifetime: Option<Lifetime>,
}

impl SetOptions {
    fn parse(a: &[&[u8]]) -> Result<SetOptions, Error> {
        let mut options = SetOptions::default();
        let mut i = 3;
        while i < a.len() {
            let word = a[i];
            if is(word, "nx") && !options.only_existing {
                options.only_new = true;
            } else if is(word, "xx") && !options.only_new {
                options.only_existing = true;
            } else if is(word, "get") {
                options.get = true;
            } else if is(word, "keepttl") && options.lifetime.is_none() {
                options.keep_ttl = true;
            } else if let Some(unit) = Unit::of_option(word)
                && unit.may_replace(options.lifetime.as_ref())
                && !options.keep_ttl
                && i + 1 < a.len()
            {
                options.lifetime = Some(Lifetime { unit, text: a[i + 1].to_vec() });
                i += 1;
            } else {
                return Err(Error::SYNTAX);
            }
            i += 1;
        }
        Ok(options)
    }
}

pub(super) fn set(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    if a.len() == 3 {
        cx.expire_if_due(a[1]);
        cx.set_string(a[1], a[2]);
        cx.wrote(a[1], Classes::STRING, "set");
        out.ok();
        return Ok(());
    }
    let options = SetOptions::parse(a)?;
    let deadline = match &options.lifetime {
        Some(lifetime) => Some(lifetime.deadline("set", cx.now)?),
        None => None,
    };
    if options.get {
        reply_str(out, cx.str(a[1])?);
    }
    let found = cx.exists(a[1]);
    if (options.only_new && found) || (options.only_existing && !found) {
        if !options.get {
            out.null();
        }
        return Ok(());
    }
    if options.keep_ttl {
        cx.set_string_keep_ttl(a[1], a[2]);
    } else {
        cx.set_string(a[1], a[2]);
    }
    cx.wrote(a[1], Classes::STRING, "set");
    if let Some(deadline) = deadline {
        set_deadline_after_write(cx, a[1], a[2], deadline);
    }
    if !options.get {
        out.ok();
    }
    Ok(())
}

/// Gives a key that was just set its lifetime, and the log the absolute form of both.
fn set_deadline_after_write(cx: &mut Ctx<'_>, key: &[u8], value: &[u8], deadline: i64) {
    cx.db().set_deadline(key, deadline);
    cx.notify(Classes::GENERIC, "expire", key);
    let at = deadline.to_string();
    cx.rewrite(&[b"SET".as_slice(), key, value, b"PXAT", at.as_bytes()]);
}

pub(super) fn setnx(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    if cx.exists(a[1]) {
        out.int(0);
        return Ok(());
    }
    cx.set_string(a[1], a[2]);
    cx.wrote(a[1], Classes::STRING, "set");
    out.int(1);
    Ok(())
}

fn set_with_lifetime(cx: &mut Ctx<'_>, a: &[&[u8]], unit: Unit, out: &mut Reply) -> Done {
    let lifetime = Lifetime { unit, text: a[2].to_vec() };
    let deadline = lifetime.deadline(cx.command.name, cx.now)?;
    cx.expire_if_due(a[1]);
    cx.set_string(a[1], a[3]);
    cx.wrote(a[1], Classes::STRING, "set");
    set_deadline_after_write(cx, a[1], a[3], deadline);
    out.ok();
    Ok(())
}

pub(super) fn setex(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    set_with_lifetime(cx, a, Unit::Seconds, out)
}

pub(super) fn psetex(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    set_with_lifetime(cx, a, Unit::Millis, out)
}

pub(super) fn getset(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    reply_str(out, cx.str(a[1])?);
    cx.set_string(a[1], a[2]);
    cx.wrote(a[1], Classes::STRING, "set");
    cx.rewrite(&[b"SET", a[1], a[2]]);
    Ok(())
}

pub(super) fn getdel(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let value = cx.str(a[1])?;
    let found = value.is_some();
    reply_str(out, value);
    if found {
        cx.remove(a[1]);
        cx.wrote(a[1], Classes::GENERIC, "del");
        cx.rewrite(&[b"DEL", a[1]]);
    }
    Ok(())
}

pub(super) fn getex(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let mut lifetime: Option<Lifetime> = None;
    let mut persist = false;
    let mut words = &a[2..];
    while let [word, rest @ ..] = words {
        words = rest;
        if is(word, "persist") && lifetime.is_none() {
            persist = true;
        } else if let Some(unit) = Unit::of_option(word)
            && unit.may_replace(lifetime.as_ref())
            && !persist
            && let [text, rest @ ..] = rest
        {
            lifetime = Some(Lifetime { unit, text: text.to_vec() });
            words = rest;
        } else {
            return Err(Error::SYNTAX);
        }
    }
    let Some(value) = cx.str(a[1])? else {
        out.null();
        return Ok(());
    };
    reply_str(out, Some(value));
    let now = cx.now;
    if let Some(lifetime) = lifetime {
        let deadline = lifetime.deadline("getex", now)?;
        if deadline <= now {
            cx.remove(a[1]);
            cx.wrote(a[1], Classes::GENERIC, "del");
            cx.rewrite(&[b"DEL", a[1]]);
        } else {
            cx.db().set_deadline(a[1], deadline);
            cx.wrote(a[1], Classes::GENERIC, "expire");
            let at = deadline.to_string();
            cx.rewrite(&[b"PEXPIREAT", a[1], at.as_bytes()]);
        }
    } else if persist && cx.peek(a[1]).is_some_and(|entry| entry.expires_at().is_some()) {
        cx.db().set_deadline(a[1], NEVER);
        cx.wrote(a[1], Classes::GENERIC, "persist");
        cx.rewrite(&[b"PERSIST", a[1]]);
    }
    Ok(())
}

pub(super) fn mget(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    out.array(a.len() - 1);
    for key in &a[1..] {
        reply_str(out, cx.read(key).and_then(Entry::str));
    }
    Ok(())
}

fn set_many(cx: &mut Ctx<'_>, a: &[&[u8]]) {
    for pair in a[1..].chunks_exact(2) {
        cx.expire_if_due(pair[0]);
        cx.set_string(pair[0], pair[1]);
        cx.wrote(pair[0], Classes::STRING, "set");
    }
}

pub(super) fn mset(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    if a.len().is_multiple_of(2) {
        return Err(Error::arity("mset"));
    }
    set_many(cx, a);
    out.ok();
    Ok(())
}

pub(super) fn msetnx(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    if a.len().is_multiple_of(2) {
        return Err(Error::arity("msetnx"));
    }
    if a[1..].iter().step_by(2).any(|key| cx.exists(key)) {
        out.int(0);
        return Ok(());
    }
    set_many(cx, a);
    out.int(1);
    Ok(())
}

fn add(cx: &mut Ctx<'_>, key: &[u8], by: i64, out: &mut Reply) -> Done {
    let old = match cx.str(key)? {
        None => 0,
        Some(Str::Int(n)) => n,
        Some(Str::Bytes(bytes)) => number::parse_i64(bytes).ok_or(Error::NOT_INTEGER)?,
        Some(Str::Large(_)) => return Err(Error::NOT_INTEGER),
    };
    let new = old.checked_add(by).ok_or(Error::OVERFLOW)?;
    if cx.db().edit_string(key, |entry| entry.set_int(new)).is_none() {
        cx.set_string(key, itoa::Buffer::new().format(new).as_bytes());
    }
    cx.wrote(key, Classes::STRING, "incrby");
    out.int(new);
    Ok(())
}

pub(super) fn incr(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    add(cx, a[1], 1, out)
}

pub(super) fn decr(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    add(cx, a[1], -1, out)
}

pub(super) fn incrby(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    add(cx, a[1], args::int(a[2])?, out)
}

pub(super) fn decrby(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let by = args::int(a[2])?.checked_neg();
    add(cx, a[1], by.ok_or(Error::fixed("ERR decrement would overflow"))?, out)
}
