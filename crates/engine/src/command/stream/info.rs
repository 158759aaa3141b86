//! XINFO: what a stream, its groups and their consumers look like from outside.

use super::{bad_subcommand, limit, no_group, write_entries, write_entry, write_id};
use crate::args::{int, is};
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::resp::Reply;
use crate::value::stream::{Consumer, Group, Log, Nack, Stream, StreamId};

/// How many entries and pending entries XINFO STREAM FULL shows of each list.
const DEFAULT_FULL_COUNT: i64 = 10;

/// XINFO STREAM key [FULL [COUNT n]]
pub(in crate::command) fn xinfo_stream(
    ctx: &mut Ctx<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
) -> Done {
    let stream = ctx.get::<Stream>(args[2])?.ok_or(Error::NO_SUCH_KEY)?;
    match &args[3..] {
        [] => write_brief(reply, stream),
        [full] if is(full, "full") => write_full(reply, stream, DEFAULT_FULL_COUNT),
        [full, word, count] if is(full, "full") && is(word, "count") => match int(count)? {
            ..0 => write_full(reply, stream, DEFAULT_FULL_COUNT),
            count => write_full(reply, stream, count),
        },
        _ => return Err(bad_subcommand(args, "XINFO")),
    }
    Ok(())
}

fn write_counters(reply: &mut Reply, log: &Log) {
    reply.bulk(b"length");
    reply.int(log.len() as i64);
    reply.bulk(b"radix-tree-keys");
    reply.count(log.nodes().len());
    reply.bulk(b"radix-tree-nodes");
    reply.int(log.radix_nodes() as i64);
    reply.bulk(b"last-generated-id");
    write_id(reply, log.last_id());
    reply.bulk(b"max-deleted-entry-id");
    write_id(reply, log.max_deleted_id());
    reply.bulk(b"entries-added");
    reply.int(log.entries_added() as i64);
    reply.bulk(b"recorded-first-entry-id");
    write_id(reply, log.first_id());
}

fn write_brief(reply: &mut Reply, stream: &Stream) {
    let log = &stream.log;
    reply.map(10);
    write_counters(reply, log);
    reply.bulk(b"groups");
    reply.count(stream.groups.len());
    reply.bulk(b"first-entry");
    match log.range(StreamId::MIN, StreamId::MAX).next() {
        Some(entry) => write_entry(reply, &entry),
        None => reply.null(),
    }
    reply.bulk(b"last-entry");
    match log.range_rev(StreamId::MIN, StreamId::MAX).next() {
        Some(entry) => write_entry(reply, &entry),
        None => reply.null(),
    }
}

fn write_full(reply: &mut Reply, stream: &Stream, count: i64) {
    let (log, count) = (&stream.log, limit(count));
    reply.map(9);
    write_counters(reply, log);
    reply.bulk(b"entries");
    write_entries(reply, log.range(StreamId::MIN, StreamId::MAX).take(count));
    reply.bulk(b"groups");
    reply.array(stream.groups.len());
    for (name, group) in stream.groups.iter() {
        reply.map(7);
        reply.bulk(b"name");
        reply.bulk(name);
        write_position(reply, log, group);
        reply.bulk(b"pel-count");
        reply.count(group.pending_len());
        reply.bulk(b"pending");
        reply.array(group.pending_len().min(count));
        for (id, nack) in group.pending_from(StreamId::MIN).take(count) {
            reply.array(4);
            write_id(reply, id);
            reply.bulk(&group.consumer(nack.consumer).name);
            write_delivery(reply, nack);
        }
        reply.bulk(b"consumers");
        reply.array(group.consumers_len());
        for consumer in group.consumers() {
            write_consumer(reply, group, consumer, count);
        }
    }
}

fn write_consumer(reply: &mut Reply, group: &Group, consumer: &Consumer, count: usize) {
    reply.map(4);
    reply.bulk(b"name");
    reply.bulk(&consumer.name);
    reply.bulk(b"seen-time");
    reply.int(consumer.seen_ms);
    reply.bulk(b"pel-count");
    reply.count(consumer.pending_len());
    reply.bulk(b"pending");
    reply.array(consumer.pending_len().min(count));
    for id in consumer.pending_from(StreamId::MIN).take(count) {
        let nack = group.nack(id).expect("what a consumer has pending, its group has");
        reply.array(3);
        write_id(reply, id);
        write_delivery(reply, nack);
    }
}

fn write_delivery(reply: &mut Reply, nack: &Nack) {
    reply.int(nack.delivered_ms);
    reply.int(nack.deliveries);
}

fn write_position(reply: &mut Reply, log: &Log, group: &Group) {
    let int_or_null = |name: &[u8], value: Option<i64>, reply: &mut Reply| {
        reply.bulk(name);
        match value {
            Some(n) => reply.int(n),
            None => reply.null(),
        }
    };
    reply.bulk(b"last-delivered-id");
    write_id(reply, group.last_id());
    int_or_null(b"entries-read", group.entries_read(), reply);
    int_or_null(b"lag", group.lag(log), reply);
}

/// XINFO GROUPS key
pub(in crate::command) fn xinfo_groups(
    ctx: &mut Ctx<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
) -> Done {
    let stream = ctx.get::<Stream>(args[2])?.ok_or(Error::NO_SUCH_KEY)?;
    reply.array(stream.groups.len());
    for (name, group) in stream.groups.iter() {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(name);
        reply.bulk(b"consumers");
        reply.count(group.consumers_len());
        reply.bulk(b"pending");
        reply.count(group.pending_len());
        write_position(reply, &stream.log, group);
    }
    Ok(())
}

/// XINFO CONSUMERS key group
pub(in crate::command) fn xinfo_consumers(
    ctx: &mut Ctx<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
) -> Done {
    let now = ctx.now;
    let stream = ctx.get::<Stream>(args[2])?.ok_or(Error::NO_SUCH_KEY)?;
    let group = stream.groups.get(args[3]).ok_or_else(|| no_group(args[2], args[3]))?;
    reply.array(group.consumers_len());
    for consumer in group.consumers() {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(&consumer.name);
        reply.bulk(b"pending");
        reply.count(consumer.pending_len());
        reply.bulk(b"idle");
        reply.int(now.wrapping_sub(consumer.seen_ms).max(0));
    }
    Ok(())
}

/// XINFO HELP
pub(in crate::command) fn xinfo_help(_: &mut Ctx<'_>, _: &[&[u8]], reply: &mut Reply) -> Done {
    const LINES: [&str; 9] = [
        "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CONSUMERS <key> <groupname>",
        "    List the consumers of a group.",
        "GROUPS <key>",
        "    List the groups of a stream.",
        "STREAM <key> [FULL [COUNT <count>]",
        "    Describe a stream, with FULL also its entries, groups and consumers.",
        "HELP",
        "    Print this help.",
    ];
    reply.array(LINES.len());
    for line in LINES {
        reply.simple(line);
    }
    Ok(())
}
