//! CLIENT KILL, UNBLOCK, PAUSE: what one client does to others.

use crate::args::{self, is};
use crate::ctx::Ctx;
use crate::engine::Pause;
use crate::error::{Done, Error, printable};
use crate::resp::Reply;
use crate::session::Wait;

use super::client::Class;

/// Which sessions to close.
#[derive(Default)]
struct Filter<'a> {
    addr: Option<&'a [u8]>,
    local_addr: Option<&'a [u8]>,
    class: Option<Class>,
    id: Option<u64>,
    spare_self: bool,
}

impl<'a> Filter<'a> {
    fn parse(words: &[&'a [u8]]) -> Result<Filter<'a>, Error> {
        if !words.len().is_multiple_of(2) {
            return Err(Error::SYNTAX);
        }
        let mut filter = Filter { spare_self: true, ..Filter::default() };
        for pair in words.chunks_exact(2) {
            let (word, value) = (pair[0], pair[1]);
            if is(word, "id") {
                let id = args::int(value).ok().filter(|id| *id > 0);
                let id = id.ok_or(Error::fixed("ERR client-id should be greater than 0"))?;
                filter.id = Some(id as u64);
            } else if is(word, "type") {
                filter.class = Some(Class::parse(value)?);
            } else if is(word, "addr") {
                filter.addr = Some(value);
            } else if is(word, "laddr") {
                filter.local_addr = Some(value);
            } else if is(word, "user") {
                if value != b"default" {
                    let name = printable(value, usize::MAX);
                    return Err(Error::new(format!("ERR No such user '{name}'")));
                }
            } else if is(word, "skipme") {
                filter.spare_self = if is(value, "yes") {
                    true
                } else if is(value, "no") {
                    false
                } else {
                    return Err(Error::SYNTAX);
                };
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(filter)
    }
}

pub(super) fn client_kill(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let old_form = a.len() == 3;
    let filter = if old_form {
        Filter { addr: Some(a[2]), ..Filter::default() }
    } else {
        Filter::parse(&a[2..])?
    };
    let own = cx.session;
    let doomed: Vec<usize> = cx
        .engine
        .sessions
        .iter()
        .filter(|(_, s)| filter.addr.is_none_or(|addr| s.peer.addr.as_bytes() == addr))
        .filter(|(_, s)| filter.local_addr.is_none_or(|a| s.peer.local_addr.as_bytes() == a))
        .filter(|(_, s)| filter.class.is_none_or(|class| Class::of(s) == class))
        .filter(|(_, s)| filter.id.is_none_or(|id| s.client_id == id))
        .map(|(i, _)| i)
        .filter(|i| !(filter.spare_self && *i == own))
        .collect();
    for session in &doomed {
        cx.engine.sessions[*session].close_after_flush = true;
        cx.engine.touch_session(*session);
    }
    if !old_form {
        out.count(doomed.len());
    } else if doomed.is_empty() {
        return Err(Error::fixed("ERR No such client"));
    } else {
        out.ok();
    }
    Ok(())
}

pub(super) fn client_unblock(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let with_error = match a.get(3) {
        None => false,
        Some(word) if is(word, "timeout") => false,
        Some(word) if is(word, "error") => true,
        Some(_) => {
            return Err(Error::fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
    };
    let id = args::int(a[2])?;
    let target = cx.engine.sessions.iter().find(|(_, s)| s.client_id as i64 == id);
    let target = target.filter(|(_, s)| {
        s.blocked.as_ref().is_some_and(|b| !matches!(b.wait, Wait::Pause | Wait::Host))
    });
    let Some((session, _)) = target else {
        out.int(0);
        return Ok(());
    };
    if with_error {
        cx.engine.unblock(session);
        let text = "UNBLOCKED client unblocked via CLIENT UNBLOCK";
        cx.engine.stats.count_error(text);
        cx.engine.reply_to(session, |out| out.error(text));
        cx.engine.make_runnable(session);
    } else {
        cx.engine.time_out(session);
    }
    out.int(1);
    Ok(())
}

pub(super) fn client_pause(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let writes_only = match a.get(3) {
        None => false,
        Some(word) if is(word, "all") => false,
        Some(word) if is(word, "write") => true,
        Some(_) => {
            return Err(Error::fixed("ERR CLIENT PAUSE mode must be WRITE or ALL"));
        }
    };
    let millis = args::int(a[2])
        .map_err(|_| Error::fixed("ERR timeout is not an integer or out of range"))?;
    if millis < 0 {
        return Err(Error::TIMEOUT_NEGATIVE);
    }
    let until_ms = cx.now.saturating_add(millis);
    // Redis: a second pause can only make the first one longer and stricter.
    cx.engine.pause = Some(match cx.engine.pause {
        Some(old) => Pause {
            until_ms: until_ms.max(old.until_ms),
            writes_only: writes_only && old.writes_only,
        },
        None => Pause { until_ms, writes_only },
    });
    out.ok();
    Ok(())
}

pub(super) fn client_unpause(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    if cx.engine.pause.take().is_some() {
        cx.engine.end_pause();
    }
    out.ok();
    Ok(())
}
