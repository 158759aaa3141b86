//! HRANDFIELD.

use super::super::pick;
use crate::{
    args,
    ctx::Ctx,
    error::{Done, Error},
    resp::Reply,
    value::{Kind, elem::Elem, hash::Hash},
};

pub(crate) fn hrandfield(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let key = args[1];
    let Some(count) = args.get(2) else {
        cx.get::<Hash>(key)?;
        let engine = &mut *cx.engine;
        let hash = engine.dbs[cx.db as usize].get(key).and_then(|entry| Hash::of(entry.value()));
        let picked = hash.and_then(|hash| hash.random(&mut engine.rng));
        out.bulk_or_null(picked.as_ref().map(|(field, _)| &**field));
        return Ok(());
    };
    let count = args::signed_count(count)?;
    let with_values = match &args[3..] {
        [] => false,
        [word] if args::is(word, "withvalues") => true,
        _ => return Err(Error::SYNTAX),
    };
    if with_values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(Error::fixed("ERR value is out of range"));
    }
    if cx.get::<Hash>(key)?.is_none() {
        out.array(0);
        return Ok(());
    }
    several(cx, key, count, with_values, out)
}

fn several(cx: &mut Ctx<'_>, key: &[u8], count: i64, with_values: bool, out: &mut Reply) -> Done {
    let engine = &mut *cx.engine;
    let rng = &mut engine.rng;
    let entry = engine.dbs[cx.db as usize].get(key);
    let Some(hash) = entry.and_then(|entry| Hash::of(entry.value())) else { return Ok(()) };
    // RESP3 nests each pair; RESP2 has one flat array.
    let nested = with_values && out.is_resp3();
    let flat_values = with_values && !nested;
    let header = |count: usize, out: &mut Reply| {
        out.array(if flat_values { count * 2 } else { count });
    };
    let show = |(field, value): (Elem<'_>, Elem<'_>), out: &mut Reply| {
        if nested {
            out.array(2);
        }
        out.bulk(&field);
        if with_values {
            out.bulk(&value);
        }
    };
    match count {
        1 | ..=-1 => {
            let count = pick::repeated(count)?;
            header(count, out);
            (0..count).filter_map(|_| hash.random(rng)).for_each(|pair| show(pair, out));
        }
        _ if count as usize >= hash.len() => {
            header(hash.len(), out);
            hash.iter().for_each(|pair| show(pair, out));
        }
        _ => {
            let count = count as usize;
            header(count, out);
            pick::distinct(
                (count, hash.len()),
                rng,
                || hash.iter(),
                |rng| hash.random(rng),
                |(field, _)| field,
                |pair| show(pair, out),
            );
        }
    }
    Ok(())
}
