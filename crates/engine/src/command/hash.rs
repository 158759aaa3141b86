//! Hashes: fields and their values.

mod random;

pub(super) use random::hrandfield;

use super::cursor::{self, ScanOptions, Scanned};
use crate::{
    args,
    ctx::Ctx,
    error::{Done, Error},
    notify::Classes,
    number::{self, Extended},
    resp::Reply,
    value::hash::{Hash, HashLimits},
};

pub(super) fn hset(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let created = set_fields(cx, args, "hset")?;
    out.count(created);
    Ok(())
}

pub(super) fn hmset(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    set_fields(cx, args, "hmset")?;
    out.ok();
    Ok(())
}

/// Sets fields in pairs; returns how many are new.
fn set_fields(cx: &mut Ctx<'_>, args: &[&[u8]], name: &str) -> Result<usize, Error> {
    let (key, pairs) = (args[1], &args[2..]);
    if pairs.len() % 2 != 0 {
        return Err(Error::arity(name));
    }
    let limits = limits(cx);
    let mut hash = cx.edit_or_new(key, Hash::new)?;
    let created = pairs.chunks_exact(2).filter(|pair| hash.set(pair[0], pair[1], &limits)).count();
    drop(hash);
    cx.touched(key);
    cx.notify(Classes::HASH, "hset", key);
    cx.dirty(pairs.len() as u64 / 2);
    Ok(created)
}

pub(super) fn hsetnx(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let (key, field, value) = (args[1], args[2], args[3]);
    let limits = limits(cx);
    let mut hash = cx.edit_or_new(key, Hash::new)?;
    if hash.contains(field) {
        out.int(0);
        return Ok(());
    }
    hash.set(field, value, &limits);
    drop(hash);
    out.int(1);
    cx.wrote(key, Classes::HASH, "hset");
    Ok(())
}

pub(super) fn hincrby(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let (key, field) = (args[1], args[2]);
    let increment = args::int(args[3])?;
    let limits = limits(cx);
    let old = match cx.edit::<Hash>(key)?.as_ref().and_then(|hash| hash.get(field)) {
        None => 0,
        Some(value) => {
            number::parse_i64(&value).ok_or(Error::fixed("ERR hash value is not an integer"))?
        }
    };
    let new = old.checked_add(increment).ok_or(Error::OVERFLOW)?;
    let digits = itoa::Buffer::new().format(new).to_owned();
    cx.edit_or_new(key, Hash::new)?.set(field, digits.as_bytes(), &limits);
    out.int(new);
    cx.wrote(key, Classes::HASH, "hincrby");
    Ok(())
}

pub(super) fn hincrbyfloat(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let (key, field) = (args[1], args[2]);
    let increment = Extended::parse(args[3]).ok_or(Error::NOT_FLOAT)?;
    if !increment.is_finite() {
        return Err(Error::fixed("ERR value is NaN or Infinity"));
    }
    let limits = limits(cx);
    let old = match cx.edit::<Hash>(key)?.as_ref().and_then(|hash| hash.get(field)) {
        None => Extended::from(0),
        Some(value) => {
            Extended::parse(&value).ok_or(Error::fixed("ERR hash value is not a float"))?
        }
    };
    let new = old + increment;
    if !new.is_finite() {
        return Err(Error::NAN_OR_INF);
    }
    let mut text = Vec::new();
    new.write_human(&mut text);
    cx.edit_or_new(key, Hash::new)?.set(field, &text, &limits);
    out.bulk(&text);
    cx.wrote(key, Classes::HASH, "hincrbyfloat");
    cx.rewrite(&[b"HSET", key, field, &text]);
    Ok(())
}

pub(super) fn hget(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let value = cx.get::<Hash>(args[1])?.and_then(|hash| hash.get(args[2]));
    out.bulk_or_null(value.as_deref());
    Ok(())
}

pub(super) fn hmget(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let hash = cx.get::<Hash>(args[1])?;
    out.array(args.len() - 2);
    for field in &args[2..] {
        out.bulk_or_null(hash.and_then(|hash| hash.get(field)).as_deref());
    }
    Ok(())
}

pub(super) fn hexists(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let found = cx.get::<Hash>(args[1])?.is_some_and(|hash| hash.contains(args[2]));
    out.int(i64::from(found));
    Ok(())
}

pub(super) fn hlen(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    out.count(cx.get::<Hash>(args[1])?.map_or(0, Hash::len));
    Ok(())
}

pub(super) fn hstrlen(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let value = cx.get::<Hash>(args[1])?.and_then(|hash| hash.get(args[2]));
    out.count(value.map_or(0, |value| value.len()));
    Ok(())
}

pub(super) fn hdel(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let key = args[1];
    let Some(mut hash) = cx.edit::<Hash>(key)? else {
        out.int(0);
        return Ok(());
    };
    let removed = args[2..].iter().filter(|field| hash.remove(field)).count();
    drop(hash);
    if removed > 0 {
        cx.touched(key);
        cx.notify(Classes::HASH, "hdel", key);
        cx.drop_if_empty::<Hash>(key);
        cx.dirty(removed as u64);
    }
    out.count(removed);
    Ok(())
}

pub(super) fn hgetall(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let hash = cx.get::<Hash>(args[1])?;
    out.map(hash.map_or(0, Hash::len));
    for (field, value) in hash.into_iter().flat_map(Hash::iter) {
        out.bulk(&field);
        out.bulk(&value);
    }
    Ok(())
}

pub(super) fn hkeys(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let hash = cx.get::<Hash>(args[1])?;
    out.array(hash.map_or(0, Hash::len));
    hash.into_iter().flat_map(Hash::iter).for_each(|(field, _)| out.bulk(&field));
    Ok(())
}

pub(super) fn hvals(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let hash = cx.get::<Hash>(args[1])?;
    out.array(hash.map_or(0, Hash::len));
    hash.into_iter().flat_map(Hash::iter).for_each(|(_, value)| out.bulk(&value));
    Ok(())
}

pub(super) fn hscan(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let cursor = cursor::parse_cursor(args[2])?;
    let Some(hash) = cx.get::<Hash>(args[1])? else {
        cursor::reply_empty(out);
        return Ok(());
    };
    let options = ScanOptions::parse(&args[3..], Scanned::Elements)?;
    cursor::reply(out, |out| {
        let mut shown = 0;
        let next = hash.scan(cursor, options.count, |field, value| {
            if options.matches(field) {
                out.bulk(field);
                out.bulk(value);
                shown += 2;
            }
        });
        (next, shown)
    });
    Ok(())
}

/// When hashes change their encoding, as configured now.
fn limits(cx: &mut Ctx<'_>) -> HashLimits {
    let seed = cx.seed();
    let settings = &cx.engine.settings;
    HashLimits {
        max_entries: usize::try_from(settings.hash_max_listpack_entries).unwrap_or(usize::MAX),
        max_value: usize::try_from(settings.hash_max_listpack_value).unwrap_or(usize::MAX),
        seed,
    }
}
