//! `redis.register_function`: how the code of a library names its functions.
//!
//! It works only while the library is being loaded. What it collects is data
//! for the engine, which decides whether the library is accepted, and handles
//! on the callbacks, which stay here.

use std::sync::Arc;

use mlua::{Function, Lua, Table, Value};

use super::api::Shared;
use super::arguments::Arguments;
use super::shebang::{INVALID_NAME, ScriptFlags, is_valid_name};
use super::{RegisteredFunction, ScriptHost, fail};

/// A library whose code is running.
pub(crate) struct Loading {
    host: Arc<dyn ScriptHost>,
    /// The functions registered so far.
    pub(crate) functions: Vec<(RegisteredFunction, Function)>,
}

impl Loading {
    pub(crate) fn new(host: Arc<dyn ScriptHost>) -> Self {
        Loading { host, functions: Vec::new() }
    }

    pub(crate) fn host(&self) -> Arc<dyn ScriptHost> {
        self.host.clone()
    }
}

/// Builds `redis.register_function`.
pub(crate) fn create(lua: &Lua, shared: &Shared) -> mlua::Result<Function> {
    let shared = shared.clone();
    lua.create_function(move |lua, args: Arguments| {
        if shared.lock().loading.is_none() {
            return Err(fail::reply(
                "redis.register_function can only be called on FUNCTION LOAD command",
            ));
        }
        let (function, callback) = match &args[..] {
            [Value::Table(named)] => read_named(lua, named)?,
            [_] => {
                return Err(fail::reply(
                    "calling redis.register_function with a single argument is only applicable \
                     to Lua table (representing named arguments).",
                ));
            }
            [name, callback] => read_positional(lua, name, callback)?,
            _ => {
                return Err(fail::reply("wrong number of arguments to redis.register_function"));
            }
        };
        if !is_valid_name(&function.name) {
            return Err(fail::reply(INVALID_NAME));
        }
        let mut state = shared.lock();
        let Some(loading) = state.loading.as_mut() else {
            return Ok(());
        };
        if loading.functions.iter().any(|(known, _)| known.name == function.name) {
            return Err(fail::reply("Function already exists in the library"));
        }
        loading.functions.push((function, callback));
        Ok(())
    })
}

fn text(lua: &Lua, value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(_) | Value::Number(_) => {
            let text = lua.coerce_string(value.clone()).ok().flatten()?;
            Some(text.as_bytes().to_vec())
        }
        _ => None,
    }
}

fn read_positional(
    lua: &Lua,
    name: &Value,
    callback: &Value,
) -> mlua::Result<(RegisteredFunction, Function)> {
    let Some(name) = text(lua, name) else {
        return Err(fail::reply("first argument to redis.register_function must be a string"));
    };
    let Value::Function(callback) = callback else {
        return Err(fail::reply("second argument to redis.register_function must be a function"));
    };
    let function = RegisteredFunction { name, description: None, flags: ScriptFlags::default() };
    Ok((function, callback.clone()))
}

fn read_named(lua: &Lua, named: &Table) -> mlua::Result<(RegisteredFunction, Function)> {
    let mut name = None;
    let mut description = None;
    let mut callback = None;
    let mut flags = ScriptFlags::default();
    for pair in named.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Some(key) = text(lua, &key) else {
            return Err(fail::reply(
                "named argument key given to redis.register_function is not a string",
            ));
        };
        match key.to_ascii_lowercase().as_slice() {
            b"function_name" => name = Some(text_of(lua, &value, "function_name")?),
            b"description" => description = Some(text_of(lua, &value, "description")?),
            b"callback" => match value {
                Value::Function(function) => callback = Some(function),
                _ => {
                    return Err(fail::reply(
                        "callback argument given to redis.register_function must be a function",
                    ));
                }
            },
            b"flags" => match value {
                Value::Table(list) => flags = read_flags(lua, &list)?,
                _ => {
                    return Err(fail::reply(
                        "flags argument to redis.register_function must be a table \
                         representing function flags",
                    ));
                }
            },
            _ => {
                return Err(fail::reply("unknown argument given to redis.register_function"));
            }
        }
    }
    let Some(name) = name else {
        return Err(fail::reply("redis.register_function must get a function name argument"));
    };
    let Some(callback) = callback else {
        return Err(fail::reply("redis.register_function must get a callback argument"));
    };
    Ok((RegisteredFunction { name, description, flags }, callback))
}

fn text_of(lua: &Lua, value: &Value, argument: &str) -> mlua::Result<Vec<u8>> {
    text(lua, value).ok_or_else(|| {
        fail::reply(format!(
            "{argument} argument given to redis.register_function must be a string"
        ))
    })
}

fn read_flags(lua: &Lua, list: &Table) -> mlua::Result<ScriptFlags> {
    let mut flags = ScriptFlags::default();
    for index in 1.. {
        let value: Value = list.raw_get(index)?;
        if value.is_nil() {
            break;
        }
        let known = text(lua, &value).and_then(|name| {
            ScriptFlags::NAMES
                .iter()
                .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(&name))
                .map(|(_, flag)| *flag)
        });
        match known {
            Some(flag) => flags.insert(flag),
            None => return Err(fail::reply("unknown flag given")),
        }
    }
    Ok(flags)
}
