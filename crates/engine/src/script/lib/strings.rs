//! The functions of `string` that take a pattern, and `rep`.
//!
//! Lua's own run in C: they recurse without a bound, cannot be interrupted, and grow without a
//! bound. These search through [`super::pattern`], count their work for SCRIPT KILL and check
//! the size of a result before they make it. What calls back into the script (`gsub` with a function
//! or a table) and what is kept between calls (`gmatch`) is Lua code in `prelude.rs`, so that errors
//! pass through unchanged and everything a script holds is in Lua's memory.

use mlua::{Lua, Table, Value, Variadic};

use super::super::api::Shared;
use super::super::arguments::{Arguments, integer, integer_or, string};
use super::super::{MAX_STRING_BYTES, fail};
use super::pattern::{Extent, Matcher, Stop};

/// Characters that make a pattern more than plain text.
const SPECIAL: &[u8] = b"^$*+?.([%-";
/// Bytes copied that count as one step.
const BYTES_PER_STEP: u64 = 64;

type Values = Variadic<Value>;

/// Puts the functions into the table `string`.
pub(crate) fn install(lua: &Lua, strings: &Table, shared: &Shared) -> mlua::Result<()> {
    type Work = fn(&Lua, &Shared, &Arguments) -> mlua::Result<Values>;
    let works: [(&str, Work); 6] = [
        ("find", |lua, shared, args| find(lua, shared, args, true)),
        ("match", |lua, shared, args| find(lua, shared, args, false)),
        ("gsub", gsub),
        ("gmatch", check_gmatch),
        ("rep", rep),
        ("search", search),
    ];
    for (name, work) in works {
        let shared = shared.clone();
        let function =
            lua.create_function(move |lua, args: Arguments| work(lua, &shared, &args))?;
        strings.raw_set(name, function)?;
    }
    Ok(())
}

/// `string.find` and `string.match`.
fn find(lua: &Lua, shared: &Shared, args: &Arguments, positions: bool) -> mlua::Result<Values> {
    let (src, pattern) = (string(lua, args, 0)?, string(lua, args, 1)?);
    let (src, pattern) = (src.as_bytes(), pattern.as_bytes());
    let init = integer_or(lua, args, 2, 1)?;
    let init = if init < 0 { init.saturating_add(src.len() as i64 + 1).max(0) } else { init };
    let from = usize::try_from(init.max(1) - 1).unwrap_or(usize::MAX).min(src.len());
    let plain = positions && (is_true(args.get(3)) || is_plain(&pattern));
    if plain {
        shared.spend((src.len() - from) as u64 / BYTES_PER_STEP)?;
        let found = memchr::memmem::find(&src[from..], &pattern);
        return Ok(match found {
            Some(at) => {
                let start = from + at;
                Values::from_iter([number(start + 1), number(start + pattern.len())])
            }
            None => Values::from_iter([Value::Nil]),
        });
    }
    let mut matcher = Matcher::new(&src, &pattern, true, shared);
    let found = matcher.search(from).map_err(|stop| stop.into_error(lua))?;
    let Some(place) = found else { return Ok(Values::from_iter([Value::Nil])) };
    let mut values = Values::new();
    let mut count = matcher.values();
    if positions {
        values.extend([number(place.0 + 1), number(place.1)]);
        count = matcher.captures();
    }
    push_values(lua, &matcher, &src, place, count, &mut values)?;
    Ok(values)
}

/// Checks the arguments of `string.gmatch`; gives both as strings.
fn check_gmatch(lua: &Lua, _: &Shared, args: &Arguments) -> mlua::Result<Values> {
    let (src, pattern) = (string(lua, args, 0)?, string(lua, args, 1)?);
    Ok(Values::from_iter([Value::String(src), Value::String(pattern)]))
}

/// For `gmatch` and `gsub`: the next match from a position on, as `start, end, values …`; nothing at
/// the end. The fourth argument says whether `^` is an anchor, the fifth that the first value is enough.
fn search(lua: &Lua, shared: &Shared, args: &Arguments) -> mlua::Result<Values> {
    let (src, pattern) = (string(lua, args, 0)?, string(lua, args, 1)?);
    let (src, pattern) = (src.as_bytes(), pattern.as_bytes());
    let from = usize::try_from(integer(lua, args, 2)?).unwrap_or(usize::MAX);
    if from > src.len() {
        return Ok(Values::new());
    }
    let mut matcher = Matcher::new(&src, &pattern, is_true(args.get(3)), shared);
    let found = matcher.search(from).map_err(|stop| stop.into_error(lua))?;
    let Some(place) = found else { return Ok(Values::new()) };
    let mut values = Values::from_iter([number(place.0), number(place.1)]);
    let count = if is_true(args.get(4)) { 1 } else { matcher.values() };
    push_values(lua, &matcher, &src, place, count, &mut values)?;
    Ok(values)
}

/// `string.gsub` with a text as replacement. With a function or a table as the third argument it
/// only checks: it gives subject, pattern, bound and whether the pattern is anchored.
fn gsub(lua: &Lua, shared: &Shared, args: &Arguments) -> mlua::Result<Values> {
    let (text, pattern) = (string(lua, args, 0)?, string(lua, args, 1)?);
    let src = text.as_bytes();
    let most = i64::from(integer_or(lua, args, 3, src.len() as i64 + 1)? as i32);
    let with = match args.get(2) {
        Some(Value::String(_) | Value::Integer(_) | Value::Number(_)) => string(lua, args, 2)?,
        Some(Value::Function(_) | Value::Table(_)) => {
            let anchored = pattern.as_bytes().first() == Some(&b'^');
            let most = Value::Number(most as f64);
            let (text, pattern) = (Value::String(text.clone()), Value::String(pattern));
            return Ok(Values::from_iter([text, pattern, most, Value::Boolean(anchored)]));
        }
        _ => return Err(fail::bad_argument(lua, 3, "string/function/table expected")),
    };
    let (pattern, with) = (pattern.as_bytes(), with.as_bytes());
    let mut matcher = Matcher::new(&src, &pattern, true, shared);
    let (mut out, mut copied, mut from, mut count) = (Vec::new(), 0, 0, 0);
    while count < most && from <= src.len() {
        let found = matcher.search(from).map_err(|stop| stop.into_error(lua))?;
        let Some((start, end)) = found else { break };
        count += 1;
        append(&mut out, &src[copied..start])?;
        replace(lua, &mut out, &matcher, &src, (start, end), &with)?;
        shared.spend((end - copied + with.len()) as u64 / BYTES_PER_STEP)?;
        copied = end;
        from = if end > start { end } else { end + 1 };
        if matcher.is_anchored() {
            break;
        }
    }
    append(&mut out, &src[copied..])?;
    Ok(Values::from_iter([Value::String(lua.create_string(&out)?), Value::Number(count as f64)]))
}

/// Appends the replacement of one match: `%0` to `%9` stand for what was matched.
fn replace(
    lua: &Lua,
    out: &mut Vec<u8>,
    matcher: &Matcher<'_>,
    src: &[u8],
    place: (usize, usize),
    with: &[u8],
) -> mlua::Result<()> {
    let mut rest = with;
    while let Some(at) = memchr::memchr(b'%', rest) {
        append(out, &rest[..at])?;
        // A lone `%` at the end stands for the zero byte behind the text, as in C.
        let code = rest.get(at + 1).copied().unwrap_or(0);
        rest = rest.get(at + 2..).unwrap_or_default();
        match code {
            b'0' => append(out, &src[place.0..place.1])?,
            b'1'..=b'9' => {
                let index = usize::from(code - b'1');
                let value = matcher.value(index, place);
                match value.map_err(|stop: Stop| stop.into_error(lua))? {
                    (from, Extent::Bytes(len)) => append(out, &src[from..from + len])?,
                    (from, _) => append(out, (from + 1).to_string().as_bytes())?,
                }
            }
            other => append(out, &[other])?,
        }
    }
    append(out, rest)
}

/// `string.rep`.
fn rep(lua: &Lua, shared: &Shared, args: &Arguments) -> mlua::Result<Values> {
    let text = string(lua, args, 0)?;
    let text = text.as_bytes();
    let count = usize::try_from(integer(lua, args, 1)? as i32).unwrap_or(0);
    let size = text.len().saturating_mul(count);
    if size > MAX_STRING_BYTES {
        return Err(too_large());
    }
    shared.spend(size as u64 / BYTES_PER_STEP)?;
    Ok(Values::from_iter([Value::String(lua.create_string(text.repeat(count))?)]))
}

fn push_values(
    lua: &Lua,
    matcher: &Matcher<'_>,
    src: &[u8],
    place: (usize, usize),
    count: usize,
    into: &mut Values,
) -> mlua::Result<()> {
    for index in 0..count {
        into.push(match matcher.value(index, place).map_err(|stop| stop.into_error(lua))? {
            (from, Extent::Bytes(len)) => Value::String(lua.create_string(&src[from..from + len])?),
            (from, _) => number(from + 1),
        });
    }
    Ok(())
}

fn append(out: &mut Vec<u8>, bytes: &[u8]) -> mlua::Result<()> {
    if out.len() + bytes.len() > MAX_STRING_BYTES {
        return Err(too_large());
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// What Lua says when it gets no memory.
fn too_large() -> mlua::Error {
    fail::bare("not enough memory")
}

fn number(position: usize) -> Value {
    Value::Number(position as f64)
}

fn is_true(value: Option<&Value>) -> bool {
    !matches!(value, None | Some(Value::Nil | Value::Boolean(false)))
}

/// Whether a pattern has no special character; as in C, only up to the first zero byte.
fn is_plain(pattern: &[u8]) -> bool {
    let end = memchr::memchr(0, pattern).unwrap_or(pattern.len());
    !pattern[..end].iter().any(|byte| SPECIAL.contains(byte))
}
