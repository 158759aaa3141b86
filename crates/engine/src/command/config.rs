//! CONFIG: reading and changing settings while running.

use crate::config::{Change, PARAMS, Param};
use crate::ctx::Ctx;
use crate::engine::HostRequest;
use crate::error::{Done, Error, printable};
use crate::glob::{self, Case};
use crate::resp::Reply;
use crate::session::{SessionId, Wait};

pub(super) fn config_get(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let wanted = |name: &str| {
        a[2..].iter().any(|pattern| glob::matches(pattern, name.as_bytes(), Case::Insensitive))
    };
    let mut found: Vec<(&str, &Param)> = Vec::new();
    for param in PARAMS {
        let hidden = param.mutable == Change::Hidden
            && !a[2..].iter().any(|name| name.eq_ignore_ascii_case(param.name.as_bytes()));
        if wanted(param.name) && !hidden {
            found.push((param.name, param));
        }
        if let Some(alias) = param.alias
            && wanted(alias)
        {
            found.push((alias, param));
        }
    }
    out.map(found.len());
    for (name, param) in found {
        out.bulk(name.as_bytes());
        out.bulk(param.get(&cx.engine.settings).as_bytes());
    }
    Ok(())
}

/// Changes all the settings or none of them.
pub(super) fn config_set(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    if !a.len().is_multiple_of(2) {
        return Err(Error::arity("config|set"));
    }
    let mut changed = cx.engine.settings.clone();
    let mut seen: Vec<&str> = Vec::new();
    for pair in a[2..].chunks_exact(2) {
        let name = printable(pair[0], usize::MAX);
        let failed = |why: &str| {
            Error::new(format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
            ))
        };
        let Some(param) = crate::config::find(&name) else {
            return Err(Error::new(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            )));
        };
        if param.mutable == Change::Never {
            return Err(failed("can't set immutable config"));
        }
        if seen.contains(&param.name) {
            return Err(failed("duplicate parameter"));
        }
        seen.push(param.name);
        let before = param.get(&changed);
        param.set(&mut changed, &String::from_utf8_lossy(pair[1])).map_err(|why| failed(&why))?;
        if param.mutable == Change::OnlyToTheSame && param.get(&changed) != before {
            return Err(failed("can't be changed while running; start with the new value"));
        }
    }
    let password_changed = changed.requirepass != cx.engine.settings.requirepass;
    cx.engine.settings = changed;
    if password_changed && cx.engine.settings.requirepass.is_empty() {
        for (_, session) in &mut cx.engine.sessions {
            session.authenticated = true;
        }
    }
    if cx.engine.settings.maxmemory > 0 {
        // A lower limit takes effect at once, not only with the next write.
        cx.engine.make_room();
    }
    let slowlog_len = cx.engine.settings.slowlog_max_len;
    cx.engine.slowlog.trim(slowlog_len);
    cx.engine.requests.push(HostRequest::SettingsChanged);
    out.ok();
    Ok(())
}

pub(super) fn config_resetstat(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    cx.engine.stats.reset();
    let host = &mut cx.engine.host;
    (host.longest_turn_usec, host.longest_turn_duty, host.longest_turn_unix) = (0, "", 0);
    host.longest_turn_reset = true;
    out.ok();
    Ok(())
}

pub(super) fn config_rewrite(cx: &mut Ctx<'_>, a: &[&[u8]], _: &mut Reply) -> Done {
    if cx.engine.host.config_file.is_empty() {
        return Err(Error::fixed("ERR The server is running without a config file"));
    }
    let request = HostRequest::RewriteConfig(SessionId(cx.session));
    cx.engine.requests.push(request);
    cx.park(Wait::Host, a, 0);
    Ok(())
}

pub(super) fn config_help(_: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    super::help::reply("CONFIG", super::help::CONFIG, out);
    Ok(())
}
