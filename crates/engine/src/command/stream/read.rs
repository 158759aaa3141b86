//! XREAD and XREADGROUP.
//!
//! Both look at each stream in turn and answer with those that have something. If none has and
//! BLOCK was given, the session waits: it is parked with its request, in which `$` is replaced
//! by the ids it meant, and the request is tried again when one of the keys changes. A retry
//! answers with one stream only, and for a group it tells whether the key or the group it waited
//! for is gone. These rules are in `retry`; `first_try` has those of an ordinary call.

use super::effects::{self, Handed, Position};
use super::{limit, parse_id, write_entries, write_entry, write_id};
use crate::args::{self, int};
use crate::ctx::{Caller, Ctx};
use crate::error::{Done, Error, printable};
use crate::notify::Classes;
use crate::number;
use crate::resp::Reply;
use crate::value::stream::{ConsumerSlot, Group, Log, Nack, Stream, StreamId};

/// A woken reader without COUNT gets at most this many entries.
const DEFAULT_COUNT_AFTER_WAIT: i64 = 1000;

/// A parsed request.
#[derive(Debug)]
struct Request<'a> {
    keys: &'a [&'a [u8]],
    ids: &'a [&'a [u8]],
    reader: Option<Reader<'a>>,
    count: i64,
    /// How long to wait, in milliseconds; zero for ever.
    block_ms: Option<i64>,
}

/// In whose name XREADGROUP reads.
#[derive(Debug, Clone, Copy)]
struct Reader<'a> {
    group: &'a [u8],
    consumer: &'a [u8],
    no_ack: bool,
}

/// What is wanted of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    /// Entries behind an id.
    Behind(StreamId),
    /// `>`: entries that the group has not delivered yet.
    Undelivered,
    /// What the consumer has pending behind an id.
    History(StreamId),
}

/// XREAD [COUNT n] [BLOCK ms] STREAMS key [key …] id [id …]
pub(in crate::command) fn xread(ctx: &mut Ctx<'_>, args: &[&[u8]], reply: &mut Reply) -> Done {
    let request = parse(ctx, args, Form::Plain)?;
    read(ctx, args, &request, reply)
}

/// XREADGROUP GROUP group consumer [COUNT n] [BLOCK ms] [NOACK] STREAMS key [key …] id [id …]
pub(in crate::command) fn xreadgroup(ctx: &mut Ctx<'_>, args: &[&[u8]], reply: &mut Reply) -> Done {
    let request = parse(ctx, args, Form::Group)?;
    read(ctx, args, &request, reply)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Group,
}

fn parse<'a>(ctx: &Ctx<'_>, argv: &'a [&'a [u8]], form: Form) -> Result<Request<'a>, Error> {
    let (mut block_ms, mut count, mut group, mut no_ack) = (None, 0, None, false);
    let mut streams: Option<&[&[u8]]> = None;
    let mut i = 1;
    while let Some(option) = argv.get(i) {
        let is = |word| args::is(option, word);
        let more = argv.len() - 1 - i;
        if is("block") && more > 0 {
            if ctx.caller == Caller::Script {
                let name = printable(argv[0], usize::MAX);
                return Err(Error::new(format!(
                    "ERR {name} command is not allowed with BLOCK option from scripts"
                )));
            }
            i += 1;
            block_ms = Some(parse_timeout(argv[i])?);
        } else if is("count") && more > 0 {
            i += 1;
            count = int(argv[i])?.max(0);
        } else if is("streams") && more > 0 {
            streams = Some(&argv[i + 1..]);
            break;
        } else if is("group") && more >= 2 {
            if form == Form::Plain {
                return Err(group_only("GROUP"));
            }
            group = Some((argv[i + 1], argv[i + 2]));
            i += 2;
        } else if is("noack") {
            if form == Form::Plain {
                return Err(group_only("NOACK"));
            }
            no_ack = true;
        } else {
            return Err(Error::SYNTAX);
        }
        i += 1;
    }
    let streams = streams.ok_or(Error::SYNTAX)?;
    if !streams.len().is_multiple_of(2) {
        return Err(Error::fixed(
            "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be \
             specified.",
        ));
    }
    let (keys, ids) = streams.split_at(streams.len() / 2);
    if form == Form::Group && group.is_none() {
        return Err(Error::fixed("ERR Missing GROUP option for XREADGROUP"));
    }
    let reader = group.map(|(group, consumer)| Reader { group, consumer, no_ack });
    Ok(Request { keys, ids, reader, count, block_ms })
}

fn group_only(option: &str) -> Error {
    Error::new(format!(
        "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
    ))
}

fn parse_timeout(arg: &[u8]) -> Result<i64, Error> {
    let timeout = number::parse_i64(arg)
        .ok_or(Error::fixed("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(Error::TIMEOUT_NEGATIVE);
    }
    Ok(timeout)
}

fn read(ctx: &mut Ctx<'_>, args: &[&[u8]], request: &Request<'_>, reply: &mut Reply) -> Done {
    if request.reader.is_some() {
        ctx.no_log();
    }
    if ctx.caller == Caller::Retry {
        return retry(ctx, args, request, reply);
    }
    let wanted = resolve(ctx, request)?;
    if first_try(ctx, request, &wanted, reply)? {
        return Ok(());
    }
    match request.block_ms {
        Some(timeout) if ctx.may_block() => {
            let words = without_dollar(args, request, &wanted);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            ctx.park_on_keys(request.keys, &words, timeout);
        }
        _ => reply.null_array(),
    }
    Ok(())
}

/// The request with the ids that `$` stood for.
fn without_dollar(args: &[&[u8]], request: &Request<'_>, wanted: &[From]) -> Vec<Vec<u8>> {
    let ids_at = args.len() - request.ids.len();
    let mut words: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_vec()).collect();
    for (word, from) in words[ids_at..].iter_mut().zip(wanted) {
        if let From::Behind(id) = from {
            *word = id.text().as_bytes().to_vec();
        }
    }
    words
}

/// What is wanted of each stream; refuses keys of another type and groups that do not exist.
fn resolve(ctx: &mut Ctx<'_>, request: &Request<'_>) -> Result<Vec<From>, Error> {
    let mut wanted = Vec::with_capacity(request.keys.len());
    for (key, id) in request.keys.iter().zip(request.ids) {
        let stream = ctx.get::<Stream>(key)?;
        let Some(reader) = request.reader else {
            wanted.push(From::Behind(match *id {
                b"$" => stream.map_or(StreamId::MIN, |stream| stream.log.last_id()),
                b">" => {
                    return Err(Error::fixed(
                        "ERR The > ID can be specified only when calling XREADGROUP using the \
                         GROUP <group> <consumer> option.",
                    ));
                }
                id => parse_id(id)?,
            }));
            continue;
        };
        if stream.and_then(|stream| stream.groups.get(reader.group)).is_none() {
            let (key, group) = (printable(key, usize::MAX), printable(reader.group, usize::MAX));
            return Err(Error::new(format!(
                "NOGROUP No such key '{key}' or consumer group '{group}' in XREADGROUP with \
                 GROUP option"
            )));
        }
        wanted.push(match *id {
            b"$" => {
                return Err(Error::fixed(
                    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read \
                     the history of this consumer by specifying a proper ID, or use the > ID to \
                     get new messages. The $ ID would just return an empty result set.",
                ));
            }
            b">" => From::Undelivered,
            id => match parse_id(id)? {
                // Redis: the greatest id stands for `>`.
                StreamId::MAX => From::Undelivered,
                id => From::History(id),
            },
        });
    }
    Ok(wanted)
}

/// Answers with all streams that have something; says whether there was any.
fn first_try(
    ctx: &mut Ctx<'_>,
    request: &Request<'_>,
    wanted: &[From],
    reply: &mut Reply,
) -> Result<bool, Error> {
    let mark = reply.defer();
    let mut answered = 0;
    for (key, from) in request.keys.iter().zip(wanted) {
        let Some(stream) = ctx.get::<Stream>(key)? else {
            continue;
        };
        let newest = stream.log.last_live_id();
        let from = match (*from, request.reader) {
            (From::Behind(id), _) if newest.is_some_and(|newest| newest > id) => From::Behind(id),
            (From::History(id), _) => From::History(id),
            (From::Undelivered, Some(reader)) => {
                let group = stream.groups.get(reader.group);
                match group {
                    Some(group) if newest.is_some_and(|newest| newest > group.last_id()) => {
                        From::Undelivered
                    }
                    _ => continue,
                }
            }
            _ => continue,
        };
        serve(ctx, request, key, from, request.count, reply)?;
        answered += 1;
    }
    if answered == 0 {
        return Ok(false);
    }
    if reply.is_resp3() {
        reply.end_map(mark, answered);
    } else {
        reply.end_array(mark, answered);
    }
    Ok(true)
}

/// Tries again after a wait: answers with the stream that has grown, or goes on waiting.
fn retry(ctx: &mut Ctx<'_>, args: &[&[u8]], request: &Request<'_>, reply: &mut Reply) -> Done {
    let count = if request.count == 0 { DEFAULT_COUNT_AFTER_WAIT } else { request.count };
    for (key, id) in request.keys.iter().zip(request.ids) {
        if !ctx.may_serve(key) {
            continue;
        }
        let stream = match ctx.peek(key) {
            Some(entry) => <Stream as crate::value::Kind>::of(entry.value()),
            None => None,
        };
        let (newest, from) = match (stream, request.reader) {
            (None, None) => continue,
            (None, Some(_)) => {
                return Err(Error::fixed("UNBLOCKED the stream key no longer exists"));
            }
            (Some(stream), None) => (stream.log.last_id(), From::Behind(parse_id(id)?)),
            (Some(stream), Some(reader)) => {
                let group = stream.groups.get(reader.group).ok_or(Error::fixed(
                    "NOGROUP the consumer group this client was blocked on no longer exists",
                ))?;
                if stream.log.last_id() <= group.last_id() {
                    continue;
                }
                (stream.log.last_id(), From::Undelivered)
            }
        };
        if matches!(from, From::Behind(id) if newest <= id) {
            continue;
        }
        if reply.is_resp3() {
            reply.map(1);
        } else {
            reply.array(1);
        }
        return serve(ctx, request, key, from, count, reply);
    }
    ctx.park_on_keys(request.keys, args, request.block_ms.unwrap_or(0));
    Ok(())
}

/// Writes one stream's part of the answer: its name and the entries.
fn serve(
    ctx: &mut Ctx<'_>,
    request: &Request<'_>,
    key: &[u8],
    from: From,
    count: i64,
    reply: &mut Reply,
) -> Done {
    if !reply.is_resp3() {
        reply.array(2);
    }
    reply.bulk(key);
    match request.reader {
        Some(reader) => serve_reader(ctx, reader, key, from, limit(count), reply),
        None => {
            let From::Behind(id) = from else {
                unreachable!("only a group has history and undelivered entries")
            };
            let stream = ctx.get::<Stream>(key)?.expect("the caller just met this stream");
            let start = id.next().unwrap_or(StreamId::MIN);
            write_entries(reply, stream.log.range(start, StreamId::MAX).take(limit(count)));
            Ok(())
        }
    }
}

fn serve_reader(
    ctx: &mut Ctx<'_>,
    reader: Reader<'_>,
    key: &[u8],
    from: From,
    count: usize,
    reply: &mut Reply,
) -> Done {
    let (now, logging) = (ctx.now, ctx.engine.logging);
    let mut stream = ctx.edit::<Stream>(key)?.expect("the caller just met this stream");
    let Stream { log, groups } = &mut *stream;
    let mut group = groups.get_mut(reader.group).expect("the caller just met this group");
    let before = Position::of(&group);
    let known = group.find_consumer(reader.consumer);
    let created = known.is_none();
    let slot = match known {
        Some(slot) => {
            group.touch(slot, now);
            slot
        }
        None => group.create_consumer(reader.consumer, now).expect("the name was just free"),
    };
    let mut delivery =
        Delivery { group: &mut group, slot, now, count, logging, handed: Vec::new() };
    match from {
        From::History(id) => delivery.history(log, id, reply),
        _ => delivery.undelivered(log, reader.no_ack, reply),
    }
    let handed = delivery.handed;
    let position = Position::of(&group);
    drop(group);
    drop(stream);

    ctx.dirty(1);
    if created {
        ctx.notify(Classes::STREAM, "xgroup-createconsumer", key);
        ctx.dirty(1);
        effects::consumer_created(ctx, key, reader.group, reader.consumer);
    }
    effects::handed(ctx, key, reader.group, &handed);
    if position != before {
        effects::position(ctx, key, reader.group, position);
    }
    Ok(())
}

/// Hands entries of a stream to one consumer of a group.
struct Delivery<'g> {
    group: &'g mut Group,
    slot: ConsumerSlot,
    now: i64,
    count: usize,
    logging: bool,
    handed: Vec<Handed>,
}

impl Delivery<'_> {
    /// Entries that the group has not delivered yet.
    fn undelivered(&mut self, log: &Log, no_ack: bool, reply: &mut Reply) {
        let start = self.group.last_id().next().unwrap_or(StreamId::MIN);
        let mark = reply.defer();
        let mut shown = 0;
        for entry in log.range(start, StreamId::MAX).take(self.count) {
            self.group.advance(log, entry.id);
            write_entry(reply, &entry);
            shown += 1;
            if !no_ack {
                // After XGROUP SETID an entry may be pending already: it starts anew.
                self.hand_out(entry.id, 1);
            }
        }
        reply.end_array(mark, shown);
    }

    /// Entries that this consumer has pending; of those that are gone, only the id.
    fn history(&mut self, log: &Log, behind: StreamId, reply: &mut Reply) {
        let start = behind.next().unwrap_or(StreamId::MIN);
        let pending: Vec<StreamId> =
            self.group.consumer(self.slot).pending_from(start).take(self.count).collect();
        reply.array(pending.len());
        for id in pending {
            match log.get(id) {
                Some(entry) => {
                    write_entry(reply, &entry);
                    let deliveries = self.group.nack(id).map_or(0, |nack| nack.deliveries);
                    self.hand_out(id, deliveries.wrapping_add(1));
                }
                None => {
                    reply.array(2);
                    write_id(reply, id);
                    reply.null_array();
                }
            }
        }
    }

    fn hand_out(&mut self, id: StreamId, deliveries: i64) {
        let nack = Nack { delivered_ms: self.now, deliveries, consumer: self.slot };
        self.group.assign(id, nack);
        if self.logging {
            self.handed.push(Handed::of(self.group, id, nack));
        }
    }
}
