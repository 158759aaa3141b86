//! CLIENT: names, lists, pauses, replies. Closing and unblocking others is in `client_control`,
//! tracking in `client_tracking`.

use crate::args::{self, is};
use crate::ctx::Ctx;
use crate::error::{Done, Error, printable};
use crate::resp::Reply;
use crate::session::{ReplyMode, Session, Transport};

pub(super) use super::client_control::{client_kill, client_pause, client_unblock, client_unpause};
pub(super) use super::client_tracking::{
    client_caching, client_getredir, client_tracking, client_trackinginfo,
};

/// Refuses names that would break the lines of CLIENT LIST.
pub(super) fn check_name(name: &[u8]) -> Result<(), Error> {
    if name.iter().all(|b| (b'!'..=b'~').contains(b)) {
        Ok(())
    } else {
        Err(Error::fixed("ERR Client names cannot contain spaces, newlines or special characters."))
    }
}

pub(super) fn client_id(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    out.int(cx.session().client_id as i64);
    Ok(())
}

pub(super) fn client_getname(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    let name = &cx.session().name;
    out.bulk_or_null((!name.is_empty()).then_some(name));
    Ok(())
}

pub(super) fn client_setname(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    check_name(a[2])?;
    cx.session_mut().name = a[2].to_vec();
    out.ok();
    Ok(())
}

/// CLIENT SETINFO: the name of the client's library; newer clients send it and expect it to be
/// accepted.
pub(super) fn client_setinfo(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let what = if is(a[2], "lib-name") {
        "lib-name"
    } else if is(a[2], "lib-ver") {
        "lib-ver"
    } else {
        let option = printable(a[2], usize::MAX);
        return Err(Error::new(format!("ERR Unrecognized option '{option}'")));
    };
    if check_name(a[3]).is_err() {
        return Err(Error::new(format!(
            "ERR {what} cannot contain spaces, newlines or special characters."
        )));
    }
    let session = cx.session_mut();
    let field = if what == "lib-name" { &mut session.lib_name } else { &mut session.lib_version };
    *field = a[3].to_vec();
    out.ok();
    Ok(())
}

pub(super) fn client_no_evict(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    cx.session_mut().no_evict = if is(a[2], "on") {
        true
    } else if is(a[2], "off") {
        false
    } else {
        return Err(Error::SYNTAX);
    };
    out.ok();
    Ok(())
}

pub(super) fn client_reply(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let session = cx.session_mut();
    if is(a[2], "on") {
        session.reply_mode = ReplyMode::On;
        out.ok();
    } else if is(a[2], "off") {
        session.reply_mode = ReplyMode::Off;
    } else if is(a[2], "skip") {
        if session.reply_mode == ReplyMode::On {
            session.reply_mode = ReplyMode::SkipNext;
        }
    } else {
        return Err(Error::SYNTAX);
    }
    Ok(())
}

/// The class that TYPE options name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Normal,
    Replica,
    Master,
    PubSub,
}

impl Class {
    pub(super) fn parse(arg: &[u8]) -> Result<Class, Error> {
        [
            ("normal", Class::Normal),
            ("slave", Class::Replica),
            ("replica", Class::Replica),
            ("master", Class::Master),
            ("pubsub", Class::PubSub),
        ]
        .into_iter()
        .find(|(name, _)| is(arg, name))
        .map(|(_, class)| class)
        .ok_or_else(|| {
            let arg = printable(arg, usize::MAX);
            Error::new(format!("ERR Unknown client type '{arg}'"))
        })
    }

    pub(super) fn of(session: &Session) -> Class {
        if session.all_subscriptions() > 0 { Class::PubSub } else { Class::Normal }
    }
}

pub(super) fn client_info(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    let mut line = Vec::new();
    describe(cx, cx.session, &mut line);
    out.verbatim("txt", &line);
    Ok(())
}

pub(super) fn client_list(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let mut class = None;
    let mut ids: Option<Vec<i64>> = None;
    match &a[2..] {
        [] => {}
        [word, name] if is(word, "type") => class = Some(Class::parse(name)?),
        [word, rest @ ..] if is(word, "id") && !rest.is_empty() => {
            let mut wanted = Vec::new();
            for id in rest {
                // Redis: any number is accepted; ids that no client has are left out.
                wanted.push(args::int(id).map_err(|_| Error::fixed("ERR Invalid client ID"))?);
            }
            ids = Some(wanted);
        }
        _ => return Err(Error::SYNTAX),
    }
    let mut sessions: Vec<(u64, usize)> = cx
        .engine
        .sessions
        .iter()
        .filter(|(_, s)| class.is_none_or(|class| Class::of(s) == class))
        .map(|(i, s)| (s.client_id, i))
        .collect();
    sessions.sort_unstable();
    if let Some(ids) = ids {
        // As asked for: in that order, and twice if asked twice.
        let found = |id: i64| {
            let id = u64::try_from(id).ok()?;
            let at = sessions.binary_search_by_key(&id, |(id, _)| *id).ok()?;
            Some(sessions[at])
        };
        sessions = ids.into_iter().filter_map(found).collect();
    }
    let mut text = Vec::new();
    for (_, session) in sessions {
        describe(cx, session, &mut text);
    }
    out.verbatim("txt", &text);
    Ok(())
}

fn flags(s: &Session) -> String {
    let mut flags = String::new();
    let mut set = |on: bool, c: char| {
        if on {
            flags.push(c);
        }
    };
    set(s.monitor, 'O');
    set(s.all_subscriptions() > 0, 'P');
    set(s.multi.is_some(), 'x');
    set(s.blocked.is_some(), 'b');
    if let Some(tracking) = &s.tracking {
        set(true, 't');
        set(tracking.broken_redirect, 'R');
        set(tracking.broadcast, 'B');
    }
    set(s.watch_broken, 'd');
    set(s.close_after_flush, 'c');
    set(s.peer.transport == Transport::Unix, 'U');
    set(s.no_evict, 'e');
    if flags.is_empty() { "N".into() } else { flags }
}

/// Appends the line of CLIENT LIST for a session.
fn describe(cx: &Ctx<'_>, session: usize, line: &mut Vec<u8>) {
    use std::io::Write;
    let s = &cx.engine.sessions[session];
    let (age, idle) = ((cx.now - s.created_ms) / 1000, (cx.now - s.last_ms) / 1000);
    let redirect =
        s.tracking.as_ref().map_or(-1, |t| t.redirect.map_or(0, |to| to.client_id as i64));
    let queued = s.multi.as_ref().map_or(-1, |multi| multi.queue.len() as i64);
    let memory = s.memory();
    let unread = s.output.len() + s.unsent;
    // Redis: the first 16 KiB lie in the client itself, the rest on a list.
    let (near, far) = if unread <= 16 << 10 { (unread, 0) } else { (0, unread) };
    // Writing to a vector cannot fail.
    let _ = write!(line, "id={} addr={} laddr={}", s.client_id, s.peer.addr, s.peer.local_addr);
    let _ = write!(line, " fd={} name=", session + 8);
    line.extend_from_slice(&s.name);
    let _ = writeln!(
        line,
        " age={age} idle={idle} flags={} db={} sub={} psub={} ssub={} multi={queued} qbuf={} \
         qbuf-free={} argv-mem=10 multi-mem={} rbs=16384 rbp=0 obl={near} oll={} omem={far} tot-mem={memory} \
         events=r cmd={} user=default redir={redirect} resp={}",
        flags(s),
        s.db,
        s.channels.len(),
        s.patterns.len(),
        s.shard_channels.len(),
        if session == cx.session { s.in_hand } else { s.unread_input() },
        s.input.capacity() - s.input.len(),
        s.multi.as_ref().map_or(0, |multi| multi.bytes),
        u8::from(far > 0),
        s.last_command,
        if s.protocol == crate::resp::Protocol::Resp3 { 3 } else { 2 },
    );
}

pub(super) fn client_help(_: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    super::help::reply("CLIENT", super::help::CLIENT, out);
    Ok(())
}
