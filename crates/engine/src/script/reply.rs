//! The value a script returns, as a reply to its caller.
//!
//! Arrays are told from other replies by the fields of the table: `err`, `ok`,
//! `double`, `big_number`, `verbatim_string`, `map`, `set`, in this order. How
//! many elements an array has is known only when the first nil is met, so its
//! header is written with one digit and widened afterwards if that was too few.
//!
//! Tables being written wait on a list, not on the native stack. A table that
//! contains itself ends where Redis' interpreter runs out of stack, with an
//! error in place of the element that is too deep.

use mlua::{Lua, LuaString, Table, Value};

use super::number::{push_general, to_i64};
use super::pairs::{Items, Take};

/// Slots of Lua's stack that Redis can use before it gives up; each array
/// takes one, a map or set more.
const STACK_SLOTS: usize = 7995;

/// The field names, made once per interpreter.
pub(crate) struct Fields {
    err: LuaString,
    ok: LuaString,
    double: LuaString,
    big_number: LuaString,
    verbatim_string: LuaString,
    map: LuaString,
    set: LuaString,
    ignore: LuaString,
}

impl Fields {
    pub(crate) fn new(lua: &Lua) -> mlua::Result<Self> {
        Ok(Fields {
            err: lua.create_string("err")?,
            ok: lua.create_string("ok")?,
            double: lua.create_string("double")?,
            big_number: lua.create_string("big_number")?,
            verbatim_string: lua.create_string("verbatim_string")?,
            map: lua.create_string("map")?,
            set: lua.create_string("set")?,
            ignore: lua.create_string("ignore_error_stats_update")?,
        })
    }
}

/// Who reads a reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Protocols {
    /// What the caller of the script speaks.
    pub(crate) client: u8,
    /// What the script chose with `redis.setresp`; decides about booleans.
    pub(crate) script: u8,
}

/// A container that is being written.
enum Open {
    Array {
        next: i64,
        header_at: usize,
        slots: usize,
    },
    /// Keys and values of a map, or members of a set, in order.
    List {
        items: Items,
        slots: usize,
    },
}

/// Appends the reply; says whether it is an error that was counted before.
pub(crate) fn write(
    lua: &Lua,
    out: &mut Vec<u8>,
    value: Value,
    fields: &Fields,
    protocols: Protocols,
) -> mlua::Result<bool> {
    let mut writer = Writer {
        lua,
        out,
        fields,
        protocols,
        open: Vec::new(),
        tables: Vec::new(),
        deep: None,
        counted: false,
    };
    writer.put(value, 1)?;
    while let Some(top) = writer.open.last() {
        if let Open::Array { .. } = top {
            writer.step_array()?;
        } else {
            writer.step_list()?;
        }
    }
    Ok(writer.counted)
}

/// Arrays open at once that are held directly; those inside of them are kept
/// in a Lua table, because mlua can hold only some thousand values.
const HELD_TABLES: usize = 256;

struct Writer<'a> {
    lua: &'a Lua,
    out: &'a mut Vec<u8>,
    fields: &'a Fields,
    protocols: Protocols,
    open: Vec<Open>,
    /// The tables of the outermost open arrays.
    tables: Vec<Table>,
    /// The tables of the other open arrays, and how many they are.
    deep: Option<(Table, usize)>,
    counted: bool,
}

impl Writer<'_> {
    fn push_table(&mut self, table: Table) -> mlua::Result<()> {
        if self.tables.len() < HELD_TABLES {
            self.tables.push(table);
            return Ok(());
        }
        let (kept, count) = match &mut self.deep {
            Some((kept, count)) => (kept, count),
            None => {
                let new = self.deep.insert((self.lua.create_table()?, 0));
                (&mut new.0, &mut new.1)
            }
        };
        *count += 1;
        kept.raw_set(*count, table)
    }

    fn pop_table(&mut self) {
        match &mut self.deep {
            Some((_, count)) if *count > 0 => *count -= 1,
            _ => {
                self.tables.pop();
            }
        }
    }

    /// Element `index` of the innermost open array.
    fn element(&self, index: i64) -> mlua::Result<Value> {
        match (&self.deep, self.tables.last()) {
            (Some((kept, count)), _) if *count > 0 => kept.raw_get::<Table>(*count)?.raw_get(index),
            (_, Some(table)) => table.raw_get(index),
            (_, None) => Ok(Value::Nil),
        }
    }

    fn step_array(&mut self) -> mlua::Result<()> {
        let Some(Open::Array { next, header_at, slots }) = self.open.last_mut() else {
            return Ok(());
        };
        let (index, at, slots) = (*next, *header_at, *slots);
        *next += 1;
        let element = self.element(index)?;
        if element.is_nil() {
            self.open.pop();
            self.pop_table();
            self.widen(at, index - 1);
            return Ok(());
        }
        self.put(element, slots + 1)
    }

    fn step_list(&mut self) -> mlua::Result<()> {
        let Some(Open::List { items, slots }) = self.open.last_mut() else {
            return Ok(());
        };
        let slots = *slots;
        match items.next()? {
            Some(item) => self.put(item, slots + 3),
            None => {
                self.open.pop();
                Ok(())
            }
        }
    }

    fn put(&mut self, value: Value, slots: usize) -> mlua::Result<()> {
        if slots > STACK_SLOTS {
            self.out.extend_from_slice(b"-ERR reached lua stack limit\r\n");
            return Ok(());
        }
        match value {
            Value::String(text) => self.bulk(&text.as_bytes()),
            Value::Boolean(value) => self.boolean(value),
            Value::Integer(whole) => self.integer(whole),
            Value::Number(number) => self.integer(to_i64(number)),
            Value::Table(table) => self.table(table, slots)?,
            _ => self.null(),
        }
        Ok(())
    }

    fn header(&mut self, kind: u8, count: usize) {
        self.out.push(kind);
        let mut digits = itoa::Buffer::new();
        self.out.extend_from_slice(digits.format(count).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    fn bulk(&mut self, text: &[u8]) {
        self.header(b'$', text.len());
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    fn integer(&mut self, whole: i64) {
        self.out.push(b':');
        let mut digits = itoa::Buffer::new();
        self.out.extend_from_slice(digits.format(whole).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    fn null(&mut self) {
        let null: &[u8] = if self.protocols.client == 2 { b"$-1\r\n" } else { b"_\r\n" };
        self.out.extend_from_slice(null);
    }

    fn boolean(&mut self, value: bool) {
        match (self.protocols.script, self.protocols.client, value) {
            (2, _, true) | (3, 2, true) => self.integer(1),
            (2, _, false) => self.null(),
            (3, 2, false) => self.integer(0),
            (_, _, true) => self.out.extend_from_slice(b"#t\r\n"),
            (_, _, false) => self.out.extend_from_slice(b"#f\r\n"),
        }
    }

    /// A line whose text cannot break the protocol. C strings end at a zero.
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        let end = memchr::memchr(0, text).unwrap_or(text.len());
        let clean = text[..end].iter().map(|byte| match byte {
            b'\r' | b'\n' => b' ',
            other => *other,
        });
        self.out.extend(clean);
        self.out.extend_from_slice(b"\r\n");
    }

    fn table(&mut self, table: Table, slots: usize) -> mlua::Result<()> {
        let fields = self.fields;
        if let Value::String(err) = table.raw_get(&fields.err)? {
            if self.open.is_empty() {
                self.counted = matches!(table.raw_get(&fields.ignore)?, Value::Boolean(true));
            }
            let err = err.as_bytes();
            self.line(b'-', super::convert::without_line_end(&err));
            return Ok(());
        }
        if let Value::String(ok) = table.raw_get(&fields.ok)? {
            self.line(b'+', &ok.as_bytes());
            return Ok(());
        }
        match table.raw_get(&fields.double)? {
            Value::Integer(whole) => {
                self.double(whole as f64);
                return Ok(());
            }
            Value::Number(number) => {
                self.double(number);
                return Ok(());
            }
            _ => {}
        }
        if let Value::String(digits) = table.raw_get(&fields.big_number)? {
            self.big_number(&digits.as_bytes());
            return Ok(());
        }
        if let Value::Table(inner) = table.raw_get(&fields.verbatim_string)?
            && self.verbatim(&inner)?
        {
            return Ok(());
        }
        if let Value::Table(map) = table.raw_get(&fields.map)? {
            return self.map(&map, slots);
        }
        if let Value::Table(set) = table.raw_get(&fields.set)? {
            return self.set(&set, slots);
        }
        let header_at = self.out.len();
        self.out.extend_from_slice(b"*0\r\n");
        self.open.push(Open::Array { next: 1, header_at, slots });
        self.push_table(table)
    }

    /// Writes the count of a finished array into its header.
    fn widen(&mut self, header_at: usize, count: i64) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(count).as_bytes();
        if let [digit] = digits {
            self.out[header_at + 1] = *digit;
        } else {
            self.out.splice(header_at + 1..header_at + 2, digits.iter().copied());
        }
    }

    fn double(&mut self, number: f64) {
        let mut text = Vec::new();
        push_general(&mut text, number, 17);
        if self.protocols.client == 2 {
            self.bulk(&text);
        } else {
            self.line(b',', &text);
        }
    }

    fn big_number(&mut self, digits: &[u8]) {
        if self.protocols.client == 2 {
            let clean: Vec<u8> = digits
                .iter()
                .map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte })
                .collect();
            self.bulk(&clean);
        } else {
            self.line(b'(', digits);
        }
    }

    /// Says whether the table was a verbatim string.
    fn verbatim(&mut self, inner: &Table) -> mlua::Result<bool> {
        let (Value::String(format), Value::String(text)) =
            (inner.raw_get("format")?, inner.raw_get("string")?)
        else {
            return Ok(false);
        };
        let text = text.as_bytes();
        if self.protocols.client == 2 {
            self.bulk(&text);
            return Ok(true);
        }
        self.header(b'=', text.len() + 4);
        let format = format.as_bytes();
        for index in 0..3 {
            self.out.push(format.get(index).copied().unwrap_or(b' '));
        }
        self.out.push(b':');
        self.out.extend_from_slice(&text);
        self.out.extend_from_slice(b"\r\n");
        Ok(true)
    }

    fn map(&mut self, map: &Table, slots: usize) -> mlua::Result<()> {
        let items = Items::of(self.lua, map, Take::KeysAndValues, self.open.len())?;
        if self.protocols.client == 2 {
            self.header(b'*', items.len());
        } else {
            self.header(b'%', items.len() / 2);
        }
        self.open.push(Open::List { items, slots });
        Ok(())
    }

    fn set(&mut self, set: &Table, slots: usize) -> mlua::Result<()> {
        let items = Items::of(self.lua, set, Take::Keys, self.open.len())?;
        self.header(if self.protocols.client == 2 { b'*' } else { b'~' }, items.len());
        self.open.push(Open::List { items, slots });
        Ok(())
    }
}
