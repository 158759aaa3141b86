//! The server as a whole: flushing, saving, time, role, shutdown.

use crate::args::{self, is};
use crate::ctx::Ctx;
use crate::engine::HostRequest;
use crate::error::{Done, Error};
use crate::keyspace::Db;
use crate::resp::Reply;
use crate::session::{SessionId, Wait};

use super::keys::db_number;

/// ASYNC or SYNC; freeing is the same for both.
fn check_flush_mode(a: &[&[u8]]) -> Done {
    match a {
        [_] => Ok(()),
        [_, mode] if is(mode, "async") || is(mode, "sync") => Ok(()),
        _ => Err(Error::SYNTAX),
    }
}

fn clear_db(cx: &mut Ctx<'_>, db: u32) {
    cx.engine.db_cleared(db);
    let seed = cx.seed();
    let contents = cx.engine.dbs[db as usize].empty_out(seed);
    cx.engine.garbage.bury_db(contents);
}

pub(super) fn flushdb(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    check_flush_mode(a)?;
    let removed = cx.db().len() as u64;
    clear_db(cx, cx.db);
    cx.engine.invalidate_all_tracked();
    // Redis: an empty database counts as a change, too, so that the command is always passed on.
    cx.dirty(removed.max(1));
    out.ok();
    Ok(())
}

pub(super) fn flushall(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    check_flush_mode(a)?;
    let removed: usize = cx.engine.dbs.iter().map(Db::len).sum();
    for db in 0..cx.engine.dbs.len() as u32 {
        clear_db(cx, db);
    }
    cx.engine.invalidate_all_tracked();
    cx.dirty((removed as u64).max(1));
    out.ok();
    Ok(())
}

pub(super) fn swapdb(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    // Redis reads both numbers before it looks at either.
    let first = args::int32(a[1]).map_err(|_| Error::fixed("ERR invalid first DB index"))?;
    let second = args::int32(a[2]).map_err(|_| Error::fixed("ERR invalid second DB index"))?;
    let (first, second) = (db_number(cx, first)?, db_number(cx, second)?);
    if first != second {
        cx.engine.dbs_swapped(first, second);
        cx.engine.dbs.swap(first as usize, second as usize);
        cx.engine.waiting.signal_db(first);
        cx.engine.waiting.signal_db(second);
    }
    cx.dirty(1);
    out.ok();
    Ok(())
}

pub(super) fn time(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    // Time stands still inside a script: the microseconds are those of its batch.
    let micros = cx.engine.now_us;
    out.array(2);
    out.bulk_int(micros / 1_000_000);
    out.bulk_int(micros % 1_000_000);
    Ok(())
}

pub(super) fn role(_: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    out.array(3);
    out.bulk(b"master");
    out.int(0);
    out.array(0);
    Ok(())
}

/// There are no replicas: zero is reached at once, more only by the time-out.
pub(super) fn wait(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let replicas = args::int(a[1])?;
    let millis = args::int(a[2])
        .map_err(|_| Error::fixed("ERR timeout is not an integer or out of range"))?;
    if millis < 0 {
        return Err(Error::TIMEOUT_NEGATIVE);
    }
    if replicas <= 0 || !cx.may_block() {
        out.int(0);
    } else {
        cx.park(Wait::Replicas, a, millis);
    }
    Ok(())
}

/// Asks the host for something and waits for its answer.
fn ask_host(cx: &mut Ctx<'_>, a: &[&[u8]], request: impl FnOnce(SessionId) -> HostRequest) {
    let id = SessionId(cx.session);
    cx.engine.requests.push(request(id));
    cx.park(Wait::Host, a, 0);
}

pub(super) fn save(cx: &mut Ctx<'_>, a: &[&[u8]], _: &mut Reply) -> Done {
    ask_host(cx, a, HostRequest::Save);
    Ok(())
}

pub(super) fn bgsave(cx: &mut Ctx<'_>, a: &[&[u8]], _: &mut Reply) -> Done {
    let request = match a {
        [_] => HostRequest::BackgroundSave,
        [_, word] if is(word, "schedule") => HostRequest::ScheduleSave,
        _ => return Err(Error::SYNTAX),
    };
    ask_host(cx, a, request);
    Ok(())
}

pub(super) fn bgrewriteaof(cx: &mut Ctx<'_>, a: &[&[u8]], _: &mut Reply) -> Done {
    ask_host(cx, a, HostRequest::Rewrite);
    Ok(())
}

pub(super) fn lastsave(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    out.int(cx.engine.host.rdb_last_save_unix);
    Ok(())
}

pub(super) fn shutdown(cx: &mut Ctx<'_>, a: &[&[u8]], _: &mut Reply) -> Done {
    let mut save = None;
    let mut abort = false;
    for word in &a[1..] {
        if is(word, "save") && save.is_none() {
            save = Some(true);
        } else if is(word, "nosave") && save.is_none() {
            save = Some(false);
        } else if is(word, "abort") {
            abort = true;
        } else if !is(word, "now") && !is(word, "force") {
            return Err(Error::SYNTAX);
        }
    }
    if abort {
        if a.len() > 2 {
            return Err(Error::SYNTAX);
        }
        return Err(Error::fixed("ERR No shutdown in progress."));
    }
    if !cx.may_block() {
        return Err(Error::fixed(
            "ERR SHUTDOWN without NOW or ABORT isn't allowed for DENY BLOCKING client",
        ));
    }
    ask_host(cx, a, |session| HostRequest::Shutdown { session, save });
    Ok(())
}

pub(super) fn lolwut(_: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    const WAVE: &str = "      _.====.._\n    ,:._       ~-_\n        `\\        ~-_\n          |          `.\n        \
                        ,/             ~-_\n -..__..-''                 ~~--..__\n\n";
    let text = format!("{WAVE}Redis ver. {}\n", super::connection::REDIS_VERSION);
    out.verbatim("txt", text.as_bytes());
    Ok(())
}
