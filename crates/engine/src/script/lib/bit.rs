//! `bit`: operations on 32-bit integers, results signed.
//!
//! A number is folded to 32 bits by adding 2^52 + 2^51 and taking the low word
//! of the double, which rounds to even and wraps; that is how the original
//! defines numbers outside the range, so it is done the same way here.

use mlua::{Lua, Table, Value};

use crate::script::arguments::{Arguments, as_number, type_error};

/// Builds the library table.
pub(crate) fn create(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("tobit", lua.create_function(|lua, args: Arguments| one(lua, &args, |a| a))?)?;
    table.raw_set("bnot", lua.create_function(|lua, args: Arguments| one(lua, &args, |a| !a))?)?;
    table.raw_set(
        "bswap",
        lua.create_function(|lua, args: Arguments| one(lua, &args, u32::swap_bytes))?,
    )?;
    table.raw_set("band", fold(lua, |a, b| a & b)?)?;
    table.raw_set("bor", fold(lua, |a, b| a | b)?)?;
    table.raw_set("bxor", fold(lua, |a, b| a ^ b)?)?;
    table.raw_set("lshift", shift(lua, |a, by| a << by)?)?;
    table.raw_set("rshift", shift(lua, |a, by| a >> by)?)?;
    table.raw_set("arshift", shift(lua, |a, by| ((a as i32) >> by) as u32)?)?;
    table.raw_set("rol", shift(lua, u32::rotate_left)?)?;
    table.raw_set("ror", shift(lua, u32::rotate_right)?)?;
    table.raw_set("tohex", lua.create_function(|lua, args: Arguments| tohex(lua, &args))?)?;
    Ok(table)
}

fn one(lua: &Lua, args: &Arguments, op: impl Fn(u32) -> u32) -> mlua::Result<i32> {
    Ok(op(word(lua, args, 0)?) as i32)
}

fn fold(lua: &Lua, op: fn(u32, u32) -> u32) -> mlua::Result<mlua::Function> {
    lua.create_function(move |lua, args: Arguments| {
        let mut result = word(lua, &args, 0)?;
        for index in (1..args.len()).rev() {
            result = op(result, word(lua, &args, index)?);
        }
        Ok(result as i32)
    })
}

fn shift(lua: &Lua, op: fn(u32, u32) -> u32) -> mlua::Result<mlua::Function> {
    lua.create_function(move |lua, args: Arguments| {
        let value = word(lua, &args, 0)?;
        let by = word(lua, &args, 1)? & 31;
        Ok(op(value, by) as i32)
    })
}

fn tohex(lua: &Lua, args: &Arguments) -> mlua::Result<Value> {
    let value = word(lua, args, 0)?;
    let width = if args.len() < 2 { 8 } else { word(lua, args, 1)? as i32 };
    let digits = width.unsigned_abs().min(8) as usize;
    let full = if width < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    Ok(Value::String(lua.create_string(&full[8 - digits..])?))
}

fn word(lua: &Lua, args: &Arguments, index: usize) -> mlua::Result<u32> {
    const FOLD: f64 = 6_755_399_441_055_744.0;
    let number = match args.get(index) {
        Some(value) => as_number(lua, value)?,
        None => None,
    };
    match number {
        Some(number) => Ok((number + FOLD).to_bits() as u32),
        None => Err(type_error(lua, args, index, "number")),
    }
}
