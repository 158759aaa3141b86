//! Strings edited in place: parts, lengths, floats.

use std::ops::Range;

use crate::args;
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::keyspace::Str;
use crate::notify::Classes;
use crate::number::Extended;
use crate::resp::Reply;
use crate::value::LARGE_STRING;

const TOO_LONG: Error =
    Error::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

/// Refuses strings that no reply could carry.
pub(super) fn check_length(cx: &Ctx<'_>, len: u64) -> Result<(), Error> {
    if len > cx.engine.settings.proto_max_bulk_len { Err(TOO_LONG) } else { Ok(()) }
}

pub(super) fn strlen(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    out.count(cx.str(a[1])?.map_or(0, Str::len));
    Ok(())
}

pub(super) fn append(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let len = match cx.str(a[1])? {
        None => {
            cx.set_string(a[1], a[2]);
            a[2].len()
        }
        Some(old) => {
            let len = old.len() + a[2].len();
            check_length(cx, len as u64)?;
            cx.db().edit_string(a[1], |entry| {
                entry.raw_mut().expect("the key holds a string").extend_from_slice(a[2]);
            });
            len
        }
    };
    cx.wrote(a[1], Classes::STRING, "append");
    out.count(len);
    Ok(())
}

pub(super) fn setrange(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let offset = args::int(a[2])?;
    let offset = usize::try_from(offset).map_err(|_| Error::fixed("ERR offset is out of range"))?;
    let old = cx.str(a[1])?.map(Str::len);
    if a[3].is_empty() {
        out.count(old.unwrap_or(0));
        return Ok(());
    }
    check_length(cx, (offset as u64).saturating_add(a[3].len() as u64))?;
    if old.is_none() {
        cx.set_string(a[1], b"");
    }
    let len = cx.db().edit_string(a[1], |entry| {
        let bytes = entry.raw_mut().expect("the key holds a string");
        if bytes.len() < offset + a[3].len() {
            bytes.resize(offset + a[3].len(), 0);
        }
        bytes[offset..offset + a[3].len()].copy_from_slice(a[3]);
        bytes.len()
    });
    cx.wrote(a[1], Classes::STRING, "setrange");
    out.count(len.expect("the key was found or made"));
    Ok(())
}

pub(super) fn getrange(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let (start, end) = (args::int(a[2])?, args::int(a[3])?);
    let Some(value) = cx.str(a[1])? else {
        out.bulk(b"");
        return Ok(());
    };
    let range = part(value.len(), start, end);
    match value {
        Str::Large(bytes) if range.len() >= LARGE_STRING => out.bulk_shared(bytes, range),
        _ => out.bulk(&value.bytes(&mut itoa::Buffer::new())[range]),
    }
    Ok(())
}

/// From `start` to `end` inclusive; negative positions count from the end.
fn part(len: usize, start: i64, end: i64) -> Range<usize> {
    let len = len as i64;
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let from_end = |i: i64| if i < 0 { (len + i).max(0) } else { i };
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    if start > end || len == 0 { 0..0 } else { start as usize..end as usize + 1 }
}

pub(super) fn substr(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    getrange(cx, a, out)
}

pub(super) fn incrbyfloat(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let old = match cx.str(a[1])? {
        None => b"0".to_vec(),
        Some(value) => value.to_vec(),
    };
    let old = Extended::parse(&old).ok_or(Error::NOT_FLOAT)?;
    let by = Extended::parse(a[2]).ok_or(Error::NOT_FLOAT)?;
    let sum = old + by;
    if !sum.is_finite() {
        return Err(Error::NAN_OR_INF);
    }
    let mut text = Vec::new();
    sum.write_human(&mut text);
    cx.set_text_keep_ttl(a[1], &text);
    cx.wrote(a[1], Classes::STRING, "incrbyfloat");
    cx.rewrite(&[b"SET", a[1], text.as_slice(), b"KEEPTTL"]);
    out.bulk(&text);
    Ok(())
}
