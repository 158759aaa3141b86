//! SLOWLOG and MONITOR.

use crate::args;
use crate::ctx::Ctx;
use crate::error::{Done, Error, printable};
use crate::resp::Reply;

pub(super) fn slowlog_get(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    const DEFAULT: usize = 10;
    if a.len() > 3 {
        let sub = printable(a[1], 128);
        return Err(Error::new(format!(
            "ERR unknown subcommand or wrong number of arguments for '{sub}'. Try SLOWLOG HELP."
        )));
    }
    let entries = &cx.engine.slowlog.entries;
    let count = match a.get(2) {
        None => DEFAULT,
        Some(arg) => match args::int(arg) {
            Ok(-1) => entries.len(),
            n => n
                .ok()
                .and_then(|n| usize::try_from(n).ok())
                .ok_or(Error::fixed("ERR count should be greater than or equal to -1"))?,
        },
    };
    let count = count.min(entries.len());
    out.array(count);
    for slow in entries.iter().take(count) {
        out.array(6);
        out.int(slow.id);
        out.int(slow.at_seconds);
        out.int(slow.micros);
        out.array(slow.args.len());
        for arg in &slow.args {
            out.bulk(arg);
        }
        out.bulk(slow.peer.as_bytes());
        out.bulk(&slow.name);
    }
    Ok(())
}

pub(super) fn slowlog_len(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    out.count(cx.engine.slowlog.entries.len());
    Ok(())
}

pub(super) fn slowlog_reset(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    cx.engine.slowlog.entries.clear();
    out.ok();
    Ok(())
}

pub(super) fn slowlog_help(_: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    super::help::reply("SLOWLOG", super::help::SLOWLOG, out);
    Ok(())
}

pub(super) fn monitor(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    if !cx.may_block() {
        return Err(Error::fixed("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let session = cx.session;
    if !cx.session().monitor {
        cx.session_mut().monitor = true;
        cx.engine.monitors.push(session);
    }
    out.ok();
    Ok(())
}
