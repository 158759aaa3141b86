//! SPOP and SRANDMEMBER.
//!
//! The popped members are random, so the log gets their removal.

use super::super::pick;
use crate::{
    args,
    ctx::Ctx,
    error::{Done, Error},
    notify::Classes,
    resp::Reply,
    value::{Kind, set::Set},
};

pub(crate) fn spop(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let (key, count) = match *args {
        [_, key] => (key, None),
        [_, key, count] => (key, Some(args::count(count)?)),
        _ => return Err(Error::SYNTAX),
    };
    let Some(set) = cx.edit::<Set>(key)? else {
        if count.is_some() {
            out.set(0);
        } else {
            out.null();
        }
        return Ok(());
    };
    let len = set.len();
    drop(set);
    match count {
        None => {
            let Some(member) = pop_one(cx, key)? else { return Ok(()) };
            out.bulk(&member);
            cx.rewrite(&[b"SREM", key, &member]);
            popped(cx, key, 1);
        }
        Some(0) => out.set(0),
        Some(count) if count >= len => {
            if let Some(set) = cx.edit::<Set>(key)? {
                out.set(len);
                set.iter().for_each(|member| out.bulk(&member));
            }
            cx.notify(Classes::SET, "spop", key);
            cx.remove(key);
            cx.notify(Classes::GENERIC, "del", key);
            cx.rewrite(&[b"DEL", key]);
            cx.touched(key);
            cx.dirty(len as u64);
        }
        Some(count) => {
            out.set(count);
            for _ in 0..count {
                let Some(member) = pop_one(cx, key)? else { break };
                out.bulk(&member);
                cx.rewrite(&[b"SREM", key, &member]);
            }
            popped(cx, key, count);
        }
    }
    Ok(())
}

fn pop_one(cx: &mut Ctx<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let engine = &mut *cx.engine;
    let set = engine.dbs[cx.db as usize].get(key).and_then(|entry| Set::of(entry.value()));
    let Some(member) = set.and_then(|set| set.random(&mut engine.rng)).map(|m| m.to_vec()) else {
        return Ok(None);
    };
    if let Some(mut set) = engine.dbs[cx.db as usize].edit::<Set>(key) {
        set.remove(&member);
    }
    Ok(Some(member))
}

fn popped(cx: &mut Ctx<'_>, key: &[u8], count: usize) {
    cx.notify(Classes::SET, "spop", key);
    cx.drop_if_empty::<Set>(key);
    cx.touched(key);
    cx.dirty(count as u64);
}

pub(crate) fn srandmember(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let (key, count) = match *args {
        [_, key] => (key, None),
        [_, key, count] => (key, Some(args::signed_count(count)?)),
        _ => return Err(Error::SYNTAX),
    };
    if cx.get::<Set>(key)?.is_none() {
        if count.is_some() {
            out.array(0);
        } else {
            out.null();
        }
        return Ok(());
    }
    let engine = &mut *cx.engine;
    let rng = &mut engine.rng;
    let entry = engine.dbs[cx.db as usize].get(key);
    let Some(set) = entry.and_then(|entry| Set::of(entry.value())) else { return Ok(()) };
    match count {
        None => out.bulk_or_null(set.random(rng).as_deref()),
        Some(count @ (1 | ..=-1)) => {
            let count = pick::repeated(count)?;
            out.array(count);
            (0..count).for_each(|_| out.bulk_or_null(set.random(rng).as_deref()));
        }
        Some(count) if count as usize >= set.len() => {
            out.array(set.len());
            set.iter().for_each(|member| out.bulk(&member));
        }
        Some(count) => {
            let count = count as usize;
            out.array(count);
            pick::distinct(
                (count, set.len()),
                rng,
                || set.iter(),
                |rng| set.random(rng),
                |member| member,
                |member| out.bulk(&member),
            );
        }
    }
    Ok(())
}
