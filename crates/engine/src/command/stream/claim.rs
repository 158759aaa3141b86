//! XCLAIM and XAUTOCLAIM: pending entries change hands.

use super::effects::{self, Handed, Position};
use super::{no_key_or_group, parse_id, parse_int_or, parse_start};
use super::{write_entry, write_id};
use crate::args;
use crate::ctx::Ctx;
use crate::error::{Done, Error, printable};
use crate::notify::Classes;
use crate::number;
use crate::resp::Reply;
use crate::value::stream::{ConsumerSlot, Entry, Group, Nack, Stream, StreamId};

/// Who claims, and what the reply shows of each entry.
struct Claimant<'a> {
    consumer: &'a [u8],
    min_idle_ms: i64,
    just_ids: bool,
    now: i64,
    slot: Option<ConsumerSlot>,
    created: bool,
}

impl Claimant<'_> {
    fn is_idle_enough(&self, nack: &Nack) -> bool {
        self.min_idle_ms == 0 || self.now.wrapping_sub(nack.delivered_ms) >= self.min_idle_ms
    }

    /// The claiming consumer, seen now; made when it first gets something.
    fn slot(&mut self, group: &mut Group) -> ConsumerSlot {
        if let Some(slot) = self.slot {
            return slot;
        }
        let slot = match group.find_consumer(self.consumer) {
            Some(slot) => {
                group.touch(slot, self.now);
                slot
            }
            None => {
                self.created = true;
                group.create_consumer(self.consumer, self.now).expect("the name was just free")
            }
        };
        *self.slot.insert(slot)
    }

    fn show(&self, reply: &mut Reply, entry: &Entry<'_>) {
        if self.just_ids { write_id(reply, entry.id) } else { write_entry(reply, entry) }
    }
}

/// What the rest of the engine has to hear about a claim.
fn tell(ctx: &mut Ctx<'_>, args: &[&[u8]], claimant: &Claimant<'_>, handed: &[Handed]) {
    ctx.no_log();
    if claimant.created {
        ctx.notify(Classes::STREAM, "xgroup-createconsumer", args[1]);
        ctx.dirty(1);
    }
    ctx.dirty(handed.len() as u64);
    effects::handed(ctx, args[1], args[2], handed);
}

/// The options behind the ids of XCLAIM.
#[derive(Default)]
struct Options {
    delivered_ms: Option<i64>,
    deliveries: Option<i64>,
    force: bool,
    just_ids: bool,
    last_id: StreamId,
}

fn parse_options(mut rest: &[&[u8]], now: i64) -> Result<Options, Error> {
    let mut options = Options::default();
    while let [option, after @ ..] = rest {
        let is = |word| args::is(option, word);
        rest = after;
        if is("force") {
            options.force = true;
            continue;
        } else if is("justid") {
            options.just_ids = true;
            continue;
        }
        let refusal = |name| Error::new(format!("ERR Invalid {name} option argument for XCLAIM"));
        match after {
            [value, ..] if is("idle") => {
                let idle = parse_int_or(value, refusal("IDLE"))?;
                options.delivered_ms = Some(now.wrapping_sub(idle));
            }
            [value, ..] if is("time") => {
                options.delivered_ms = Some(parse_int_or(value, refusal("TIME"))?);
            }
            [value, ..] if is("retrycount") => {
                options.deliveries = Some(parse_int_or(value, refusal("RETRYCOUNT"))?);
            }
            [value, ..] if is("lastid") => options.last_id = parse_id(value)?,
            _ => {
                let shown = printable(option, usize::MAX);
                return Err(Error::new(format!("ERR Unrecognized XCLAIM option '{shown}'")));
            }
        }
        rest = &after[1..];
    }
    Ok(options)
}

/// XCLAIM key group consumer min-idle-time id [id …] [IDLE ms] [TIME ms] [RETRYCOUNT n] [FORCE]
/// [JUSTID] [LASTID id]
pub(in crate::command) fn xclaim(ctx: &mut Ctx<'_>, args: &[&[u8]], reply: &mut Reply) -> Done {
    let (key, name, now) = (args[1], args[2], ctx.now);
    let mut stream = ctx.edit::<Stream>(key)?.ok_or_else(|| no_key_or_group(key, name))?;
    let Stream { log, groups } = &mut *stream;
    let mut group = groups.get_mut(name).ok_or_else(|| no_key_or_group(key, name))?;
    let min_idle = Error::fixed("ERR Invalid min-idle-time argument for XCLAIM");
    let min_idle_ms = parse_int_or(args[4], min_idle)?.max(0);
    let ids: Vec<StreamId> = args[5..].iter().map_while(|arg| StreamId::parse(arg, 0)).collect();
    let options = parse_options(&args[5 + ids.len()..], now)?;

    let raised = group.raise_last_id(options.last_id);
    // A time in the future, or none at all, is now.
    let delivered_ms = options.delivered_ms.filter(|at| (0..=now).contains(at)).unwrap_or(now);
    let mut claimant = Claimant {
        consumer: args[3],
        min_idle_ms,
        just_ids: options.just_ids,
        now,
        slot: None,
        created: false,
    };
    let mut handed = Vec::new();
    let mark = reply.defer();
    let mut shown = 0;
    for id in ids {
        let known = group.nack(id).copied();
        let Some(entry) = log.get(id) else {
            // The entry was deleted or trimmed: nothing is left to be acknowledged.
            if let Some(nack) = known {
                handed.push(Handed::of(&group, id, nack));
                group.acknowledge(id);
            }
            continue;
        };
        match known {
            None if !options.force => continue,
            Some(nack) if !claimant.is_idle_enough(&nack) => continue,
            _ => {}
        }
        let consumer = claimant.slot(&mut group);
        let before = known.map_or(1, |nack| nack.deliveries);
        let deliveries = match options.deliveries {
            Some(given @ 0..) => given,
            _ if options.just_ids => before,
            _ => before.wrapping_add(1),
        };
        let nack = Nack { delivered_ms, deliveries, consumer };
        group.assign(id, nack);
        claimant.show(reply, &entry);
        shown += 1;
        handed.push(Handed::of(&group, id, nack));
    }
    reply.end_array(mark, shown);
    let position = Position::of(&group);
    drop(group);
    drop(stream);
    tell(ctx, args, &claimant, &handed);
    if raised && handed.is_empty() {
        ctx.dirty(1);
        effects::position(ctx, key, name, position);
    }
    Ok(())
}

/// How many pending entries XAUTOCLAIM looks at for each that it may claim.
const ATTEMPTS_PER_ENTRY: i64 = 10;
const DEFAULT_COUNT: i64 = 100;
const MAX_COUNT: i64 = i64::MAX / 16;

/// XAUTOCLAIM key group consumer min-idle-time start [COUNT n] [JUSTID]
pub(in crate::command) fn xautoclaim(ctx: &mut Ctx<'_>, args: &[&[u8]], reply: &mut Reply) -> Done {
    let min_idle = Error::fixed("ERR Invalid min-idle-time argument for XAUTOCLAIM");
    let min_idle_ms = parse_int_or(args[4], min_idle)?.max(0);
    let start = parse_start(args[5])?;
    let (count, just_ids) = parse_auto_options(&args[6..])?;

    let (key, name, now) = (args[1], args[2], ctx.now);
    let mut stream = ctx.edit::<Stream>(key)?.ok_or_else(|| no_key_or_group(key, name))?;
    let Stream { log, groups } = &mut *stream;
    let mut group = groups.get_mut(name).ok_or_else(|| no_key_or_group(key, name))?;
    let mut claimant =
        Claimant { consumer: args[3], min_idle_ms, just_ids, now, slot: None, created: false };

    let (mut left, mut attempts) = (count, count * ATTEMPTS_PER_ENTRY);
    let mut cursor = Some(start);
    let mut claimed = Reply::new(reply.protocol());
    let (mut claimed_count, mut deleted) = (0, Vec::new());
    let mut handed = Vec::new();
    while let Some(from) = cursor
        && left > 0
        && attempts > 0
    {
        attempts -= 1;
        let Some((id, nack)) = group.pending_from(from).next().map(|(id, nack)| (id, *nack)) else {
            cursor = None;
            break;
        };
        cursor = id.next();
        let Some(entry) = log.get(id) else {
            handed.push(Handed::of(&group, id, nack));
            group.acknowledge(id);
            deleted.push(id);
            left -= 1;
            continue;
        };
        if !claimant.is_idle_enough(&nack) {
            continue;
        }
        let consumer = claimant.slot(&mut group);
        let deliveries = nack.deliveries.wrapping_add(i64::from(!just_ids));
        let nack = Nack { delivered_ms: now, deliveries, consumer };
        group.assign(id, nack);
        claimant.show(&mut claimed, &entry);
        claimed_count += 1;
        left -= 1;
        handed.push(Handed::of(&group, id, nack));
    }
    let next = cursor.and_then(|from| group.pending_from(from).next().map(|(id, _)| id));
    drop(group);
    drop(stream);

    reply.array(3);
    write_id(reply, next.unwrap_or(StreamId::MIN));
    reply.array(claimed_count);
    reply.raw(claimed.as_bytes());
    reply.array(deleted.len());
    for id in deleted {
        write_id(reply, id);
    }
    tell(ctx, args, &claimant, &handed);
    Ok(())
}

fn parse_auto_options(mut rest: &[&[u8]]) -> Result<(i64, bool), Error> {
    let (mut count, mut just_ids) = (DEFAULT_COUNT, false);
    while let [option, after @ ..] = rest {
        rest = match after {
            [value, after @ ..] if args::is(option, "count") => {
                count = number::parse_i64(value)
                    .filter(|count| (1..=MAX_COUNT).contains(count))
                    .ok_or(Error::fixed("ERR COUNT must be > 0"))?;
                after
            }
            _ if args::is(option, "justid") => {
                just_ids = true;
                after
            }
            _ => return Err(Error::SYNTAX),
        };
    }
    Ok((count, just_ids))
}
