//! `cmsgpack`: MessagePack for Lua values; this file packs.
//!
//! A table is an array if its keys are exactly 1..n, otherwise a map. Nesting
//! stops at [`MAX_NESTING`]: what lies deeper is packed as nil, so a table that
//! contains itself ends too, and the bounded recursion here is safe.

use mlua::{Lua, Table, Value};

use super::cmsgpack_decode;
use crate::script::arguments::Arguments;
use crate::script::fail;

/// Tables nested deeper than this are packed as nil.
const MAX_NESTING: usize = 16;
/// Bound on one packed value; nested references can multiply without end.
const MAX_PACKED_BYTES: usize = 512 * 1024 * 1024;

/// Builds the library table.
pub(crate) fn create(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(|lua, args: Arguments| pack(lua, &args))?)?;
    cmsgpack_decode::register(lua, &table)?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}

fn pack(lua: &Lua, args: &Arguments) -> mlua::Result<Value> {
    if args.is_empty() {
        return Err(fail::bad_argument(lua, 0, "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    for value in args.iter() {
        encode(lua, &mut out, value, 0)?;
    }
    Ok(Value::String(lua.create_string(&out)?))
}

fn encode(lua: &Lua, out: &mut Vec<u8>, value: &Value, level: usize) -> mlua::Result<()> {
    if out.len() > MAX_PACKED_BYTES {
        return Err(fail::text(lua, "packed result too large"));
    }
    match value {
        Value::String(text) => encode_bytes(out, &text.as_bytes()),
        Value::Boolean(true) => out.push(0xc3),
        Value::Boolean(false) => out.push(0xc2),
        Value::Integer(whole) => encode_integer(out, *whole),
        Value::Number(number) => encode_number(out, *number),
        Value::Table(table) if level < MAX_NESTING => encode_table(lua, out, table, level)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn encode_table(lua: &Lua, out: &mut Vec<u8>, table: &Table, level: usize) -> mlua::Result<()> {
    let (count, is_array) = shape(table)?;
    if is_array {
        encode_length(out, count, 0x90, 0xdc);
        for index in 1..=count {
            let value: Value = table.get(index)?;
            encode(lua, out, &value, level + 1)?;
        }
        return Ok(());
    }
    encode_length(out, count, 0x80, 0xde);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        encode(lua, out, &key, level + 1)?;
        encode(lua, out, &value, level + 1)?;
    }
    Ok(())
}

/// How many pairs a table has, and whether its keys are exactly 1..n.
fn shape(table: &Table) -> mlua::Result<(usize, bool)> {
    let mut count: usize = 0;
    let mut highest: i64 = 0;
    let mut is_array = true;
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair?;
        count += 1;
        match key {
            Value::Integer(index) if index > 0 && i32::try_from(index).is_ok() => {
                highest = highest.max(index);
            }
            _ => is_array = false,
        }
    }
    Ok((count, is_array && highest == count as i64))
}

fn encode_length(out: &mut Vec<u8>, count: usize, short: u8, wide: u8) {
    if count <= 15 {
        out.push(short | count as u8);
    } else if let Ok(count) = u16::try_from(count) {
        out.push(wide);
        out.extend_from_slice(&count.to_be_bytes());
    } else {
        out.push(wide + 1);
        out.extend_from_slice(&(count as u32).to_be_bytes());
    }
}

fn encode_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = bytes.len();
    if length < 32 {
        out.push(0xa0 | length as u8);
    } else if let Ok(length) = u8::try_from(length) {
        out.extend_from_slice(&[0xd9, length]);
    } else if let Ok(length) = u16::try_from(length) {
        out.push(0xda);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(0xdb);
        out.extend_from_slice(&(length as u32).to_be_bytes());
    }
    out.extend_from_slice(bytes);
}

fn encode_number(out: &mut Vec<u8>, number: f64) {
    let whole = number as i64;
    if number.is_finite() && whole as f64 == number && whole != i64::MAX {
        encode_integer(out, whole);
    } else if f64::from(number as f32) == number {
        out.push(0xca);
        out.extend_from_slice(&(number as f32).to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn encode_integer(out: &mut Vec<u8>, whole: i64) {
    if whole >= 0 {
        if whole <= 127 {
            out.push(whole as u8);
        } else if let Ok(small) = u8::try_from(whole) {
            out.extend_from_slice(&[0xcc, small]);
        } else if let Ok(small) = u16::try_from(whole) {
            out.push(0xcd);
            out.extend_from_slice(&small.to_be_bytes());
        } else if let Ok(small) = u32::try_from(whole) {
            out.push(0xce);
            out.extend_from_slice(&small.to_be_bytes());
        } else {
            out.push(0xcf);
            out.extend_from_slice(&whole.to_be_bytes());
        }
    } else if whole >= -32 {
        out.push(whole as u8);
    } else if let Ok(small) = i8::try_from(whole) {
        out.extend_from_slice(&[0xd0, small as u8]);
    } else if let Ok(small) = i16::try_from(whole) {
        out.push(0xd1);
        out.extend_from_slice(&small.to_be_bytes());
    } else if let Ok(small) = i32::try_from(whole) {
        out.push(0xd2);
        out.extend_from_slice(&small.to_be_bytes());
    } else {
        out.push(0xd3);
        out.extend_from_slice(&whole.to_be_bytes());
    }
}
