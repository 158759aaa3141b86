//! MULTI, EXEC, WATCH.

use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::keyspace::Entry;
use crate::resp::Reply;
use crate::session::Multi;

pub(super) fn multi(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    if cx.session().multi.is_some() {
        return Err(Error::fixed("ERR MULTI calls can not be nested"));
    }
    cx.session_mut().multi = Some(Multi::default());
    out.ok();
    Ok(())
}

pub(super) fn discard(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    if cx.session().multi.is_none() {
        return Err(Error::fixed("ERR DISCARD without MULTI"));
    }
    cx.engine.discard(cx.session);
    out.ok();
    Ok(())
}

/// Writes the header of the replies; the engine runs the queue and adds them.
pub(super) fn exec(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    let Some(multi) = cx.session_mut().multi.take() else {
        return Err(Error::fixed("ERR EXEC without MULTI"));
    };
    let broken = cx.session().watch_broken || watched_key_expired(cx);
    cx.engine.unwatch(cx.session);
    if multi.refused {
        return Err(Error::fixed("EXECABORT Transaction discarded because of previous errors."));
    }
    if broken {
        out.null_array();
        return Ok(());
    }
    out.array(multi.queue.len());
    cx.engine.start_transaction(cx.session, multi.queue);
    Ok(())
}

/// Whether a watched key was alive at WATCH and its time has passed since.
fn watched_key_expired(cx: &Ctx<'_>) -> bool {
    cx.session().watching.iter().any(|watched| {
        !watched.expired_at_watch
            && cx.engine.dbs[watched.db as usize]
                .get(&watched.key)
                .and_then(Entry::expires_at)
                .is_some_and(|at| at <= cx.now)
    })
}

pub(super) fn watch(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    if cx.session().multi.is_some() {
        return Err(Error::fixed("ERR WATCH inside MULTI is not allowed"));
    }
    if !cx.session().watch_broken {
        for key in &a[1..] {
            cx.engine.watch(cx.session, cx.db, key);
        }
    }
    out.ok();
    Ok(())
}

pub(super) fn unwatch(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    cx.engine.unwatch(cx.session);
    out.ok();
    Ok(())
}
