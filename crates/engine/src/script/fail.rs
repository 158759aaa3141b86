//! How Rust functions raise errors that a script can see.
//!
//! A callback of mlua can only fail with an [`mlua::Error`], which reaches Lua as an opaque
//! userdata. Redis raises plain strings and tables with an `err` field, and scripts look at both.
//! So every failure travels as a [`Raised`] inside the mlua error, and the code that catches an
//! error on behalf of the script (`pcall`, `xpcall`, `coroutine.resume`, the outermost handler)
//! turns it into the value that Redis would have raised; see `prelude.rs`.
//!
//! Invariant: no wrapped error is ever handed to script code as a value.

use std::borrow::Cow;
use std::fmt;

use mlua::{Error, Lua, Table, Value};

use super::prelude::CHUNK_NAME;

/// The text of the error that ends a script stopped with SCRIPT KILL.
pub(crate) const KILLED: &str = "ERR Script killed by user with SCRIPT KILL...";

/// What a callback raised, before a script sees it.
#[derive(Debug, Clone)]
pub(crate) enum Raised {
    /// A string, position included where Lua would have added one.
    Text(Vec<u8>),
    /// A table with this `err` field. `counted` says that the error statistics
    /// know this error already, because a command produced it.
    Reply { err: Vec<u8>, counted: bool },
    /// The end of a killed script; cannot be caught by the script.
    Killed,
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raised::Text(text) | Raised::Reply { err: text, .. } => {
                f.write_str(&String::from_utf8_lossy(text))
            }
            Raised::Killed => f.write_str(KILLED),
        }
    }
}

impl std::error::Error for Raised {}

/// A string error that names the line that called the running function.
pub(crate) fn text(lua: &Lua, message: impl AsRef<[u8]>) -> Error {
    let mut full = caller_position(lua);
    full.extend_from_slice(message.as_ref());
    Error::external(Raised::Text(full))
}

/// A string error without a position.
pub(crate) fn bare(message: impl AsRef<[u8]>) -> Error {
    Error::external(Raised::Text(message.as_ref().to_vec()))
}

/// A table error `{err = "ERR " .. message}`.
pub(crate) fn reply(message: impl AsRef<[u8]>) -> Error {
    let mut err = b"ERR ".to_vec();
    err.extend_from_slice(message.as_ref());
    Error::external(Raised::Reply { err, counted: false })
}

/// The uncatchable end of a killed script.
pub(crate) fn killed() -> Error {
    Error::external(Raised::Killed)
}

/// Lua's message for a wrong argument. `number` counts from one.
pub(crate) fn bad_argument(lua: &Lua, number: usize, why: impl fmt::Display) -> Error {
    let names = |level| {
        lua.inspect_stack(level, |frame| {
            let names = frame.names();
            (names.name.map(Cow::into_owned), names.name_what == Some("method"))
        })
    };
    // A wrapper of the prelude stands for the function that it wraps.
    let wrapped =
        lua.inspect_stack(1, |frame| frame.source().source.as_deref() == Some(CHUNK_NAME));
    let (name, method) = names(usize::from(wrapped == Some(true))).unwrap_or((None, false));
    let name = name.unwrap_or_else(|| "?".to_owned());
    if method && number == 1 {
        return text(lua, format!("calling '{name}' on bad self ({why})"));
    }
    let number = if method { number.saturating_sub(1) } else { number };
    text(lua, format!("bad argument #{number} to '{name}' ({why})"))
}

/// `chunk:line: ` of the function that called the running one, or nothing.
fn caller_position(lua: &Lua) -> Vec<u8> {
    let at = |level| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let own = source.source.as_deref() == Some(CHUNK_NAME);
            (own, source.short_src.map(Cow::into_owned), frame.current_line())
        })
    };
    // A wrapper of the prelude, of three functions at most, stands for the function that it wraps.
    let place = (1..=4).map(at).find(|place| !matches!(place, Some((true, ..)))).flatten();
    match place {
        Some((_, Some(source), Some(line))) if line > 0 => {
            format!("{source}:{line}: ").into_bytes()
        }
        _ => Vec::new(),
    }
}

/// What Lua code sees of an error that a callback raised.
pub(crate) fn reveal(lua: &Lua, error: &Error) -> mlua::Result<Value> {
    match find(error) {
        Some(Raised::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
        Some(Raised::Reply { err, counted }) => Ok(Value::Table(table(lua, err, *counted)?)),
        Some(Raised::Killed) => Ok(Value::Table(table(lua, KILLED.as_bytes(), false)?)),
        None => Ok(Value::String(lua.create_string(foreign_message(error))?)),
    }
}

/// The table form of an error.
pub(crate) fn table(lua: &Lua, err: &[u8], counted: bool) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(err)?)?;
    if counted {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(table)
}

/// The [`Raised`] inside an error, through the layers that mlua puts around it.
pub(crate) fn find(error: &Error) -> Option<&Raised> {
    let mut error = error;
    loop {
        match error {
            Error::CallbackError { cause, .. } => error = cause,
            Error::ExternalError(inner) => return inner.downcast_ref::<Raised>(),
            _ => return None,
        }
    }
}

/// The message of an error that mlua or Lua itself made, without a traceback.
pub(crate) fn foreign_message(error: &Error) -> String {
    let mut error = error;
    while let Error::CallbackError { cause, .. } = error {
        error = cause;
    }
    let message = match error {
        Error::RuntimeError(message) | Error::MemoryError(message) => message.clone(),
        Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    match message.find("\nstack traceback:") {
        Some(end) => message[..end].to_owned(),
        None => message,
    }
}
