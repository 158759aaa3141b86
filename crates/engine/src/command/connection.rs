//! The connection itself: hello, login, database, ping, goodbye.

use crate::args;
use crate::args::is;
use crate::ctx::Ctx;
use crate::error::{Done, Error, printable};
use crate::resp::{Protocol, Reply};
use crate::session::ReplyMode;

use super::client;
use super::keys::db_number;

/// The Redis version whose behaviour the engine implements.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

pub(super) fn ping(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    if a.len() > 2 {
        return Err(Error::arity("ping"));
    }
    if cx.session().in_subscriber_mode() {
        out.array(2);
        out.bulk(b"pong");
        out.bulk(a.get(1).copied().unwrap_or_default());
    } else if let Some(text) = a.get(1) {
        out.bulk(text);
    } else {
        out.simple("PONG");
    }
    Ok(())
}

pub(super) fn echo(_: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    out.bulk(a[1]);
    Ok(())
}

pub(super) fn quit(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    cx.session_mut().close_after_flush = true;
    out.ok();
    Ok(())
}

pub(super) fn select(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let db = db_number(cx, args::int32(a[1])?)?;
    cx.select(db);
    out.ok();
    Ok(())
}

/// Compares in a time that does not depend on where the passwords differ.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    let differs = given.len() ^ wanted.len();
    let differs = wanted
        .iter()
        .enumerate()
        .fold(differs, |d, (i, b)| d | usize::from(*b ^ given.get(i).copied().unwrap_or(0)));
    differs == 0
}

fn log_in(cx: &mut Ctx<'_>, user: &[u8], password: &[u8]) -> Done {
    let wanted = cx.engine.settings.requirepass.as_bytes();
    if user != b"default" || !(wanted.is_empty() || same(password, wanted)) {
        return Err(Error::fixed("WRONGPASS invalid username-password pair or user is disabled."));
    }
    cx.session_mut().authenticated = true;
    Ok(())
}

pub(super) fn auth(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    match a {
        [_, _] if cx.engine.settings.requirepass.is_empty() => {
            return Err(Error::fixed(
                "ERR AUTH <password> called without any password configured for the default \
                 user. Are you sure your configuration is correct?",
            ));
        }
        [_, password] => log_in(cx, b"default", password)?,
        [_, user, password] => log_in(cx, user, password)?,
        _ => return Err(Error::SYNTAX),
    }
    out.ok();
    Ok(())
}

pub(super) fn hello(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let mut protocol = None;
    if let Some(version) = a.get(1) {
        let version = args::int(version)
            .map_err(|_| Error::fixed("ERR Protocol version is not an integer or out of range"))?;
        protocol = Some(match version {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(Error::fixed("NOPROTO unsupported protocol version")),
        });
    }
    let mut name = None;
    let mut i = 2;
    while i < a.len() {
        let left = a.len() - i - 1;
        if is(a[i], "auth") && left >= 2 {
            log_in(cx, a[i + 1], a[i + 2])?;
            i += 2;
        } else if is(a[i], "setname") && left >= 1 {
            client::check_name(a[i + 1])?;
            name = Some(a[i + 1]);
            i += 1;
        } else {
            let option = printable(a[i], usize::MAX);
            return Err(Error::new(format!("ERR Syntax error in HELLO option '{option}'")));
        }
        i += 1;
    }
    if !cx.session().authenticated {
        return Err(Error::fixed(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        cx.session_mut().name = name.to_vec();
    }
    if let Some(protocol) = protocol {
        cx.session_mut().protocol = protocol;
        out.set_protocol(protocol);
    }
    out.map(7);
    out.bulk(b"server");
    out.bulk(b"redis");
    out.bulk(b"version");
    out.bulk(REDIS_VERSION.as_bytes());
    out.bulk(b"proto");
    out.int(if out.is_resp3() { 3 } else { 2 });
    out.bulk(b"id");
    out.int(cx.session().client_id as i64);
    out.bulk(b"mode");
    out.bulk(b"standalone");
    out.bulk(b"role");
    out.bulk(b"master");
    out.bulk(b"modules");
    out.array(0);
    Ok(())
}

pub(super) fn reset(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    let session = cx.session;
    cx.engine.stop_tracking(session);
    cx.engine.discard(session);
    cx.engine.leave_all(session);
    cx.engine.monitors.retain(|s| *s != session);
    let authenticated = cx.engine.settings.requirepass.is_empty();
    let state = cx.session_mut();
    state.monitor = false;
    state.db = 0;
    state.protocol = Protocol::Resp2;
    state.name.clear();
    state.authenticated = authenticated;
    state.reply_mode = ReplyMode::On;
    state.no_evict = false;
    out.set_protocol(Protocol::Resp2);
    out.simple("RESET");
    Ok(())
}
