//! Replies of commands as Lua values.
//!
//! The bytes come from the engine itself, so damage would be a bug; it is
//! still answered with an error and never with a panic. Nesting is bounded.

use mlua::{Lua, Table, Value};

use super::fail;

/// No command replies with deeper nesting than this.
const MAX_DEPTH: usize = 64;

/// Converts one complete reply.
pub(crate) fn to_lua(lua: &Lua, reply: &[u8]) -> mlua::Result<Value> {
    Reply { lua, rest: reply }.value(MAX_DEPTH)
}

/// The text of an error reply, with a code in front.
pub(crate) fn error_text(reply: &[u8]) -> Vec<u8> {
    let end = memchr::memchr(b'\r', reply).unwrap_or(reply.len());
    with_code(&reply[1..end])
}

/// An error line as scripts see it: one that is only a word gets a code.
pub(crate) fn with_code(line: &[u8]) -> Vec<u8> {
    let line = without_line_end(line);
    if memchr::memchr(b' ', line).is_some() {
        return line.to_vec();
    }
    let mut text = b"ERR ".to_vec();
    text.extend_from_slice(line);
    text
}

/// A text without the line breaks at its end; spaces stay.
pub(crate) fn without_line_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |at| at + 1);
    &text[..end]
}

struct Reply<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
}

impl<'a> Reply<'a> {
    fn line(&mut self) -> mlua::Result<&'a [u8]> {
        let end = memchr::memchr(b'\r', self.rest).ok_or_else(damaged)?;
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 2..).ok_or_else(damaged)?;
        Ok(line)
    }

    fn take(&mut self, length: usize) -> mlua::Result<&'a [u8]> {
        let bytes = self.rest.get(..length).ok_or_else(damaged)?;
        self.rest = self.rest.get(length + 2..).ok_or_else(damaged)?;
        Ok(bytes)
    }

    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        let depth = depth.checked_sub(1).ok_or_else(damaged)?;
        let line = self.line()?;
        let (kind, line) = line.split_first().ok_or_else(damaged)?;
        match kind {
            b'$' => match length(line)? {
                None => Ok(Value::Boolean(false)),
                Some(length) => self.string(length),
            },
            b':' => Ok(Value::Number(number(line)? as f64)),
            b'+' => self.single("ok", line),
            b'-' => Ok(Value::Table(fail::table(self.lua, &with_code(line), true)?)),
            b'*' => match length(line)? {
                None => Ok(Value::Boolean(false)),
                Some(count) => self.array(count, depth),
            },
            b'%' => self.map(length(line)?.unwrap_or(0), depth),
            b'~' => self.set(length(line)?.unwrap_or(0), depth),
            b'_' => Ok(Value::Nil),
            b'#' => Ok(Value::Boolean(line == b"t")),
            b',' => {
                let text = std::str::from_utf8(line).map_err(|_| damaged())?;
                self.wrap("double", Value::Number(text.parse().map_err(|_| damaged())?))
            }
            b'(' => self.single("big_number", line),
            b'=' => self.verbatim(length(line)?.ok_or_else(damaged)?),
            b'|' => {
                // Attributes are not shown to scripts; the reply follows.
                for _ in 0..length(line)?.unwrap_or(0) * 2 {
                    self.value(depth)?;
                }
                self.value(depth)
            }
            _ => Err(damaged()),
        }
    }

    fn string(&mut self, length: usize) -> mlua::Result<Value> {
        let bytes = self.take(length)?;
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    fn single(&self, field: &str, text: &[u8]) -> mlua::Result<Value> {
        self.wrap(field, Value::String(self.lua.create_string(text)?))
    }

    /// A table with this one field.
    fn wrap(&self, field: &str, value: Value) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(field, value)?;
        Ok(Value::Table(table))
    }

    /// A table for as many elements as the remaining bytes can hold.
    fn table(&self, array: usize, fields: usize) -> mlua::Result<Table> {
        let most = self.rest.len() / 3;
        self.lua.create_table_with_capacity(array.min(most), fields.min(most))
    }

    fn array(&mut self, count: usize, depth: usize) -> mlua::Result<Value> {
        let table = self.table(count, 0)?;
        for index in 1..=count {
            let element = self.value(depth)?;
            table.raw_set(index, element)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize, depth: usize) -> mlua::Result<Value> {
        let table = self.table(0, count)?;
        for _ in 0..count {
            let key = self.value(depth)?;
            let value = self.value(depth)?;
            if !key.is_nil() {
                table.raw_set(key, value)?;
            }
        }
        self.wrap("map", Value::Table(table))
    }

    fn set(&mut self, count: usize, depth: usize) -> mlua::Result<Value> {
        let table = self.table(0, count)?;
        for _ in 0..count {
            let member = self.value(depth)?;
            if !member.is_nil() {
                table.raw_set(member, true)?;
            }
        }
        self.wrap("set", Value::Table(table))
    }

    fn verbatim(&mut self, length: usize) -> mlua::Result<Value> {
        let bytes = self.take(length)?;
        let (format, text) = bytes.split_at_checked(4).ok_or_else(damaged)?;
        let inner = self.lua.create_table_with_capacity(0, 2)?;
        inner.raw_set("string", self.lua.create_string(text)?)?;
        inner.raw_set("format", self.lua.create_string(&format[..3])?)?;
        self.wrap("verbatim_string", Value::Table(inner))
    }
}

fn damaged() -> mlua::Error {
    fail::reply("reply of the command cannot be read")
}

fn number(line: &[u8]) -> mlua::Result<i64> {
    std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).ok_or_else(damaged)
}

/// A length; `None` for the null forms.
fn length(line: &[u8]) -> mlua::Result<Option<usize>> {
    Ok(usize::try_from(number(line)?).ok())
}
