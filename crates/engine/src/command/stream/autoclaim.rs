//! XAUTOCLAIM: walks the pending entries of a group and claims those that idle.

use super::claim::{Claim, Claimed, Terms};
use super::{no_key_or_group, parse_int_or, parse_start, write_id};
use crate::args::is;
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::number;
use crate::resp::Reply;
use crate::value::stream::{Stream, StreamId};

/// How many pending entries are looked at for each that may be claimed.
const ATTEMPTS_PER_ENTRY: i64 = 10;
const DEFAULT_COUNT: i64 = 100;
const MAX_COUNT: i64 = i64::MAX / 16;

/// XAUTOCLAIM key group consumer min-idle-time start [COUNT n] [JUSTID]
pub(in crate::command) fn xautoclaim(ctx: &mut Ctx<'_>, args: &[&[u8]], reply: &mut Reply) -> Done {
    let min_idle = Error::fixed("ERR Invalid min-idle-time argument for XAUTOCLAIM");
    let min_idle_ms = parse_int_or(args[4], min_idle)?.max(0);
    let start = parse_start(args[5])?;
    let (count, just_ids) = parse_options(&args[6..])?;
    let (key, name, now) = (args[1], args[2], ctx.now);
    let terms = Terms {
        consumer: args[3],
        min_idle_ms,
        force: false,
        just_ids,
        delivered_ms: now,
        deliveries: None,
    };

    let mut stream = ctx.edit::<Stream>(key)?.ok_or_else(|| no_key_or_group(key, name))?;
    let Stream { log, groups } = &mut *stream;
    let mut group = groups.get_mut(name).ok_or_else(|| no_key_or_group(key, name))?;
    let mut claim = Claim::new(&terms, log, &mut group, now);
    let walk = walk(&mut claim, start, count, reply);
    let told = claim.into_told();
    drop(group);
    drop(stream);

    reply.array(3);
    write_id(reply, walk.next.unwrap_or(StreamId::MIN));
    reply.array(walk.claimed_count);
    reply.raw(walk.claimed.as_bytes());
    reply.array(walk.deleted.len());
    for id in walk.deleted {
        write_id(reply, id);
    }
    told.tell(ctx, key, name);
    Ok(())
}

/// What a walk found, and the pending entry behind it.
struct Walk {
    claimed: Reply,
    claimed_count: usize,
    deleted: Vec<StreamId>,
    next: Option<StreamId>,
}

fn walk(claim: &mut Claim<'_>, start: StreamId, count: i64, reply: &Reply) -> Walk {
    let claimed = Reply::new(reply.protocol());
    let mut walk = Walk { claimed, claimed_count: 0, deleted: Vec::new(), next: None };
    let (mut left, mut attempts) = (count, count * ATTEMPTS_PER_ENTRY);
    let mut from = Some(start);
    while let Some(at) = from
        && let Some(id) = claim.group.next_pending(at)
    {
        if left == 0 || attempts == 0 {
            walk.next = Some(id);
            break;
        }
        attempts -= 1;
        from = id.next();
        match claim.claim(id) {
            Claimed::Entry(entry) => {
                claim.show(&mut walk.claimed, &entry);
                walk.claimed_count += 1;
                left -= 1;
            }
            Claimed::Gone => {
                walk.deleted.push(id);
                left -= 1;
            }
            Claimed::Left => {}
        }
    }
    walk
}

fn parse_options(mut rest: &[&[u8]]) -> Result<(i64, bool), Error> {
    let (mut count, mut just_ids) = (DEFAULT_COUNT, false);
    while let [option, after @ ..] = rest {
        rest = match after {
            [value, after @ ..] if is(option, "count") => {
                count = number::parse_i64(value)
                    .filter(|count| (1..=MAX_COUNT).contains(count))
                    .ok_or(Error::fixed("ERR COUNT must be > 0"))?;
                after
            }
            _ if is(option, "justid") => {
                just_ids = true;
                after
            }
            _ => return Err(Error::SYNTAX),
        };
    }
    Ok((count, just_ids))
}
