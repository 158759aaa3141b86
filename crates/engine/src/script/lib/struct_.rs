//! `struct`: packs values into C-like binary layouts and back.
//!
//! A format is read one option at a time; `>` `<` `!n` change byte order and
//! alignment for what follows, sizes may follow `i`, `I`, `c` and `!`. Sizes
//! are those of a 64-bit C platform: short 2, int 4, long and size_t 8.

use mlua::{Lua, MultiValue, Table, Value};

use crate::script::arguments::{Arguments, integer_or, number, string};
use crate::script::fail;
use crate::script::number::to_i64;

/// Integers may be this many bytes wide; beyond eight, the rest is zeros.
const MAX_INTEGER_BYTES: usize = 32;
/// The alignment that a `!` without a number means.
const NATURAL_ALIGNMENT: usize = 8;
/// Bound on one packed result; a format can ask for gigabytes of padding.
const MAX_PACKED_BYTES: usize = 512 * 1024 * 1024;

/// Builds the library table.
pub(crate) fn create(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(|lua, args: Arguments| pack(lua, &args))?)?;
    table.raw_set("unpack", lua.create_function(|lua, args: Arguments| unpack(lua, &args))?)?;
    table.raw_set("size", lua.create_function(|lua, args: Arguments| size(lua, &args))?)?;
    Ok(table)
}

/// Walks a format string.
struct Layout<'a> {
    lua: &'a Lua,
    format: Vec<u8>,
    at: usize,
    big_endian: bool,
    align: usize,
}

impl<'a> Layout<'a> {
    fn new(lua: &'a Lua, args: &Arguments) -> mlua::Result<Self> {
        let format = string(lua, args, 0)?.as_bytes().to_vec();
        let end = format.iter().position(|byte| *byte == 0).unwrap_or(format.len());
        let format = format[..end].to_vec();
        Ok(Layout { lua, format, at: 0, big_endian: cfg!(target_endian = "big"), align: 1 })
    }

    /// The next option and the size of its element.
    fn next(&mut self) -> mlua::Result<Option<(u8, usize)>> {
        let Some(option) = self.format.get(self.at).copied() else {
            return Ok(None);
        };
        self.at += 1;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.digits(1)?,
            b'i' | b'I' => {
                let size = self.digits(4)?;
                if size > MAX_INTEGER_BYTES {
                    return Err(fail::text(
                        self.lua,
                        format!("integral size {size} is larger than limit of {MAX_INTEGER_BYTES}"),
                    ));
                }
                size
            }
            _ => 0,
        };
        Ok(Some((option, size)))
    }

    fn digits(&mut self, default: usize) -> mlua::Result<usize> {
        let start = self.at;
        let mut value: i64 = 0;
        while let Some(digit) = self.format.get(self.at).filter(|byte| byte.is_ascii_digit()) {
            value = value * 10 + i64::from(digit - b'0');
            if value > i64::from(i32::MAX) {
                return Err(fail::text(self.lua, "integral size overflow"));
            }
            self.at += 1;
        }
        Ok(if self.at == start { default } else { value as usize })
    }

    fn padding(&self, position: usize, option: u8, size: usize) -> usize {
        if size == 0 || option == b'c' {
            return 0;
        }
        let size = size.min(self.align);
        (size.wrapping_sub(position & (size - 1))) & (size - 1)
    }

    /// An option that is no element: byte order, alignment, blank.
    fn control(&mut self, option: u8) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let align = self.digits(NATURAL_ALIGNMENT)?;
                if !align.is_power_of_two() {
                    return Err(fail::text(
                        self.lua,
                        format!("alignment {align} is not a power of 2"),
                    ));
                }
                self.align = align;
            }
            other => {
                let why = format!("invalid format option '{}'", char::from(other));
                return Err(fail::bad_argument(self.lua, 1, why));
            }
        }
        Ok(())
    }

    fn ordered(&self, mut little: Vec<u8>) -> Vec<u8> {
        if self.big_endian {
            little.reverse();
        }
        little
    }
}

fn pack(lua: &Lua, args: &Arguments) -> mlua::Result<Value> {
    let mut layout = Layout::new(lua, args)?;
    // Redis: a nil ends the arguments, so one that is missing is called nil.
    let mut args = args.clone();
    args.push(Value::Nil);
    let args = &args;
    let mut out = Vec::new();
    let mut next = 1;
    while let Some((option, size)) = layout.next()? {
        out.resize(out.len() + layout.padding(out.len(), option, size), 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let value = number(lua, args, next)?;
                next += 1;
                let bits = if value < 0.0 { to_i64(value) as u64 } else { unsigned(value) };
                let mut bytes = bits.to_le_bytes().to_vec();
                bytes.resize(size, 0);
                out.extend_from_slice(&layout.ordered(bytes));
            }
            b'x' => out.push(0),
            b'f' => {
                let bytes = (number(lua, args, next)? as f32).to_le_bytes().to_vec();
                next += 1;
                out.extend_from_slice(&layout.ordered(bytes));
            }
            b'd' => {
                let bytes = number(lua, args, next)?.to_le_bytes().to_vec();
                next += 1;
                out.extend_from_slice(&layout.ordered(bytes));
            }
            b'c' | b's' => {
                let text = string(lua, args, next)?;
                next += 1;
                let text = text.as_bytes();
                let wanted = if size == 0 { text.len() } else { size };
                if text.len() < wanted {
                    return Err(fail::bad_argument(lua, next + 1, "string too short"));
                }
                out.extend_from_slice(&text[..wanted]);
                if option == b's' {
                    out.push(0);
                }
            }
            other => layout.control(other)?,
        }
        if out.len() > MAX_PACKED_BYTES {
            return Err(fail::text(lua, "packed result too large"));
        }
    }
    Ok(Value::String(lua.create_string(&out)?))
}

/// A double as an unsigned integer; above the signed range C wraps.
fn unsigned(value: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if value < HALF { to_i64(value) as u64 } else { (to_i64(value - HALF) as u64) ^ (1 << 63) }
}

fn unpack(lua: &Lua, args: &Arguments) -> mlua::Result<MultiValue> {
    let mut layout = Layout::new(lua, args)?;
    let data = string(lua, args, 1)?;
    let data = data.as_bytes();
    let start = integer_or(lua, args, 2, 1)?;
    if start == 0 {
        return Err(fail::bad_argument(lua, 3, "offset must be 1 or greater"));
    }
    let short = || fail::bad_argument(lua, 2, "data string too short");
    let mut at = start.wrapping_sub(1) as u64 as usize;
    let mut results: Vec<Value> = Vec::new();
    while let Some((option, mut size)) = layout.next()? {
        at = at.wrapping_add(layout.padding(at, option, size));
        let fits = |size: usize| size <= data.len() && at <= data.len() - size;
        if !fits(size) {
            return Err(short());
        }
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let bytes = layout.ordered(data[at..at + size].to_vec());
                results.push(Value::Number(read_integer(&bytes, option.is_ascii_lowercase())));
            }
            b'x' => {}
            b'f' => {
                let bytes = layout.ordered(data[at..at + 4].to_vec());
                let bytes: [u8; 4] = bytes.try_into().expect("four bytes were taken");
                results.push(Value::Number(f64::from(f32::from_le_bytes(bytes))));
            }
            b'd' => {
                let bytes = layout.ordered(data[at..at + 8].to_vec());
                let bytes: [u8; 8] = bytes.try_into().expect("eight bytes were taken");
                results.push(Value::Number(f64::from_le_bytes(bytes)));
            }
            b'c' => {
                if size == 0 {
                    let Some(Value::Number(length)) = results.pop() else {
                        return Err(fail::text(lua, "format 'c0' needs a previous size"));
                    };
                    size = unsigned(length) as usize;
                    if !fits(size) {
                        return Err(short());
                    }
                }
                results.push(Value::String(lua.create_string(&data[at..at + size])?));
            }
            b's' => {
                let Some(length) = memchr::memchr(0, &data[at..]) else {
                    return Err(fail::text(lua, "unfinished string in data"));
                };
                results.push(Value::String(lua.create_string(&data[at..at + length])?));
                size = length + 1;
            }
            other => layout.control(other)?,
        }
        at += size;
    }
    results.push(Value::Number((at + 1) as f64));
    Ok(results.into_iter().collect())
}

/// Folds little-endian bytes into 64 bits as the original does: what is wider
/// is shifted out at the top, the sign is taken from the declared size.
fn read_integer(little: &[u8], signed: bool) -> f64 {
    let value = little.iter().rev().fold(0u64, |value, byte| (value << 8) | u64::from(*byte));
    if !signed {
        return value as f64;
    }
    let top = (little.len() * 8).wrapping_sub(1) & 63;
    let mask = u64::MAX << top;
    let value = if value & mask == 0 { value } else { value | mask };
    value as i64 as f64
}

fn size(lua: &Lua, args: &Arguments) -> mlua::Result<f64> {
    let mut layout = Layout::new(lua, args)?;
    let mut at: usize = 0;
    while let Some((option, size)) = layout.next()? {
        at = at.wrapping_add(layout.padding(at, option, size));
        if option == b's' {
            return Err(fail::bad_argument(lua, 1, "option 's' has no fixed size"));
        }
        if option == b'c' && size == 0 {
            return Err(fail::bad_argument(lua, 1, "option 'c0' has no fixed size"));
        }
        if !option.is_ascii_alphanumeric() {
            layout.control(option)?;
        }
        at = at.wrapping_add(size);
    }
    Ok(at as f64)
}
