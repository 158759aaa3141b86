//! XREAD and XREADGROUP.
//!
//! Both check each stream in turn and answer with those that have entries. If none has and BLOCK
//! was given, the session waits: it is parked with its request, in which `$` is replaced by the ids
//! it stood for, and the request is retried when one of the keys changes. A retry answers with one
//! stream only, and for a group it reports if the key or the group it waited for is gone. These
//! rules are in `retry`; `first_try` has those of an ordinary call.

use super::{deliver, limit, parse_id, write_entries};
use crate::args::{self, int};
use crate::ctx::{Caller, Ctx};
use crate::error::{Done, Error, printable};
use crate::number;
use crate::resp::Reply;
use crate::value::Kind;
use crate::value::stream::{Stream, StreamId};

/// A woken reader without COUNT gets at most this many entries.
const DEFAULT_COUNT_AFTER_WAIT: i64 = 1000;

/// A parsed request.
#[derive(Debug)]
struct Request<'a> {
    keys: &'a [&'a [u8]],
    ids: &'a [&'a [u8]],
    reader: Option<Reader<'a>>,
    count: i64,
    /// Maximum wait in milliseconds; zero waits for ever.
    block_ms: Option<i64>,
}

/// The group and consumer of XREADGROUP.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) group: &'a [u8],
    pub(super) consumer: &'a [u8],
    pub(super) no_ack: bool,
}

/// What a request wants from one stream.
#[derive(Debug, Clone, Copy)]
enum Wanted<'a> {
    /// Entries after an id.
    Behind(StreamId),
    /// `>`: entries that the group has not delivered yet.
    Undelivered(Reader<'a>),
    /// The consumer's pending entries after an id.
    History(Reader<'a>, StreamId),
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
fn without_dollar(args: &[&[u8]], request: &Request<'_>, wanted: &[Wanted<'_>]) -> Vec<Vec<u8>> {
    let ids_at = args.len() - request.ids.len();
    let mut words: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_vec()).collect();
    for (word, from) in words[ids_at..].iter_mut().zip(wanted) {
        if let Wanted::Behind(id) = from {
            *word = id.text().as_bytes().to_vec();
        }
    }
    words
}

/// Resolves what is wanted from each stream; refuses keys of another type and groups that do not
/// exist.
fn resolve<'a>(ctx: &mut Ctx<'_>, request: &Request<'a>) -> Result<Vec<Wanted<'a>>, Error> {
    let mut wanted = Vec::with_capacity(request.keys.len());
    for (key, id) in request.keys.iter().zip(request.ids) {
        let stream = ctx.get::<Stream>(key)?;
        let Some(reader) = request.reader else {
            wanted.push(Wanted::Behind(match *id {
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
            b">" => Wanted::Undelivered(reader),
            id => match parse_id(id)? {
                // Redis: the greatest id stands for `>`.
                StreamId::MAX => Wanted::Undelivered(reader),
                id => Wanted::History(reader, id),
            },
        });
    }
    Ok(wanted)
}

/// Answers with all streams that have entries. Returns `true` if any had.
fn first_try(
    ctx: &mut Ctx<'_>,
    request: &Request<'_>,
    wanted: &[Wanted<'_>],
    reply: &mut Reply,
) -> Result<bool, Error> {
    let mark = reply.defer();
    let mut answered = 0;
    for (key, wanted) in request.keys.iter().zip(wanted) {
        let Some(stream) = ctx.get::<Stream>(key)? else {
            continue;
        };
        let has = match wanted {
            Wanted::History(..) => true,
            Wanted::Behind(id) => stream.log.last_live_id() > Some(*id),
            Wanted::Undelivered(reader) => {
                let group = stream.groups.get(reader.group);
                group.is_some_and(|group| stream.log.last_live_id() > Some(group.last_id()))
            }
        };
        if has {
            serve(ctx, key, *wanted, request.count, reply)?;
            answered += 1;
        }
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

/// Retries after a wait: answers with the stream that has grown, or goes on waiting.
fn retry(ctx: &mut Ctx<'_>, args: &[&[u8]], request: &Request<'_>, reply: &mut Reply) -> Done {
    let count = if request.count == 0 { DEFAULT_COUNT_AFTER_WAIT } else { request.count };
    for (key, id) in request.keys.iter().zip(request.ids) {
        if !ctx.may_serve(key) {
            continue;
        }
        let stream = ctx.peek(key).and_then(|entry| Stream::of(entry.value()));
        let (newest, seen, wanted) = match (stream, request.reader) {
            (None, None) => continue,
            (None, Some(_)) => {
                return Err(Error::fixed("UNBLOCKED the stream key no longer exists"));
            }
            (Some(stream), None) => {
                let id = parse_id(id)?;
                (stream.log.last_id(), id, Wanted::Behind(id))
            }
            (Some(stream), Some(reader)) => {
                let group = stream.groups.get(reader.group).ok_or(Error::fixed(
                    "NOGROUP the consumer group this client was blocked on no longer exists",
                ))?;
                (stream.log.last_id(), group.last_id(), Wanted::Undelivered(reader))
            }
        };
        if newest <= seen {
            continue;
        }
        if reply.is_resp3() {
            reply.map(1);
        } else {
            reply.array(1);
        }
        return serve(ctx, key, wanted, count, reply);
    }
    ctx.park_on_keys(request.keys, args, request.block_ms.unwrap_or(0));
    Ok(())
}

/// Writes one stream's part of the answer: its name and the entries.
fn serve(ctx: &mut Ctx<'_>, key: &[u8], wanted: Wanted<'_>, count: i64, reply: &mut Reply) -> Done {
    if !reply.is_resp3() {
        reply.array(2);
    }
    reply.bulk(key);
    match wanted {
        Wanted::Behind(id) => {
            let stream = ctx.get::<Stream>(key)?.expect("the caller just met this stream");
            let start = id.next().unwrap_or(StreamId::MIN);
            write_entries(reply, stream.log.range(start, StreamId::MAX).take(limit(count)));
            Ok(())
        }
        Wanted::Undelivered(reader) => deliver::undelivered(ctx, reader, key, limit(count), reply),
        Wanted::History(reader, id) => deliver::history(ctx, reader, key, id, limit(count), reply),
    }
}
