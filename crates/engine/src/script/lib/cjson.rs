//! `cjson`: JSON for scripts; this file holds the options and the table.
//!
//! Each module table (`cjson`, or one made by `cjson.new()`) has options of its
//! own, shared by its functions. As with Redis they outlive a script.

use std::sync::{Arc, Mutex, MutexGuard};

use mlua::{LightUserData, Lua, MultiValue, Table, Value};

use super::{cjson_decode, cjson_encode};
use crate::script::arguments::{Arguments, integer, string};
use crate::script::fail;

/// What to do with numbers that JSON does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InvalidNumbers {
    Refuse,
    Write,
    Null,
}

/// The options of one module table.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) sparse_convert: bool,
    pub(crate) sparse_ratio: i32,
    pub(crate) sparse_safe: i32,
    pub(crate) encode_max_depth: i32,
    pub(crate) encode_invalid: InvalidNumbers,
    pub(crate) precision: i32,
    pub(crate) keep_buffer: bool,
    pub(crate) decode_invalid: bool,
    pub(crate) decode_max_depth: i32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_max_depth: 1000,
            encode_invalid: InvalidNumbers::Refuse,
            precision: 14,
            keep_buffer: true,
            decode_invalid: true,
            decode_max_depth: 1000,
        }
    }
}

type Shared = Arc<Mutex<Options>>;

/// Builds a module table with options of its own.
pub(crate) fn create(lua: &Lua) -> mlua::Result<Table> {
    let options: Shared = Arc::default();
    let table = lua.create_table()?;
    let held = options.clone();
    let encode = lua.create_function(move |lua, args: Arguments| {
        if args.len() != 1 {
            return Err(fail::bad_argument(lua, 1, "expected 1 argument"));
        }
        let options = lock(&held).clone();
        cjson_encode::encode(lua, &args[0], &options)
    })?;
    table.raw_set("encode", encode)?;
    let held = options.clone();
    let decode = lua.create_function(move |lua, args: Arguments| {
        if args.len() != 1 {
            return Err(fail::bad_argument(lua, 1, "expected 1 argument"));
        }
        let input = string(lua, &args, 0)?;
        let options = lock(&held).clone();
        cjson_decode::decode(lua, &input.as_bytes(), &options)
    })?;
    table.raw_set("decode", decode)?;
    add_settings(lua, &table, &options)?;
    table.raw_set("new", lua.create_function(|lua, _: Arguments| create(lua))?)?;
    table.raw_set("null", null())?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

/// The value that stands for JSON's null.
pub(crate) fn null() -> Value {
    Value::LightUserData(LightUserData(std::ptr::null_mut()))
}

fn lock(options: &Shared) -> MutexGuard<'_, Options> {
    options.lock().expect("no holder of the options panics")
}

type Setting = fn(&Lua, &Arguments, &mut Options) -> mlua::Result<MultiValue>;

fn add_settings(lua: &Lua, table: &Table, options: &Shared) -> mlua::Result<()> {
    let settings: [(&str, usize, Setting); 7] = [
        ("encode_sparse_array", 3, |lua, args, o| {
            Ok(MultiValue::from_iter([
                switch(lua, args, 0, &mut o.sparse_convert)?,
                bounded(lua, args, 1, &mut o.sparse_ratio, 0, i32::MAX)?,
                bounded(lua, args, 2, &mut o.sparse_safe, 0, i32::MAX)?,
            ]))
        }),
        ("encode_max_depth", 1, |lua, args, o| {
            one(bounded(lua, args, 0, &mut o.encode_max_depth, 1, i32::MAX))
        }),
        ("decode_max_depth", 1, |lua, args, o| {
            one(bounded(lua, args, 0, &mut o.decode_max_depth, 1, i32::MAX))
        }),
        ("encode_number_precision", 1, |lua, args, o| {
            one(bounded(lua, args, 0, &mut o.precision, 1, 14))
        }),
        ("encode_keep_buffer", 1, |lua, args, o| one(switch(lua, args, 0, &mut o.keep_buffer))),
        ("encode_invalid_numbers", 1, |lua, args, o| one(invalid(lua, args, o))),
        ("decode_invalid_numbers", 1, |lua, args, o| {
            one(switch(lua, args, 0, &mut o.decode_invalid))
        }),
    ];
    for (name, most, setting) in settings {
        let held = options.clone();
        let function = lua.create_function(move |lua, args: Arguments| {
            if args.len() > most {
                return Err(fail::bad_argument(lua, most + 1, "found too many arguments"));
            }
            setting(lua, &args, &mut lock(&held))
        })?;
        table.raw_set(name, function)?;
    }
    Ok(())
}

fn one(value: mlua::Result<Value>) -> mlua::Result<MultiValue> {
    Ok(MultiValue::from_iter([value?]))
}

fn given(args: &Arguments, index: usize) -> Option<&Value> {
    args.get(index).filter(|value| !value.is_nil())
}

fn bounded(
    lua: &Lua,
    args: &Arguments,
    index: usize,
    setting: &mut i32,
    low: i32,
    high: i32,
) -> mlua::Result<Value> {
    if given(args, index).is_some() {
        let value = integer(lua, args, index)? as i32;
        if !(low..=high).contains(&value) {
            let why = format!("expected integer between {low} and {high}");
            return Err(fail::bad_argument(lua, 1, why));
        }
        *setting = value;
    }
    Ok(Value::Integer(i64::from(*setting)))
}

fn switch(lua: &Lua, args: &Arguments, index: usize, setting: &mut bool) -> mlua::Result<Value> {
    match given(args, index) {
        None => {}
        Some(Value::Boolean(value)) => *setting = *value,
        Some(_) => *setting = choice(lua, args, index, &["off", "on"])? == 1,
    }
    Ok(Value::Boolean(*setting))
}

fn invalid(lua: &Lua, args: &Arguments, options: &mut Options) -> mlua::Result<Value> {
    options.encode_invalid = match given(args, 0) {
        None => options.encode_invalid,
        Some(Value::Boolean(false)) => InvalidNumbers::Refuse,
        Some(Value::Boolean(true)) => InvalidNumbers::Write,
        Some(_) => match choice(lua, args, 0, &["off", "on", "null"])? {
            0 => InvalidNumbers::Refuse,
            1 => InvalidNumbers::Write,
            _ => InvalidNumbers::Null,
        },
    };
    Ok(match options.encode_invalid {
        InvalidNumbers::Refuse => Value::Boolean(false),
        InvalidNumbers::Write => Value::Boolean(true),
        InvalidNumbers::Null => Value::String(lua.create_string("null")?),
    })
}

fn choice(lua: &Lua, args: &Arguments, index: usize, names: &[&str]) -> mlua::Result<usize> {
    let given = string(lua, args, index)?;
    let given = given.as_bytes();
    names.iter().position(|name| name.as_bytes() == &*given).ok_or_else(|| {
        let why = format!("invalid option '{}'", String::from_utf8_lossy(&given));
        fail::bad_argument(lua, index + 1, why)
    })
}
