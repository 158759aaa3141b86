//! XPENDING: entries that a group has delivered and that are not acknowledged.

use super::{no_key_or_group, parse_end, parse_start, write_id};
use crate::args::{int, is};
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::resp::Reply;
use crate::value::stream::{Group, Nack, Stream, StreamId};

/// Which pending entries to show.
struct Window<'a> {
    min_idle_ms: i64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

/// XPENDING key group [[IDLE ms] start end count [consumer]]
pub(in crate::command) fn xpending(ctx: &mut Ctx<'_>, args: &[&[u8]], reply: &mut Reply) -> Done {
    let window = match args.len() {
        3 => None,
        6..=9 => Some(parse_window(&args[3..])?),
        _ => return Err(Error::SYNTAX),
    };
    let now = ctx.now;
    let group = ctx.get::<Stream>(args[1])?.and_then(|stream| stream.groups.get(args[2]));
    let group = group.ok_or_else(|| no_key_or_group(args[1], args[2]))?;
    match window {
        None => write_summary(reply, group),
        Some(window) => write_window(reply, group, &window, now),
    }
    Ok(())
}

fn parse_window<'a>(args: &[&'a [u8]]) -> Result<Window<'a>, Error> {
    let (min_idle_ms, args) = match args {
        [word, idle, rest @ ..] if is(word, "idle") => (int(idle)?, rest),
        _ => (0, args),
    };
    let [start, end, count, consumer @ ..] = args else {
        return Err(Error::SYNTAX);
    };
    let count = usize::try_from(int(count)?.max(0)).unwrap_or(usize::MAX);
    let (start, end) = (parse_start(start)?, parse_end(end)?);
    // Redis: more arguments than the consumer are let through.
    Ok(Window { min_idle_ms, start, end, count, consumer: consumer.first().copied() })
}

fn write_summary(reply: &mut Reply, group: &Group) {
    reply.array(4);
    reply.count(group.pending_len());
    let Some((first, last)) = group.pending_bounds() else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    write_id(reply, first);
    write_id(reply, last);
    let busy = || group.consumers().filter(|consumer| consumer.pending_len() > 0);
    reply.array(busy().count());
    for consumer in busy() {
        reply.array(2);
        reply.bulk(&consumer.name);
        reply.bulk_int(consumer.pending_len() as i64);
    }
}

fn write_window(reply: &mut Reply, group: &Group, window: &Window<'_>, now: i64) {
    let shown = |(_, nack): &(StreamId, &Nack)| {
        window.min_idle_ms == 0 || now.wrapping_sub(nack.delivered_ms) >= window.min_idle_ms
    };
    let within = |id: &StreamId| *id <= window.end;
    let mark = reply.defer();
    let mut count = 0;
    let mut show = |(id, nack): (StreamId, &Nack)| {
        reply.array(4);
        write_id(reply, id);
        reply.bulk(&group.consumer(nack.consumer).name);
        reply.int(now.wrapping_sub(nack.delivered_ms).max(0));
        reply.int(nack.deliveries);
        count += 1;
    };
    match window.consumer {
        None => group
            .pending_from(window.start)
            .take_while(|(id, _)| within(id))
            .filter(shown)
            .take(window.count)
            .for_each(&mut show),
        Some(name) => {
            if let Some(slot) = group.find_consumer(name) {
                group
                    .consumer(slot)
                    .pending_from(window.start)
                    .take_while(within)
                    .filter_map(|id| Some((id, group.nack(id)?)))
                    .filter(shown)
                    .take(window.count)
                    .for_each(&mut show);
            }
        }
    }
    reply.end_array(mark, count);
}
