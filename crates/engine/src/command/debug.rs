//! DEBUG: inspects the engine or stops it, for tests and operators.

use crate::args::{self, is};
use crate::ctx::Ctx;
use crate::engine::HostRequest;
use crate::error::{Done, Error, printable};
use crate::number;
use crate::resp::Reply;
use crate::session::{SessionId, Wait};

pub(super) fn debug(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let sub = a[1];
    if is(sub, "help") && a.len() == 2 {
        super::help::reply("DEBUG", super::help::DEBUG, out);
        return Ok(());
    }
    if is(sub, "sleep") && a.len() == 3 {
        return sleep(cx, a, out);
    }
    if is(sub, "object") && a.len() >= 3 {
        return object(cx, a[2], out);
    }
    if is(sub, "set-active-expire") && a.len() == 3 {
        cx.engine.settings.active_expire = args::int(a[2])? != 0;
        out.ok();
        return Ok(());
    }
    if is(sub, "pause-cron") && a.len() == 3 {
        cx.engine.cron_paused = args::int(a[2])? != 0;
        out.ok();
        return Ok(());
    }
    if is(sub, "reload") || is(sub, "loadaof") {
        cx.engine.requests.push(HostRequest::Reload(SessionId(cx.session)));
        cx.park(Wait::Host, a, 0);
        return Ok(());
    }
    if is(sub, "quicklist-packed-threshold") || is(sub, "replybuffer") {
        out.ok();
        return Ok(());
    }
    if is(sub, "change-repl-id") && a.len() == 2 {
        out.ok();
        return Ok(());
    }
    if is(sub, "protocol") && a.len() == 3 {
        return protocol(a[2], out);
    }
    let sub = printable(sub, usize::MAX);
    Err(Error::new(format!(
        "ERR unknown subcommand or wrong number of arguments for '{sub}'. Try DEBUG HELP."
    )))
}

/// Stops all execution until the time is over, as if the server hung.
fn sleep(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let seconds = number::parse_f64_lenient(a[2]).unwrap_or(0.0);
    let millis = (seconds.clamp(0.0, 1e9) * 1000.0) as i64;
    if millis > 0 {
        cx.engine.asleep_until = Some(cx.now.saturating_add(millis));
    }
    out.ok();
    Ok(())
}

fn object(cx: &mut Ctx<'_>, key: &[u8], out: &mut Reply) -> Done {
    use crate::value::table::Item;
    let now = cx.now;
    let entry = cx.peek(key).ok_or(Error::NO_SUCH_KEY)?;
    out.simple(&format!(
        "Value at:0x0 refcount:1 encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{}",
        entry.encoding(),
        entry.heap_bytes(),
        entry.idle,
        crate::evict::lru_idle_seconds(entry.idle, now),
    ));
    Ok(())
}

/// One reply of each type, for testing clients.
fn protocol(kind: &[u8], out: &mut Reply) -> Done {
    let items = |out: &mut Reply| (0..3).for_each(|n| out.int(n));
    if is(kind, "string") {
        out.bulk(b"Hello World");
    } else if is(kind, "integer") {
        out.int(12345);
    } else if is(kind, "double") {
        #[expect(clippy::approx_constant, reason = "Redis answers with just these digits")]
        out.double(3.141);
    } else if is(kind, "null") {
        out.null();
    } else if is(kind, "array") {
        out.array(3);
        items(out);
    } else if is(kind, "set") {
        out.set(3);
        items(out);
    } else if is(kind, "map") {
        out.map(3);
        for n in 0..3 {
            out.int(n);
            out.boolean(n == 1);
        }
    } else if is(kind, "bignum") {
        if out.is_resp3() {
            out.raw(b"(1234567999999999999999999999999999999\r\n");
        } else {
            out.bulk(b"1234567999999999999999999999999999999");
        }
    } else if is(kind, "true") {
        out.boolean(true);
    } else if is(kind, "false") {
        out.boolean(false);
    } else if is(kind, "verbatim") {
        out.verbatim("txt", b"This is a verbatim\nstring");
    } else if is(kind, "attrib") {
        if out.is_resp3() {
            out.raw(b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n");
        }
        out.bulk(b"Some real reply following the attribute");
    } else if is(kind, "push") {
        out.push(2);
        out.bulk(b"server-cpu-usage");
        out.int(42);
    } else {
        return Err(Error::fixed(
            "ERR Wrong protocol type name. Please use one of the following: \
             string|integer|double|null|array|set|map|attrib|push|verbatim|true|false",
        ));
    }
    Ok(())
}
