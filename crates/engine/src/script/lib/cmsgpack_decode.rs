//! `cmsgpack.unpack`, `unpack_one` and `unpack_limit`.
//!
//! The decoder keeps the containers it is inside of on a heap-allocated list
//! instead of the native stack, and reads elements one by one, so neither deep
//! nesting nor an announced length costs anything before the bytes are there.

use mlua::{Lua, MultiValue, Table, Value};

use crate::script::arguments::{Arguments, integer, integer_or, string};
use crate::script::fail;

/// Containers open at once; the original stops at about this depth too, where
/// Lua's stack ends.
const MAX_OPEN: usize = 3900;
/// Values returned at once; more do not fit on Lua's stack.
const MAX_RESULTS: usize = 7900;

/// Adds the functions to the library table.
pub(crate) fn register(lua: &Lua, table: &Table) -> mlua::Result<()> {
    table
        .raw_set("unpack", lua.create_function(|lua, args: Arguments| unpack(lua, &args, 0, 0))?)?;
    table.raw_set(
        "unpack_one",
        lua.create_function(|lua, args: Arguments| {
            let offset = integer_or(lua, &args, 1, 0)?;
            unpack(lua, &args, 1, offset)
        })?,
    )?;
    table.raw_set(
        "unpack_limit",
        lua.create_function(|lua, args: Arguments| {
            let limit = integer(lua, &args, 1)?;
            let offset = integer_or(lua, &args, 2, 0)?;
            unpack(lua, &args, limit, offset)
        })?,
    )
}

fn unpack(lua: &Lua, args: &Arguments, limit: i64, offset: i64) -> mlua::Result<MultiValue> {
    let everything = limit == 0 && offset == 0;
    let input = string(lua, args, 0)?;
    let input = input.as_bytes();
    if offset < 0 || limit < 0 {
        let text = format!(
            "Invalid request to unpack with offset of {offset} and limit of {}.",
            input.len()
        );
        return Err(fail::text(lua, text));
    }
    if offset as u64 > input.len() as u64 {
        let text = format!("Start offset {offset} greater than input length {}.", input.len());
        return Err(fail::text(lua, text));
    }
    let limit = if everything { i64::from(i32::MAX) } else { limit };
    let mut cursor = Cursor { rest: &input[offset as usize..] };
    let mut values = Vec::new();
    while !cursor.rest.is_empty() && (values.len() as i64) < limit {
        if values.len() >= MAX_RESULTS {
            return Err(fail::text(
                lua,
                "stack overflow (too many return values at once; \
                 use unpack_one or unpack_limit instead.)",
            ));
        }
        match decode(lua, &mut cursor)? {
            Ok(value) => values.push(value),
            Err(Damage::Short) => return Err(fail::text(lua, "Missing bytes in input.")),
            Err(Damage::Format) => return Err(fail::text(lua, "Bad data format in input.")),
        }
    }
    if !everything {
        let next = match cursor.rest.len() {
            0 => -1,
            left => (input.len() - left) as i64,
        };
        values.insert(0, Value::Integer(next));
    }
    Ok(values.into_iter().collect())
}

/// Why input cannot be decoded.
enum Damage {
    Short,
    Format,
}

/// What one head announces.
enum Head {
    Value(Value),
    Array(usize),
    Map(usize),
}

/// A container whose elements are still being read.
struct Open {
    table: Table,
    left: usize,
    /// For arrays the index of the next element.
    index: i64,
    is_map: bool,
    key: Option<Value>,
}

fn decode(lua: &Lua, cursor: &mut Cursor<'_>) -> mlua::Result<Result<Value, Damage>> {
    let mut open: Vec<Open> = Vec::new();
    loop {
        let head = match cursor.head(lua)? {
            Ok(head) => head,
            Err(damage) => return Ok(Err(damage)),
        };
        let mut value = match head {
            Head::Value(value) => value,
            Head::Array(count) | Head::Map(count) if count == 0 => {
                Value::Table(lua.create_table()?)
            }
            Head::Array(left) => {
                let table = lua.create_table()?;
                open.push(Open { table, left, index: 1, is_map: false, key: None });
                check_depth(lua, &open)?;
                continue;
            }
            Head::Map(left) => {
                let table = lua.create_table()?;
                open.push(Open { table, left, index: 1, is_map: true, key: None });
                check_depth(lua, &open)?;
                continue;
            }
        };
        // A finished value may finish the containers around it.
        loop {
            let Some(top) = open.last_mut() else {
                return Ok(Ok(value));
            };
            if !place(top, value)? {
                break;
            }
            let done = open.pop().expect("the container was just on top");
            value = Value::Table(done.table);
        }
    }
}

fn check_depth(lua: &Lua, open: &[Open]) -> mlua::Result<()> {
    if open.len() <= MAX_OPEN {
        return Ok(());
    }
    Err(fail::text(
        lua,
        "stack overflow (too many return values at once; \
         use unpack_one or unpack_limit instead.)",
    ))
}

/// Puts a value into its container; says whether that one is complete.
fn place(top: &mut Open, value: Value) -> mlua::Result<bool> {
    if !top.is_map {
        top.table.raw_set(top.index, value)?;
        top.index += 1;
        top.left -= 1;
        return Ok(top.left == 0);
    }
    let Some(key) = top.key.take() else {
        top.key = Some(value);
        return Ok(false);
    };
    match key {
        Value::Nil => return Err(fail::bare("table index is nil")),
        Value::Number(number) if number.is_nan() => return Err(fail::bare("table index is NaN")),
        key => top.table.raw_set(key, value)?,
    }
    top.left -= 1;
    Ok(top.left == 0)
}

/// The undecoded rest of the input.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Damage> {
        if self.rest.len() < count {
            return Err(Damage::Short);
        }
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(taken)
    }

    /// A big-endian unsigned number of `size` bytes.
    fn unsigned(&mut self, size: usize) -> Result<u64, Damage> {
        let bytes = self.take(size)?;
        Ok(bytes.iter().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
    }

    fn head(&mut self, lua: &Lua) -> mlua::Result<Result<Head, Damage>> {
        match self.scalar_or_length() {
            Ok(Part::Head(head)) => Ok(Ok(head)),
            Ok(Part::Bytes(length)) => match self.take(length) {
                Ok(bytes) => Ok(Ok(Head::Value(Value::String(lua.create_string(bytes)?)))),
                Err(damage) => Ok(Err(damage)),
            },
            Err(damage) => Ok(Err(damage)),
        }
    }

    fn scalar_or_length(&mut self) -> Result<Part, Damage> {
        let first = self.take(1)?[0];
        let number = |value: f64| Part::Head(Head::Value(Value::Number(value)));
        Ok(match first {
            0x00..=0x7f => number(f64::from(first)),
            0x80..=0x8f => Part::Head(Head::Map(usize::from(first & 0x0f))),
            0x90..=0x9f => Part::Head(Head::Array(usize::from(first & 0x0f))),
            0xa0..=0xbf => Part::Bytes(usize::from(first & 0x1f)),
            0xe0..=0xff => number(f64::from(first as i8)),
            0xc0 => Part::Head(Head::Value(Value::Nil)),
            0xc2 => Part::Head(Head::Value(Value::Boolean(false))),
            0xc3 => Part::Head(Head::Value(Value::Boolean(true))),
            0xca => number(f64::from(f32::from_bits(self.unsigned(4)? as u32))),
            0xcb => number(f64::from_bits(self.unsigned(8)?)),
            0xcc => number(self.unsigned(1)? as f64),
            0xcd => number(self.unsigned(2)? as f64),
            0xce => number(self.unsigned(4)? as f64),
            // Redis: the original pushes this one as a signed integer.
            0xcf => number(self.unsigned(8)? as i64 as f64),
            0xd0 => number(f64::from(self.unsigned(1)? as u8 as i8)),
            0xd1 => number(f64::from(self.unsigned(2)? as u16 as i16)),
            0xd2 => number(f64::from(self.unsigned(4)? as u32 as i32)),
            0xd3 => number(self.unsigned(8)? as i64 as f64),
            0xd9 => Part::Bytes(self.unsigned(1)? as usize),
            0xda => Part::Bytes(self.unsigned(2)? as usize),
            0xdb => Part::Bytes(self.unsigned(4)? as usize),
            0xdc => Part::Head(Head::Array(self.unsigned(2)? as usize)),
            0xdd => Part::Head(Head::Array(self.unsigned(4)? as usize)),
            0xde => Part::Head(Head::Map(self.unsigned(2)? as usize)),
            0xdf => Part::Head(Head::Map(self.unsigned(4)? as usize)),
            _ => return Err(Damage::Format),
        })
    }
}

/// A head, or the length of a string that follows.
enum Part {
    Head(Head),
    Bytes(usize),
}
