//! BITFIELD: a sequence of reads and writes of integers inside a string.
//!
//! All operations are read first and run afterwards, so that a mistake in the last one leaves the
//! string alone.

use super::{BAD_OFFSET, edit_bits, offset_is_allowed};
use crate::args::int;
use crate::bits::{Field, Overflow};
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::notify::Classes;
use crate::number::parse_i64;
use crate::resp::Reply;

const BAD_TYPE: Error = Error::fixed(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but \
     i64 is.",
);

/// One operation at a bit offset.
struct Operation {
    field: Field,
    offset: u64,
    action: Action,
}

enum Action {
    Get,
    Set { value: i64, overflow: Overflow },
    Increment { by: i64, overflow: Overflow },
}

/// BITFIELD key [GET type offset | [OVERFLOW WRAP|SAT|FAIL] SET|INCRBY type offset value ...]
pub(in super::super) fn bitfield(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let operations = parse(cx, &args[2..])?;
    match last_written_bit(&operations) {
        None => read_all(cx, args[1], &operations, out),
        Some(last) => write_all(cx, args[1], &operations, last, out),
    }
}

/// BITFIELD_RO key [GET type offset ...]
pub(in super::super) fn bitfield_ro(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let operations = parse(cx, &args[2..])?;
    if last_written_bit(&operations).is_some() {
        return Err(Error::fixed("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read_all(cx, args[1], &operations, out)
}

fn parse(cx: &Ctx<'_>, mut words: &[&[u8]]) -> Result<Vec<Operation>, Error> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    while let [name, rest @ ..] = words {
        let name = name.to_ascii_lowercase();
        words = match (name.as_slice(), rest) {
            (b"overflow", [kind, rest @ ..]) => {
                overflow = parse_overflow(kind)?;
                rest
            }
            (b"get", [field, offset, rest @ ..]) => {
                let (field, offset) = parse_place(cx, field, offset)?;
                operations.push(Operation { field, offset, action: Action::Get });
                rest
            }
            (b"set", [field, offset, value, rest @ ..]) => {
                let (field, offset) = parse_place(cx, field, offset)?;
                let action = Action::Set { value: int(value)?, overflow };
                operations.push(Operation { field, offset, action });
                rest
            }
            (b"incrby", [field, offset, by, rest @ ..]) => {
                let (field, offset) = parse_place(cx, field, offset)?;
                let action = Action::Increment { by: int(by)?, overflow };
                operations.push(Operation { field, offset, action });
                rest
            }
            _ => return Err(Error::SYNTAX),
        };
    }
    Ok(operations)
}

fn parse_overflow(word: &[u8]) -> Result<Overflow, Error> {
    match word.to_ascii_lowercase().as_slice() {
        b"wrap" => Ok(Overflow::Wrap),
        b"sat" => Ok(Overflow::Saturate),
        b"fail" => Ok(Overflow::Fail),
        _ => Err(Error::fixed("ERR Invalid OVERFLOW type specified")),
    }
}

/// A type and an offset in bits; `#n` means the nth field of that type.
fn parse_place(cx: &Ctx<'_>, field: &[u8], offset: &[u8]) -> Result<(Field, u64), Error> {
    let field = Field::parse(field).ok_or(BAD_TYPE)?;
    let (digits, unit) = match offset {
        [b'#', digits @ ..] => (digits, i64::from(field.width())),
        digits => (digits, 1),
    };
    // Redis: the product wraps; what comes out negative or too far is refused below.
    let offset = parse_i64(digits).map(|offset| offset.wrapping_mul(unit));
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    let offset = offset.filter(|offset| offset_is_allowed(cx, *offset)).ok_or(BAD_OFFSET)?;
    Ok((field, offset))
}

/// The farthest bit that is written to, if any is.
fn last_written_bit(operations: &[Operation]) -> Option<u64> {
    let writes = operations.iter().filter(|operation| !matches!(operation.action, Action::Get));
    writes.map(|operation| operation.offset + u64::from(operation.field.width()) - 1).max()
}

fn read_all(cx: &mut Ctx<'_>, key: &[u8], operations: &[Operation], out: &mut Reply) -> Done {
    let mut digits = itoa::Buffer::new();
    let bytes = cx.str(key)?.map_or(&[][..], |string| string.bytes(&mut digits));
    out.array(operations.len());
    for operation in operations {
        out.int(operation.field.read(bytes, operation.offset));
    }
    Ok(())
}

fn write_all(
    cx: &mut Ctx<'_>,
    key: &[u8],
    operations: &[Operation],
    last: u64,
    out: &mut Reply,
) -> Done {
    let (changes, grown) = edit_bits(cx, key, last, |bytes, grown| {
        out.array(operations.len());
        let mut changes = 0;
        for operation in operations {
            match apply(operation, bytes) {
                Some(applied) => {
                    out.int(applied.answer);
                    let is_write = !matches!(operation.action, Action::Get);
                    changes += u64::from(is_write && (grown || applied.changed));
                }
                None => out.null(),
            }
        }
        (changes, grown)
    })?;
    if changes > 0 {
        cx.touched(key);
        cx.notify(Classes::STRING, "setbit", key);
        cx.dirty(changes);
    } else if grown {
        // Every write failed, yet the string has grown: the log must know.
        cx.dirty(1);
    }
    Ok(())
}

struct Applied {
    answer: i64,
    changed: bool,
}

/// Runs one operation; `None` if it overflowed and must fail.
fn apply(operation: &Operation, bytes: &mut [u8]) -> Option<Applied> {
    let Operation { field, offset, ref action } = *operation;
    let old = field.read(bytes, offset);
    let (new, answers_old) = match *action {
        Action::Get => return Some(Applied { answer: old, changed: false }),
        Action::Set { value, overflow } => (field.add(value, 0, overflow)?, true),
        Action::Increment { by, overflow } => (field.add(old, by, overflow)?, false),
    };
    field.write(bytes, offset, new);
    Some(Applied { answer: if answers_old { old } else { new }, changed: old != new })
}
