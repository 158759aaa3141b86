//! Reading the arguments of library functions with Lua's own coercions and
//! complaints: a number where a string is wanted is written as `%.14g`, a
//! string that looks like a number is one, and everything else is answered
//! with `bad argument #1 to 'name' (string expected, got nil)`.

use mlua::{Lua, LuaString, Value, Variadic};

use super::fail;
use super::number::to_i64;

/// The arguments of one call.
pub(crate) type Arguments = Variadic<Value>;

/// The name Lua gives to the type of argument `index` (from zero).
pub(crate) fn type_name(args: &Arguments, index: usize) -> &'static str {
    match args.get(index) {
        None => "no value",
        Some(value) => value_type(value),
    }
}

/// The name Lua gives to the type of a value.
pub(crate) fn value_type(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::LightUserData(_) | Value::UserData(_) | Value::Error(_) => "userdata",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// The complaint that argument `index` is not an `expected`.
pub(crate) fn type_error(lua: &Lua, args: &Arguments, index: usize, expected: &str) -> mlua::Error {
    let found = type_name(args, index);
    fail::bad_argument(lua, index + 1, format_args!("{expected} expected, got {found}"))
}

/// A value as a number, by Lua's rules.
pub(crate) fn as_number(lua: &Lua, value: &Value) -> mlua::Result<Option<f64>> {
    match value {
        Value::Integer(whole) => Ok(Some(*whole as f64)),
        Value::Number(number) => Ok(Some(*number)),
        Value::String(_) => lua.coerce_number(value.clone()),
        _ => Ok(None),
    }
}

/// Argument `index` as a number.
pub(crate) fn number(lua: &Lua, args: &Arguments, index: usize) -> mlua::Result<f64> {
    let found = match args.get(index) {
        Some(value) => as_number(lua, value)?,
        None => None,
    };
    found.ok_or_else(|| type_error(lua, args, index, "number"))
}

/// Argument `index` as an integer of Lua's API.
pub(crate) fn integer(lua: &Lua, args: &Arguments, index: usize) -> mlua::Result<i64> {
    number(lua, args, index).map(to_i64)
}

/// Argument `index` as an integer, or `default` if it is absent or nil.
pub(crate) fn integer_or(
    lua: &Lua,
    args: &Arguments,
    index: usize,
    default: i64,
) -> mlua::Result<i64> {
    match args.get(index) {
        None | Some(Value::Nil) => Ok(default),
        Some(_) => integer(lua, args, index),
    }
}

/// Argument `index` as a string.
pub(crate) fn string(lua: &Lua, args: &Arguments, index: usize) -> mlua::Result<LuaString> {
    let found = match args.get(index) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(value @ (Value::Integer(_) | Value::Number(_))) => lua.coerce_string(value.clone())?,
        _ => None,
    };
    found.ok_or_else(|| type_error(lua, args, index, "string"))
}
