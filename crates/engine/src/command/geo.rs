//! Geo commands: positions in sorted sets.
//!
//! GEOADD is ZADD with scores made of coordinates, so a geo set is a sorted set and every other
//! command works on it. The searches are in `search`.

mod search;

pub(super) use search::{
    georadius, georadius_ro, georadiusbymember, georadiusbymember_ro, geosearch, geosearchstore,
};

use smallvec::SmallVec;

use super::zset::{Add, add_members};
use crate::args::{self, is};
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::geo::{self, Position};
use crate::number;
use crate::resp::Reply;
use crate::value::zset::ZSet;

/// GEOADD key [NX|XX] [CH] longitude latitude member …
pub(super) fn geoadd(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let mut add = Add::default();
    let mut rest = &args[2..];
    while let [word, more @ ..] = rest {
        match word {
            _ if is(word, "nx") => add.rule.only_new = true,
            _ if is(word, "xx") => add.rule.only_existing = true,
            _ if is(word, "ch") => add.count_changed = true,
            _ => break,
        }
        rest = more;
    }
    let both = add.rule.only_new && add.rule.only_existing;
    if rest.is_empty() || !rest.len().is_multiple_of(3) || both {
        return Err(Error::SYNTAX);
    }
    let mut pairs = SmallVec::<[(f64, &[u8]); 8]>::new();
    for triple in rest.chunks_exact(3) {
        pairs.push((position(triple[0], triple[1])?.score(), triple[2]));
    }
    add_members(cx, args[1], add, &pairs, out)
}

/// GEOPOS key [member …]
pub(super) fn geopos(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let set = cx.get::<ZSet>(args[1])?;
    out.array(args.len() - 2);
    for member in &args[2..] {
        match set.and_then(|set| set.score(member)) {
            Some(score) => reply_position(out, &Position::from_score(score)),
            None => out.null_array(),
        }
    }
    Ok(())
}

/// GEOHASH key [member …]
pub(super) fn geohash(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let set = cx.get::<ZSet>(args[1])?;
    out.array(args.len() - 2);
    for member in &args[2..] {
        match set.and_then(|set| set.score(member)) {
            Some(score) => out.bulk(&geo::geohash_text(&Position::from_score(score))),
            None => out.null(),
        }
    }
    Ok(())
}

/// GEODIST key member1 member2 [M|KM|FT|MI]
pub(super) fn geodist(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let metres = match &args[4..] {
        [] => 1.0,
        [name] => unit_m(name)?,
        _ => return Err(Error::SYNTAX),
    };
    let scores = cx.get::<ZSet>(args[1])?.and_then(|set| {
        let [a, b] = [args[2], args[3]].map(|member| set.score(member));
        a.zip(b)
    });
    match scores {
        Some((a, b)) => {
            let distance = Position::from_score(a).distance_m(&Position::from_score(b));
            reply_distance(out, distance / metres);
        }
        None => out.null(),
    }
    Ok(())
}

/// Reads a position that can be stored.
fn position(longitude: &[u8], latitude: &[u8]) -> Result<Position, Error> {
    let position =
        Position { longitude: args::float(longitude)?, latitude: args::float(latitude)? };
    if position.is_valid() {
        return Ok(position);
    }
    let Position { longitude, latitude } = position;
    let mut text = b"ERR invalid longitude,latitude pair ".to_vec();
    number::format_f(&mut text, longitude, 6);
    text.push(b',');
    number::format_f(&mut text, latitude, 6);
    Err(Error::new(String::from_utf8_lossy(&text)))
}

/// How many metres a unit has.
fn unit_m(name: &[u8]) -> Result<f64, Error> {
    [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)]
        .into_iter()
        .find(|(unit, _)| is(name, unit))
        .map(|(_, metres)| metres)
        .ok_or(Error::fixed("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// Distances have four decimals and are bulk strings in both protocols.
fn reply_distance(out: &mut Reply, distance: f64) {
    let mut text = Vec::with_capacity(24);
    number::format_fixed(&mut text, distance, 4);
    out.bulk(&text);
}

fn reply_position(out: &mut Reply, position: &Position) {
    out.array(2);
    for degrees in [position.longitude, position.latitude] {
        let mut text = Vec::with_capacity(24);
        number::format_human(&mut text, degrees);
        if out.is_resp3() {
            text.insert(0, b',');
            text.extend_from_slice(b"\r\n");
            out.raw(&text);
        } else {
            out.bulk(&text);
        }
    }
}
