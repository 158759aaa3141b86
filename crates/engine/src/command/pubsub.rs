//! Publishing and subscribing.

use std::collections::BTreeSet;

use crate::ctx::Ctx;
use crate::error::{Done, Error, printable};
use crate::glob::{self, Case};
use crate::pubsub;
use crate::resp::Reply;
use crate::session::Session;

/// A kind of subscription: its words on the wire and where sessions keep it.
struct Kind {
    on: &'static [u8],
    off: &'static [u8],
    own: fn(&mut Session) -> &mut BTreeSet<Vec<u8>>,
    sharded: bool,
    pattern: bool,
}

const CHANNEL: Kind = Kind {
    on: b"subscribe",
    off: b"unsubscribe",
    own: |s| &mut s.channels,
    sharded: false,
    pattern: false,
};
const PATTERN: Kind = Kind {
    on: b"psubscribe",
    off: b"punsubscribe",
    own: |s| &mut s.patterns,
    sharded: false,
    pattern: true,
};
const SHARD: Kind = Kind {
    on: b"ssubscribe",
    off: b"sunsubscribe",
    own: |s| &mut s.shard_channels,
    sharded: true,
    pattern: false,
};

fn confirm(cx: &Ctx<'_>, kind: &Kind, word: &[u8], name: Option<&[u8]>, out: &mut Reply) {
    let session = cx.session();
    out.push(3);
    out.bulk(word);
    out.bulk_or_null(name);
    out.count(if kind.sharded { session.shard_channels.len() } else { session.subscriptions() });
}

fn subscribe_to(cx: &mut Ctx<'_>, names: &[&[u8]], kind: &Kind, out: &mut Reply) -> Done {
    for name in names {
        let session = cx.session;
        if (kind.own)(cx.session_mut()).insert(name.to_vec()) {
            let tables = &mut cx.engine.pubsub;
            let listeners = if kind.pattern {
                tables.patterns.entry(name.to_vec()).or_default()
            } else if kind.sharded {
                tables.shard.entry(name.to_vec()).or_default()
            } else {
                tables.channels.entry(name.to_vec()).or_default()
            };
            listeners.push(session);
        }
        confirm(cx, kind, kind.on, Some(name), out);
    }
    Ok(())
}

fn unsubscribe_from(cx: &mut Ctx<'_>, names: &[&[u8]], kind: &Kind, out: &mut Reply) -> Done {
    let all: Vec<Vec<u8>> = if names.is_empty() {
        (kind.own)(cx.session_mut()).iter().cloned().collect()
    } else {
        names.iter().map(|name| name.to_vec()).collect()
    };
    if all.is_empty() {
        confirm(cx, kind, kind.off, None, out);
    }
    for name in &all {
        if (kind.own)(cx.session_mut()).remove(name) {
            let tables = &mut cx.engine.pubsub;
            if kind.pattern {
                tables.leave_pattern(name, cx.session);
            } else if kind.sharded {
                pubsub::leave(&mut tables.shard, name, cx.session);
            } else {
                pubsub::leave(&mut tables.channels, name, cx.session);
            }
        }
        confirm(cx, kind, kind.off, Some(name), out);
    }
    Ok(())
}

pub(super) fn subscribe(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    subscribe_to(cx, &a[1..], &CHANNEL, out)
}

pub(super) fn psubscribe(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    subscribe_to(cx, &a[1..], &PATTERN, out)
}

pub(super) fn ssubscribe(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    // Redis: unlike the others, it is refused inside a transaction.
    if !cx.may_block() {
        return Err(Error::fixed("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    subscribe_to(cx, &a[1..], &SHARD, out)
}

pub(super) fn unsubscribe(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    unsubscribe_from(cx, &a[1..], &CHANNEL, out)
}

pub(super) fn punsubscribe(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    unsubscribe_from(cx, &a[1..], &PATTERN, out)
}

pub(super) fn sunsubscribe(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    unsubscribe_from(cx, &a[1..], &SHARD, out)
}

pub(super) fn publish(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let receivers = cx.engine.publish(a[1], a[2]);
    out.count(receivers);
    Ok(())
}

pub(super) fn spublish(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let receivers = cx.engine.publish_shard(a[1], a[2]);
    out.count(receivers);
    Ok(())
}

fn reply_channels(channels: &pubsub::Channels, pattern: Option<&&[u8]>, out: &mut Reply) {
    let wanted: Vec<&Vec<u8>> = channels
        .keys()
        .filter(|name| pattern.is_none_or(|p| glob::matches(p, name, Case::Sensitive)))
        .collect();
    out.array(wanted.len());
    for name in wanted {
        out.bulk(name);
    }
}

fn reply_counts(channels: &pubsub::Channels, names: &[&[u8]], out: &mut Reply) {
    out.array(names.len() * 2);
    for name in names {
        out.bulk(name);
        out.count(channels.get(*name).map_or(0, Vec::len));
    }
}

/// Redis checks the number of patterns in the handler, with another message than the table's.
fn too_many(sub: &[u8]) -> Error {
    let sub = printable(sub, 128);
    Error::new(format!(
        "ERR unknown subcommand or wrong number of arguments for '{sub}'. Try PUBSUB HELP."
    ))
}

pub(super) fn pubsub_channels(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    if a.len() > 3 {
        return Err(too_many(a[1]));
    }
    reply_channels(&cx.engine.pubsub.channels, a.get(2), out);
    Ok(())
}

pub(super) fn pubsub_shardchannels(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    if a.len() > 3 {
        return Err(too_many(a[1]));
    }
    reply_channels(&cx.engine.pubsub.shard, a.get(2), out);
    Ok(())
}

pub(super) fn pubsub_numsub(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    reply_counts(&cx.engine.pubsub.channels, &a[2..], out);
    Ok(())
}

pub(super) fn pubsub_shardnumsub(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    reply_counts(&cx.engine.pubsub.shard, &a[2..], out);
    Ok(())
}

pub(super) fn pubsub_numpat(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    out.count(cx.engine.pubsub.patterns.len());
    Ok(())
}

pub(super) fn pubsub_help(_: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    super::help::reply("PUBSUB", super::help::PUBSUB, out);
    Ok(())
}
