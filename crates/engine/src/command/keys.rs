//! Keys of any type: existence, names, copies, deletion.

use crate::args::{self, is};
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::notify::Classes;
use crate::resp::Reply;

/// Removes keys; `lazily` counts what is freed later.
fn remove_keys(cx: &mut Ctx<'_>, keys: &[&[u8]], lazily: bool) -> i64 {
    let mut removed = 0;
    for key in keys {
        if let Some(entry) = cx.remove(key) {
            let large = cx.engine.garbage.bury(entry);
            cx.engine.stats.lazy_freed += u64::from(large && lazily);
            cx.wrote(key, Classes::GENERIC, "del");
            removed += 1;
        }
    }
    removed
}

pub(super) fn del(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    out.int(remove_keys(cx, &a[1..], false));
    Ok(())
}

pub(super) fn unlink(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    out.int(remove_keys(cx, &a[1..], true));
    Ok(())
}

pub(super) fn exists(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    out.count(a[1..].iter().filter(|key| cx.exists(key)).count());
    Ok(())
}

pub(super) fn touch(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    out.count(a[1..].iter().filter(|key| cx.read(key).is_some()).count());
    Ok(())
}

pub(super) fn type_of(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    out.simple(cx.peek(a[1]).map_or("none", |entry| entry.value().type_name()));
    Ok(())
}

/// Renames; `false` when the new name is taken and must not be.
fn rename_key(cx: &mut Ctx<'_>, a: &[&[u8]], replace: bool) -> Result<bool, Error> {
    let (from, to) = (a[1], a[2]);
    if !cx.exists(from) {
        return Err(Error::NO_SUCH_KEY);
    }
    if from == to {
        return Ok(replace);
    }
    if cx.exists(to) {
        if !replace {
            return Ok(false);
        }
        cx.remove(to);
    }
    let entry = cx.remove(from).ok_or(Error::NO_SUCH_KEY)?;
    let idle = entry.idle;
    let entry = entry.renamed(to);
    cx.insert(entry);
    if let Some(entry) = cx.db().get_mut(to) {
        entry.idle = idle;
    }
    cx.touched(from);
    cx.touched(to);
    cx.notify(Classes::GENERIC, "rename_from", from);
    cx.notify(Classes::GENERIC, "rename_to", to);
    cx.dirty(1);
    Ok(true)
}

pub(super) fn rename(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    rename_key(cx, a, true)?;
    out.ok();
    Ok(())
}

pub(super) fn renamenx(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let renamed = rename_key(cx, a, false)?;
    out.int(i64::from(renamed));
    Ok(())
}

/// A database's number as an argument names it.
pub(super) fn db_index(cx: &Ctx<'_>, arg: &[u8], bad: Error) -> Result<u32, Error> {
    db_number(cx, args::int(arg).map_err(|_| bad)?)
}

/// The number of a database, when there is one with it.
pub(super) fn db_number(cx: &Ctx<'_>, n: i64) -> Result<u32, Error> {
    u32::try_from(n)
        .ok()
        .filter(|n| (*n as usize) < cx.engine.dbs.len())
        .ok_or(Error::fixed("ERR DB index is out of range"))
}

/// Runs `f` as if another database were selected.
fn in_db<R>(cx: &mut Ctx<'_>, db: u32, f: impl FnOnce(&mut Ctx<'_>) -> R) -> R {
    let own = std::mem::replace(&mut cx.db, db);
    let result = f(cx);
    cx.db = own;
    result
}

pub(super) fn move_key(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let to = db_index(cx, a[2], Error::NOT_INTEGER)?;
    if to == cx.db {
        return Err(Error::fixed("ERR source and destination objects are the same"));
    }
    if !cx.exists(a[1]) || in_db(cx, to, |cx| cx.exists(a[1])) {
        out.int(0);
        return Ok(());
    }
    let entry = cx.remove(a[1]).ok_or(Error::NO_SUCH_KEY)?;
    cx.touched(a[1]);
    cx.notify(Classes::GENERIC, "move_from", a[1]);
    in_db(cx, to, |cx| {
        cx.insert(entry);
        cx.touched(a[1]);
        cx.notify(Classes::GENERIC, "move_to", a[1]);
    });
    cx.dirty(1);
    out.int(1);
    Ok(())
}

pub(super) fn copy(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let (from, to) = (a[1], a[2]);
    let mut db = cx.db;
    let mut replace = false;
    let mut i = 3;
    while i < a.len() {
        if is(a[i], "replace") {
            replace = true;
        } else if is(a[i], "db") && i + 1 < a.len() {
            db = db_index(cx, a[i + 1], Error::NOT_INTEGER)?;
            i += 1;
        } else {
            return Err(Error::SYNTAX);
        }
        i += 1;
    }
    if db == cx.db && from == to {
        return Err(Error::fixed("ERR source and destination objects are the same"));
    }
    let Some(entry) = cx.read(from) else {
        out.int(0);
        return Ok(());
    };
    let copy = entry.copied(to);
    let copied = in_db(cx, db, |cx| {
        if cx.exists(to) && !replace {
            return false;
        }
        cx.insert(copy);
        cx.touched(to);
        cx.notify(Classes::GENERIC, "copy_to", to);
        cx.dirty(1);
        true
    });
    out.int(i64::from(copied));
    Ok(())
}
