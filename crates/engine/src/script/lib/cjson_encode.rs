//! `cjson.encode`: Lua values to JSON text.
//!
//! Tables that are being written wait on a list of open containers, so nesting
//! is bounded by an option and never by the native stack. A table whose keys
//! are all positive integers is an array (holes become null, unless there are
//! too many of them); anything else, the empty table included, is an object.

use mlua::{Lua, Table, Value};

use super::cjson::{InvalidNumbers, Options};
use crate::script::arguments::value_type;
use crate::script::fail;
use crate::script::number::push_general;
use crate::script::pairs::{Items, Take};

/// Depth at which Redis' interpreter runs out of stack, whatever the option.
const MAX_OPEN: i32 = 2600;

/// A container that is being written.
enum Open {
    Array { table: Table, next: usize, length: usize },
    Object { items: Items, first: bool },
}

/// Writes a value as JSON text.
pub(crate) fn encode(lua: &Lua, value: &Value, options: &Options) -> mlua::Result<Value> {
    let mut out = Vec::new();
    let mut open = Vec::new();
    put(lua, &mut out, value, options, &mut open)?;
    while let Some(top) = open.last_mut() {
        match top {
            Open::Array { table, next, length } => {
                if *next > *length {
                    out.push(b']');
                    open.pop();
                    continue;
                }
                if *next > 1 {
                    out.push(b',');
                }
                let element: Value = table.raw_get(*next)?;
                *next += 1;
                put(lua, &mut out, &element, options, &mut open)?;
            }
            Open::Object { items, first } => {
                let (Some(key), Some(element)) = (items.next()?, items.next()?) else {
                    out.push(b'}');
                    open.pop();
                    continue;
                };
                if !*first {
                    out.push(b',');
                }
                *first = false;
                put_key(lua, &mut out, &key, options)?;
                put(lua, &mut out, &element, options, &mut open)?;
            }
        }
    }
    Ok(Value::String(lua.create_string(&out)?))
}

/// Writes a scalar, or opens a table.
fn put(
    lua: &Lua,
    out: &mut Vec<u8>,
    value: &Value,
    options: &Options,
    open: &mut Vec<Open>,
) -> mlua::Result<()> {
    match value {
        Value::String(text) => put_string(out, &text.as_bytes()),
        Value::Integer(whole) => put_number(lua, out, *whole as f64, options)?,
        Value::Number(number) => put_number(lua, out, *number, options)?,
        Value::Boolean(true) => out.extend_from_slice(b"true"),
        Value::Boolean(false) => out.extend_from_slice(b"false"),
        Value::Nil => out.extend_from_slice(b"null"),
        Value::LightUserData(data) if data.0.is_null() => out.extend_from_slice(b"null"),
        Value::Table(table) => {
            let depth = open.len() as i32 + 1;
            if depth > options.encode_max_depth || depth > MAX_OPEN {
                let text = format!("Cannot serialise, excessive nesting ({depth})");
                return Err(fail::text(lua, text));
            }
            open.push(open_table(lua, out, table, options, open.len())?);
        }
        other => return Err(refuse(lua, value_type(other), "type not supported")),
    }
    Ok(())
}

fn refuse(lua: &Lua, kind: &str, reason: &str) -> mlua::Error {
    fail::text(lua, format!("Cannot serialise {kind}: {reason}"))
}

fn open_table(
    lua: &Lua,
    out: &mut Vec<u8>,
    table: &Table,
    options: &Options,
    depth: usize,
) -> mlua::Result<Open> {
    let mut items = 0;
    let mut highest: f64 = 0.0;
    let mut is_array = true;
    for pair in table.pairs::<Value, Value>() {
        let index = match pair?.0 {
            Value::Integer(index) => index as f64,
            Value::Number(number) if number.floor() == number => number,
            _ => 0.0,
        };
        if index < 1.0 {
            is_array = false;
            break;
        }
        highest = highest.max(index);
        items += 1;
    }
    // Redis: the highest index is an int there; larger ones are not met in practice.
    let highest = highest.min(f64::from(i32::MAX)) as i64;
    if is_array && is_sparse(highest, items, options) {
        if !options.sparse_convert {
            return Err(refuse(lua, "table", "excessively sparse array"));
        }
        is_array = false;
    }
    if is_array && highest > 0 {
        out.push(b'[');
        return Ok(Open::Array { table: table.clone(), next: 1, length: highest as usize });
    }
    out.push(b'{');
    let items = Items::of(lua, table, Take::KeysAndValues, depth)?;
    Ok(Open::Object { items, first: true })
}

fn is_sparse(highest: i64, items: usize, options: &Options) -> bool {
    options.sparse_ratio > 0
        && highest > (items as i64).saturating_mul(i64::from(options.sparse_ratio))
        && highest > i64::from(options.sparse_safe)
}

fn put_key(lua: &Lua, out: &mut Vec<u8>, key: &Value, options: &Options) -> mlua::Result<()> {
    match key {
        Value::String(text) => put_string(out, &text.as_bytes()),
        Value::Integer(_) | Value::Number(_) => {
            let number = match key {
                Value::Integer(whole) => *whole as f64,
                Value::Number(number) => *number,
                _ => 0.0,
            };
            out.push(b'"');
            put_number(lua, out, number, options)?;
            out.push(b'"');
        }
        other => {
            return Err(refuse(lua, value_type(other), "table key must be a number or string"));
        }
    }
    out.push(b':');
    Ok(())
}

fn put_number(lua: &Lua, out: &mut Vec<u8>, number: f64, options: &Options) -> mlua::Result<()> {
    if !number.is_finite() {
        match options.encode_invalid {
            InvalidNumbers::Refuse => {
                return Err(refuse(lua, "number", "must not be NaN or Inf"));
            }
            InvalidNumbers::Null => {
                out.extend_from_slice(b"null");
                return Ok(());
            }
            InvalidNumbers::Write if number.is_nan() => {
                out.extend_from_slice(b"nan");
                return Ok(());
            }
            InvalidNumbers::Write => {}
        }
    }
    push_general(out, number, options.precision as usize);
    Ok(())
}

fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    for byte in text {
        let short = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            b'/' => b'/',
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            0x00..=0x1f | 0x7f => {
                out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                continue;
            }
            plain => {
                out.push(*plain);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
    out.push(b'"');
}
