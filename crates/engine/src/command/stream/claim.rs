//! XCLAIM: transfers pending entries to another consumer. Also contains what XAUTOCLAIM shares with
//! it.

use super::effects::{self, Handed, Position};
use super::{no_key_or_group, parse_id, parse_int_or, write_entry, write_id};
use crate::args;
use crate::ctx::Ctx;
use crate::error::{Done, Error, printable};
use crate::notify::Classes;
use crate::resp::Reply;
use crate::value::stream::{ConsumerSlot, Entry, Group, Log, Nack, Stream, StreamId};

/// Conditions of a claim.
#[derive(Debug)]
pub(super) struct Terms<'a> {
    pub(super) consumer: &'a [u8],
    pub(super) min_idle_ms: i64,
    /// Whether entries that are not pending are claimed as well.
    pub(super) force: bool,
    /// Whether only ids are shown, which does not count as a delivery.
    pub(super) just_ids: bool,
    pub(super) delivered_ms: i64,
    /// Delivery count that the entries get, if specified.
    pub(super) deliveries: Option<i64>,
}

/// Outcome of claiming one id.
pub(super) enum Claimed<'l> {
    /// The consumer has it.
    Entry(Entry<'l>),
    /// It was pending, but the entry is no longer in the stream: it is forgotten.
    Gone,
    /// Nothing was done.
    Left,
}

/// A claim in progress.
pub(super) struct Claim<'g> {
    terms: &'g Terms<'g>,
    log: &'g Log,
    pub(super) group: &'g mut Group,
    now: i64,
    slot: Option<ConsumerSlot>,
    told: Told,
}

/// Changes of a claim that must be reported to the rest of the engine.
#[derive(Debug, Default)]
pub(super) struct Told {
    consumer_created: bool,
    handed: Vec<Handed>,
}

impl<'g> Claim<'g> {
    pub(super) fn new(
        terms: &'g Terms<'g>,
        log: &'g Log,
        group: &'g mut Group,
        now: i64,
    ) -> Claim<'g> {
        Claim { terms, log, group, now, slot: None, told: Told::default() }
    }

    /// Claims one entry, if the terms allow it.
    pub(super) fn claim(&mut self, id: StreamId) -> Claimed<'g> {
        let known = self.group.nack(id).copied();
        let Some(entry) = self.log.get(id) else {
            let Some(nack) = known else { return Claimed::Left };
            self.told.handed.push(Handed::of(self.group, id, nack));
            self.group.acknowledge(id);
            return Claimed::Gone;
        };
        let allowed = known.map_or(self.terms.force, |nack| self.is_idle_enough(&nack));
        if !allowed {
            return Claimed::Left;
        }
        let consumer = self.slot();
        // Redis: an entry that was not pending starts with a delivery count of one, before this
        // delivery counts.
        let before = known.map_or(1, |nack| nack.deliveries);
        let deliveries = match self.terms.deliveries {
            Some(given) => given,
            None if self.terms.just_ids => before,
            None => before.wrapping_add(1),
        };
        let nack = Nack { delivered_ms: self.terms.delivered_ms, deliveries, consumer };
        self.group.assign(id, nack);
        self.told.handed.push(Handed::of(self.group, id, nack));
        Claimed::Entry(entry)
    }

    fn is_idle_enough(&self, nack: &Nack) -> bool {
        let min = self.terms.min_idle_ms;
        min == 0 || self.now.wrapping_sub(nack.delivered_ms) >= min
    }

    /// Returns the claiming consumer, marked as seen now; creates it when it first gets an entry.
    fn slot(&mut self) -> ConsumerSlot {
        if let Some(slot) = self.slot {
            return slot;
        }
        let slot = match self.group.find_consumer(self.terms.consumer) {
            Some(slot) => {
                self.group.touch(slot, self.now);
                slot
            }
            None => {
                self.told.consumer_created = true;
                let created = self.group.create_consumer(self.terms.consumer, self.now);
                created.expect("the name was just free")
            }
        };
        *self.slot.insert(slot)
    }

    pub(super) fn show(&self, reply: &mut Reply, entry: &Entry<'_>) {
        if self.terms.just_ids { write_id(reply, entry.id) } else { write_entry(reply, entry) }
    }

    pub(super) fn into_told(self) -> Told {
        self.told
    }
}

impl Told {
    /// Reports the changes.
    pub(super) fn tell(&self, ctx: &mut Ctx<'_>, key: &[u8], group: &[u8]) {
        ctx.no_log();
        if self.consumer_created {
            ctx.notify(Classes::STREAM, "xgroup-createconsumer", key);
            ctx.dirty(1);
        }
        ctx.dirty(self.handed.len() as u64);
        effects::handed(ctx, key, group, &self.handed);
    }
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
    let terms = Terms {
        consumer: args[3],
        min_idle_ms,
        force: options.force,
        just_ids: options.just_ids,
        // A time in the future, or none, is treated as now.
        delivered_ms: options.delivered_ms.filter(|at| (0..=now).contains(at)).unwrap_or(now),
        deliveries: options.deliveries.filter(|count| *count >= 0),
    };

    let raised = group.raise_last_id(options.last_id);
    let mut claim = Claim::new(&terms, log, &mut group, now);
    let mark = reply.defer();
    let mut shown = 0;
    for id in ids {
        if let Claimed::Entry(entry) = claim.claim(id) {
            claim.show(reply, &entry);
            shown += 1;
        }
    }
    reply.end_array(mark, shown);
    let told = claim.into_told();
    let position = Position::of(&group);
    drop(group);
    drop(stream);
    told.tell(ctx, key, name);
    if raised && told.handed.is_empty() {
        ctx.dirty(1);
        effects::position(ctx, key, name, position);
    }
    Ok(())
}

/// The options behind the ids of XCLAIM.
#[derive(Debug, Default)]
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
