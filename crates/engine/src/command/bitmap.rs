//! Bitmap commands: strings addressed by the bit.
//!
//! The arithmetic is in [`crate::bits`]; this file reads arguments in Redis' order (so that of two
//! mistakes the same one is reported), grows strings and reports changes. BITFIELD, which is a
//! small language in itself, is in `bitmap/field.rs`.

mod field;

pub(super) use field::{bitfield, bitfield_ro};

use crate::args::int;
use crate::bits::{self, Combination};
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::keyspace::Entry;
use crate::notify::Classes;
use crate::number::parse_i64;
use crate::resp::Reply;
use crate::value::Value;

const BAD_OFFSET: Error = Error::fixed("ERR bit offset is not an integer or out of range");
const BAD_BIT: Error = Error::fixed("ERR bit is not an integer or out of range");

/// SETBIT key offset value
pub(super) fn setbit(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let offset = bit_offset(cx, args[2])?;
    let on = match parse_i64(args[3]) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(BAD_BIT),
    };
    let (was, grown) =
        edit_bits(cx, args[1], offset, |bytes, grown| (bits::replace(bytes, offset, on), grown))?;
    if grown || was != on {
        cx.wrote(args[1], Classes::STRING, "setbit");
    }
    out.int(i64::from(was));
    Ok(())
}

/// GETBIT key offset
pub(super) fn getbit(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let offset = bit_offset(cx, args[2])?;
    let on = match cx.str(args[1])? {
        Some(string) => bits::get(string.bytes(&mut itoa::Buffer::new()), offset),
        None => false,
    };
    out.int(i64::from(on));
    Ok(())
}

/// BITCOUNT key [start end [BYTE|BIT]]
pub(super) fn bitcount(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    // Redis: a missing key answers before the range is even checked.
    let Some(string) = cx.str(args[1])? else {
        out.int(0);
        return Ok(());
    };
    let mut digits = itoa::Buffer::new();
    let bytes = string.bytes(&mut digits);
    let span = match args.len() {
        2 => Span::all(bytes),
        4 | 5 => {
            let (start, end) = (int(args[2])?, int(args[3])?);
            if start < 0 && end < 0 && start > end {
                out.int(0);
                return Ok(());
            }
            let unit = args.get(4).map_or(Ok(Unit::Byte), |word| Unit::parse(word))?;
            Span::resolve(bytes, start, end, unit)
        }
        _ => return Err(Error::SYNTAX),
    };
    let ones = span.map_or(0, |span| bits::count_ones(bytes, span.first, span.last));
    out.int(ones as i64);
    Ok(())
}

/// BITPOS key bit [start [end [BYTE|BIT]]]
pub(super) fn bitpos(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let wanted = match int(args[2])? {
        0 => false,
        1 => true,
        _ => return Err(Error::fixed("ERR The bit argument must be 1 or 0.")),
    };
    let Some(string) = cx.str(args[1])? else {
        out.int(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let mut digits = itoa::Buffer::new();
    let bytes = string.bytes(&mut digits);
    let span = match args.len() {
        3 => Span::all(bytes),
        4..=6 => {
            let start = int(args[3])?;
            let unit = args.get(5).map_or(Ok(Unit::Byte), |word| Unit::parse(word))?;
            let end = args.get(4).map_or(Ok(-1), |end| int(end))?;
            Span::resolve(bytes, start, end, unit)
        }
        _ => return Err(Error::SYNTAX),
    };
    let found = span.map(|span| bits::find(bytes, wanted, span.first, span.last));
    out.int(match found {
        Some(Some(position)) => position as i64,
        // A string counts as followed by zeros, unless the search was to end before.
        Some(None) if !wanted && args.len() < 5 => bytes.len() as i64 * 8,
        Some(None) | None => -1,
    });
    Ok(())
}

/// BITOP AND|OR|XOR|NOT destination key [key ...]
pub(super) fn bitop(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let combination = match args[1].to_ascii_lowercase().as_slice() {
        b"and" => Some(Combination::And),
        b"or" => Some(Combination::Or),
        b"xor" => Some(Combination::Xor),
        b"not" => None,
        _ => return Err(Error::SYNTAX),
    };
    let (target, sources) = (args[2], &args[3..]);
    if combination.is_none() && sources.len() != 1 {
        return Err(Error::fixed("ERR BITOP NOT must be called with a single source key."));
    }
    for key in sources {
        cx.str(key)?;
    }
    // All are strings and none expires meanwhile, so they can be borrowed together.
    let mut digits = vec![itoa::Buffer::new(); sources.len()];
    let db = &*cx.db();
    let bytes: Vec<&[u8]> = sources
        .iter()
        .zip(&mut digits)
        .map(|(key, digits)| {
            let string = db.get(key).and_then(Entry::str);
            string.map_or(&[][..], |string| string.bytes(digits))
        })
        .collect();
    let result = match combination {
        Some(combination) => bits::combine(combination, &bytes),
        None => bits::invert(bytes[0]),
    };
    let length = result.len();
    if length > 0 {
        cx.set_value(target, Value::string(result));
        cx.wrote(target, Classes::STRING, "set");
    } else if cx.remove(target).is_some() {
        cx.wrote(target, Classes::GENERIC, "del");
    }
    out.count(length);
    Ok(())
}

/// Edits the string under a key, grown with zeros to reach `offset`; `edit` learns whether it was
/// grown or made.
fn edit_bits<R>(
    cx: &mut Ctx<'_>,
    key: &[u8],
    offset: u64,
    edit: impl FnOnce(&mut Vec<u8>, bool) -> R,
) -> Result<R, Error> {
    let needed = (offset >> 3) as usize + 1;
    let made = match cx.peek(key) {
        None => true,
        Some(entry) if entry.str().is_none() => return Err(Error::WRONG_TYPE),
        Some(_) => false,
    };
    if made {
        cx.insert(Entry::new(key, Value::string(vec![0; needed])));
    } else {
        cx.touch_idle(key);
    }
    let edited = cx.db().edit_string(key, |entry| {
        let bytes = entry.raw_mut().expect("checked to be a string");
        let short = bytes.len() < needed;
        if short {
            bytes.resize(needed, 0);
        }
        edit(bytes, made || short)
    });
    Ok(edited.expect("found or made just above"))
}

/// An offset within the largest string that may be.
fn bit_offset(cx: &Ctx<'_>, text: &[u8]) -> Result<u64, Error> {
    let offset = parse_i64(text).and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset_is_allowed(cx, *offset)).ok_or(BAD_OFFSET)
}

fn offset_is_allowed(cx: &Ctx<'_>, offset: u64) -> bool {
    offset >> 3 < cx.engine.settings.proto_max_bulk_len
}

/// What a range counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Byte,
    Bit,
}

impl Unit {
    fn parse(word: &[u8]) -> Result<Self, Error> {
        if word.eq_ignore_ascii_case(b"bit") {
            Ok(Self::Bit)
        } else if word.eq_ignore_ascii_case(b"byte") {
            Ok(Self::Byte)
        } else {
            Err(Error::SYNTAX)
        }
    }
}

/// Bits from `first` to `last`, both within a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: u64,
    last: u64,
}

impl Span {
    fn all(bytes: &[u8]) -> Option<Self> {
        Self::resolve(bytes, 0, -1, Unit::Byte)
    }

    /// Turns indexes, negative ones from the end, into bits; `None` if no bit is left.
    fn resolve(bytes: &[u8], start: i64, end: i64, unit: Unit) -> Option<Self> {
        let bits_a_unit = if unit == Unit::Byte { 8 } else { 1 };
        let total = bytes.len() as i64 * 8 / bits_a_unit;
        let from_start = |index: i64| if index < 0 { (total + index).max(0) } else { index };
        let (start, end) = (from_start(start), from_start(end).min(total - 1));
        (start <= end).then(|| Self {
            first: (start * bits_a_unit) as u64,
            last: (end * bits_a_unit + bits_a_unit - 1) as u64,
        })
    }
}
