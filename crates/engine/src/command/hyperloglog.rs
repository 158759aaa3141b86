//! HyperLogLog commands; the sketch itself is in [`crate::hll`].
//!
//! A sketch is a string, so each command first checks that the string looks like one, and each
//! may find it corrupted. PFCOUNT of one key is a read that writes: it stores its estimate in the
//! sketch, and the log gets it, so that a replay has the same bytes.

use crate::ctx::Ctx;
use crate::error::{Done, Error, printable};
use crate::hll::{self, Corrupted, Encoding, Union};
use crate::keyspace::{Entry, Str};
use crate::notify::Classes;
use crate::resp::Reply;
use crate::value::Value;

/// Elements that PFSELFTEST adds.
const SELF_TEST_ELEMENTS: u64 = 1_000_000;

const NOT_A_SKETCH: Error = Error::fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");

impl From<Corrupted> for Error {
    fn from(_: Corrupted) -> Self {
        Error::fixed("INVALIDOBJ Corrupted HLL object detected")
    }
}

/// PFADD key [element ...]
pub(super) fn pfadd(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let key = args[1];
    let sparse_max_bytes = sparse_max_bytes(cx);
    let made = make_if_absent(cx, key)?;
    let mut updated = u64::from(made);
    let result = edit(cx, key, |sketch| {
        for element in &args[2..] {
            updated += u64::from(hll::add(sketch, element, sparse_max_bytes)?);
        }
        if updated > 0 {
            hll::mark_stale(sketch);
        }
        Ok(())
    });
    cx.dirty(updated);
    if result.is_err() && updated > 0 {
        // Elements before the corrupted run stay added, and the log must not repeat the error.
        let sketch = cx.peek(key).and_then(Entry::str).map(Str::to_vec).unwrap_or_default();
        cx.rewrite(&[b"SET", key, &sketch, b"KEEPTTL"]);
    }
    result?;
    if updated > 0 {
        cx.touched(key);
        cx.notify(Classes::STRING, "pfadd", key);
    }
    out.int(i64::from(updated > 0));
    Ok(())
}

/// PFCOUNT key [key ...]
pub(super) fn pfcount(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    if args.len() > 2 {
        let mut union = Union::new();
        merge_all(cx, &args[1..], &mut union)?;
        out.int(union.count() as i64);
        return Ok(());
    }
    let key = args[1];
    let Some(encoded) = cx.str(key)? else {
        out.int(0);
        return Ok(());
    };
    let mut digits = itoa::Buffer::new();
    let sketch = encoded.bytes(&mut digits);
    hll::encoding(sketch).ok_or(NOT_A_SKETCH)?;
    if let Some(count) = hll::cached_count(sketch) {
        out.int(count as i64);
        return Ok(());
    }
    let count = hll::count(sketch)?;
    edit(cx, key, |sketch| {
        hll::cache_count(sketch, count);
        Ok(())
    })?;
    cx.touched(key);
    cx.dirty(1);
    out.int(count as i64);
    Ok(())
}

/// PFMERGE destination [source ...]
pub(super) fn pfmerge(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let key = args[1];
    let mut union = Union::new();
    let any_dense = merge_all(cx, &args[1..], &mut union)?;
    let sparse_max_bytes = sparse_max_bytes(cx);
    make_if_absent(cx, key)?;
    edit(cx, key, |sketch| {
        if any_dense {
            hll::make_dense(sketch)?;
        }
        union.write_to(sketch, sparse_max_bytes);
        Ok(())
    })?;
    cx.wrote(key, Classes::STRING, "pfadd");
    out.ok();
    Ok(())
}

/// PFDEBUG GETREG|DECODE|ENCODING|TODENSE key
pub(super) fn pfdebug(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let key = args[2];
    let mut digits = itoa::Buffer::new();
    let Some(entry) = cx.peek(key) else {
        return Err(Error::fixed("ERR The specified key does not exist"));
    };
    let sketch = entry.str().ok_or(Error::WRONG_TYPE)?.bytes(&mut digits);
    let encoding = hll::encoding(sketch).ok_or(NOT_A_SKETCH)?;
    match args[1].to_ascii_lowercase().as_slice() {
        b"getreg" => {
            turn_dense(cx, key)?;
            edit(cx, key, |sketch| {
                out.array(hll::REGISTERS);
                for register in hll::dense_registers(sketch) {
                    out.int(i64::from(register));
                }
                Ok(())
            })?;
        }
        b"decode" if encoding == Encoding::Dense => {
            return Err(Error::fixed("ERR HLL encoding is not sparse"));
        }
        b"decode" => out.bulk(hll::describe_sparse(sketch).as_bytes()),
        b"encoding" => out.simple(match encoding {
            Encoding::Dense => "dense",
            Encoding::Sparse => "sparse",
        }),
        b"todense" => {
            let converted = turn_dense(cx, key)?;
            out.int(i64::from(converted));
        }
        _ => {
            let name = printable(args[1], args[1].len());
            return Err(Error::new(format!("ERR Unknown PFDEBUG subcommand '{name}'")));
        }
    }
    Ok(())
}

/// PFSELFTEST
pub(super) fn pfselftest(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    let sparse_max_bytes = sparse_max_bytes(cx);
    let rng = &mut cx.engine.rng;
    hll::self_test(|| rng.next_u64(), sparse_max_bytes, SELF_TEST_ELEMENTS)
        .map_err(|failure| Error::new(format!("ERR {failure}")))?;
    out.ok();
    Ok(())
}

fn sparse_max_bytes(cx: &Ctx<'_>) -> usize {
    usize::try_from(cx.engine.settings.hll_sparse_max_bytes).unwrap_or(usize::MAX)
}

/// Creates an empty sketch if the key is absent, else checks that it holds one. Returns `true` if
/// it was created.
fn make_if_absent(cx: &mut Ctx<'_>, key: &[u8]) -> Result<bool, Error> {
    if let Some(entry) = cx.peek(key) {
        let string = entry.str().ok_or(Error::WRONG_TYPE)?;
        hll::encoding(string.bytes(&mut itoa::Buffer::new())).ok_or(NOT_A_SKETCH)?;
        cx.touch_idle(key);
        return Ok(false);
    }
    cx.insert(Entry::new(key, Value::Raw(Box::new(hll::empty()))));
    Ok(true)
}

/// Edits the sketch under a key that is known to hold one.
fn edit(
    cx: &mut Ctx<'_>,
    key: &[u8],
    edit: impl FnOnce(&mut Vec<u8>) -> Result<(), Corrupted>,
) -> Result<(), Error> {
    let edited = cx.db().edit_string(key, |entry| {
        edit(entry.raw_mut().expect("the caller has checked that it is a string"))
    });
    Ok(edited.expect("the caller has checked that the key exists")?)
}

/// Makes the sketch under a key dense. Returns `true` if it was sparse.
fn turn_dense(cx: &mut Ctx<'_>, key: &[u8]) -> Result<bool, Error> {
    let mut converted = false;
    edit(cx, key, |sketch| {
        converted = hll::make_dense(sketch)?;
        Ok(())
    })?;
    cx.dirty(u64::from(converted));
    Ok(converted)
}

/// Merges the sketches of all existing keys into a union. Returns `true` if one of them is dense.
fn merge_all(cx: &mut Ctx<'_>, keys: &[&[u8]], union: &mut Union) -> Result<bool, Error> {
    let mut any_dense = false;
    for key in keys {
        let Some(string) = cx.str(key)? else { continue };
        let mut digits = itoa::Buffer::new();
        let sketch = string.bytes(&mut digits);
        any_dense |= hll::encoding(sketch).ok_or(NOT_A_SKETCH)? == Encoding::Dense;
        union.merge(sketch)?;
    }
    Ok(any_dense)
}
