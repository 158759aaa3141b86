//! OBJECT and MEMORY: how values are stored and what they cost.

use crate::args::{self, is};
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::evict;
use crate::keyspace::{Db, Entry};
use crate::resp::Reply;
use crate::value::table::Item;

/// The entry, or Redis' null for a key that is not there.
fn with_entry(
    cx: &mut Ctx<'_>,
    key: &[u8],
    out: &mut Reply,
    show: impl FnOnce(&Entry, &mut Reply),
) -> Done {
    match cx.peek(key) {
        Some(entry) => show(entry, out),
        None => out.null(),
    }
    Ok(())
}

pub(super) fn object_encoding(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    with_entry(cx, a[2], out, |entry, out| out.bulk(entry.encoding().as_bytes()))
}

/// Small numbers are shared in Redis, which shows as a huge count.
pub(super) fn object_refcount(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    use crate::value::Value;
    with_entry(cx, a[2], out, |entry, out| {
        let shared = matches!(entry.value(), Value::Int(0..10_000));
        out.int(if shared { i64::from(i32::MAX) } else { 1 });
    })
}

pub(super) fn object_idletime(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    if cx.peek(a[2]).is_some() && cx.engine.settings.maxmemory_policy.is_lfu() {
        return Err(Error::fixed(
            "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that \
             when switching between policies at runtime LRU and LFU data will take some time to \
             adjust.",
        ));
    }
    let now = cx.now;
    with_entry(cx, a[2], out, |entry, out| {
        out.int(i64::from(evict::lru_idle_seconds(entry.idle, now)));
    })
}

pub(super) fn object_freq(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    // Redis looks up the key first.
    if cx.peek(a[2]).is_some() && !cx.engine.settings.maxmemory_policy.is_lfu() {
        return Err(Error::fixed(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
             note that when switching between policies at runtime LRU and LFU data will take some \
             time to adjust.",
        ));
    }
    let (now, decay) = (cx.now, cx.engine.settings.lfu_decay_time);
    with_entry(cx, a[2], out, |entry, out| {
        out.int(i64::from(evict::lfu_decayed(entry.idle, now, decay)));
    })
}

pub(super) fn object_help(_: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    super::help::reply("OBJECT", super::help::OBJECT, out);
    Ok(())
}

pub(super) fn memory_usage(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    for option in a[3..].chunks(2) {
        match option {
            [word, samples] if is(word, "samples") && args::int(samples)? >= 0 => {}
            _ => return Err(Error::SYNTAX),
        }
    }
    with_entry(cx, a[2], out, |entry, out| out.count(size_of::<Entry>() + entry.heap_bytes()))
}

/// Says what looks wrong: memory near its bound, far below its peak, or fragmented.
pub(super) fn memory_doctor(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    /// Below this no ratio means anything.
    const SMALL: u64 = 5 << 20;
    let engine = &cx.engine;
    let (used, rss) = (engine.used_memory() as u64, engine.host.used_memory_rss);
    let (bound, peak) = (engine.settings.maxmemory, engine.stats.peak_memory as u64);
    let mut text = String::new();
    if bound > 0 && used > bound / 10 * 9 {
        text.push_str(
            "More than nine tenths of maxmemory are in use; keys are or will be evicted.\n",
        );
    }
    if used > SMALL && peak > used / 2 * 3 {
        text.push_str("The peak was half as much again; the process may keep that memory.\n");
    }
    if used > SMALL && rss > used / 2 * 3 {
        text.push_str("The process holds half as much memory again as its data takes.\n");
    }
    if text.is_empty() {
        text.push_str("Nothing looks wrong with the memory of this server.\n");
    }
    out.verbatim("txt", text.as_bytes());
    Ok(())
}

pub(super) fn memory_malloc_stats(_: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    out.verbatim("txt", b"Stats not supported for the current allocator");
    Ok(())
}

pub(super) fn memory_purge(_: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    out.ok();
    Ok(())
}

pub(super) fn memory_stats(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    let engine = &cx.engine;
    let used = engine.used_memory();
    let keys: usize = engine.dbs.iter().map(Db::len).sum();
    let data: usize = engine.dbs.iter().map(Db::heap_bytes).sum();
    let clients = engine.sessions.len() * 512;
    let rows: [(&str, usize); 8] = [
        ("peak.allocated", engine.stats.peak_memory.max(used)),
        ("total.allocated", used),
        ("startup.allocated", used - data - clients),
        ("clients.normal", clients),
        ("overhead.total", used - data),
        ("keys.count", keys),
        ("keys.bytes-per-key", data.checked_div(keys).unwrap_or(0)),
        ("dataset.bytes", data),
    ];
    out.map(rows.len());
    for (name, value) in rows {
        out.bulk(name.as_bytes());
        out.count(value);
    }
    Ok(())
}

pub(super) fn memory_help(_: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    super::help::reply("MEMORY", super::help::MEMORY, out);
    Ok(())
}
