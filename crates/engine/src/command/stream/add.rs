//! XADD, XDEL, XTRIM, XSETID and XLEN: what changes the entries of a stream.

use smallvec::SmallVec;

use super::trim::{self, Command, Trim};
use super::{parse_id, parse_ids, write_id};
use crate::args::{int, is};
use crate::ctx::{Caller, Ctx};
use crate::error::{Done, Error};
use crate::notify::Classes;
use crate::resp::Reply;
use crate::value::stream::{AppendError, IdSpec, NodeLimits, Stream, StreamId};

/// XADD key [NOMKSTREAM] [MAXLEN|MINID [=|~] threshold [LIMIT n]] *|id field value [field value …]
pub(in crate::command) fn xadd(ctx: &mut Ctx<'_>, args: &[&[u8]], reply: &mut Reply) -> Done {
    let limits = node_limits(ctx);
    let options = trim::parse(args, Command::Add, limits.entries)?;
    let (spec, id_at) = options.id.ok_or_else(|| Error::arity("xadd"))?;
    let fields = &args[id_at + 1..];
    if fields.is_empty() || !fields.len().is_multiple_of(2) {
        return Err(Error::arity("xadd"));
    }
    if spec == IdSpec::Exact(StreamId::MIN) {
        return Err(Error::fixed("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let key = args[1];
    if options.must_exist && !ctx.exists(key) {
        reply.null();
        return Ok(());
    }

    let (now, logging) = (ctx.now.max(0) as u64, ctx.engine.logging);
    let mut stream = ctx.edit_or_new(key, Stream::new)?;
    let log = &mut stream.log;
    if log.last_id() == StreamId::MAX {
        return Err(Error::fixed(
            "ERR The stream has exhausted the last possible ID, unable to add more items",
        ));
    }
    let pairs = fields.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    let id = log.resolve(spec, now).map_err(refusal)?;
    log.append(id, pairs, limits).map_err(refusal)?;
    let trimmed = options.trim.map_or(0, |trim| log.trim(trim.keep, trim.precision));
    let outcome = options.trim.filter(|_| logging).map(|trim| trim.outcome(log));
    drop(stream);

    write_id(reply, id);
    ctx.wrote(key, Classes::STREAM, "xadd");
    if trimmed > 0 {
        ctx.notify(Classes::STREAM, "xtrim", key);
    }
    let replays =
        matches!(spec, IdSpec::Exact(_)) && !options.trim.is_some_and(Trim::is_approximate);
    if !replays {
        let id = id.text();
        let mut words: SmallVec<[&[u8]; 16]> = SmallVec::new();
        words.extend([&b"XADD"[..], key]);
        if let Some((strategy, threshold)) = &outcome {
            words.extend([*strategy, b"=", threshold.as_bytes()]);
        }
        words.push(id.as_bytes());
        words.extend_from_slice(fields);
        ctx.rewrite(&words);
    }
    Ok(())
}

fn refusal(error: AppendError) -> Error {
    Error::fixed(match error {
        AppendError::NotGreater => {
            "ERR The ID specified in XADD is equal or smaller than the target stream top item"
        }
        // Redis: 7.0 answers the same when a millisecond has no sequence left.
        AppendError::TooLarge | AppendError::SequenceExhausted => {
            "ERR Elements are too large to be stored"
        }
    })
}

fn node_limits(ctx: &Ctx<'_>) -> NodeLimits {
    let settings = &ctx.engine.settings;
    NodeLimits { entries: settings.stream_node_max_entries, bytes: settings.stream_node_max_bytes }
}

/// XDEL key id [id …]
pub(in crate::command) fn xdel(ctx: &mut Ctx<'_>, args: &[&[u8]], reply: &mut Reply) -> Done {
    let key = args[1];
    let Some(mut stream) = ctx.edit::<Stream>(key)? else {
        reply.int(0);
        return Ok(());
    };
    let ids = parse_ids(&args[2..])?;
    let deleted = ids.iter().filter(|id| stream.log.delete(**id)).count();
    drop(stream);
    if deleted > 0 {
        ctx.touched(key);
        ctx.notify(Classes::STREAM, "xdel", key);
        ctx.dirty(deleted as u64);
    }
    reply.count(deleted);
    Ok(())
}

/// XTRIM key MAXLEN|MINID [=|~] threshold [LIMIT n]
pub(in crate::command) fn xtrim(ctx: &mut Ctx<'_>, args: &[&[u8]], reply: &mut Reply) -> Done {
    let options = trim::parse(args, Command::Trim, node_limits(ctx).entries)?;
    let trim = options.trim.expect("without a strategy parsing refuses XTRIM");
    let key = args[1];
    let Some(mut stream) = ctx.edit::<Stream>(key)? else {
        reply.int(0);
        return Ok(());
    };
    let removed = stream.log.trim(trim.keep, trim.precision);
    let outcome = trim.outcome(&stream.log);
    drop(stream);
    if removed > 0 {
        ctx.notify(Classes::STREAM, "xtrim", key);
        ctx.touched(key);
        ctx.dirty(removed);
        if trim.is_approximate() {
            let (strategy, threshold) = outcome;
            ctx.rewrite(&[b"XTRIM", key, strategy, b"=", threshold.as_bytes()]);
        }
    }
    reply.int(removed as i64);
    Ok(())
}

/// XSETID key last-id [ENTRIESADDED n] [MAXDELETEDID id]
pub(in crate::command) fn xsetid(ctx: &mut Ctx<'_>, args: &[&[u8]], reply: &mut Reply) -> Done {
    let id = parse_id(args[2])?;
    let mut added = None;
    let mut max_deleted = StreamId::MIN;
    let mut rest = &args[3..];
    while let [option, value, after @ ..] = rest {
        if is(option, "entriesadded") {
            let n = u64::try_from(int(value)?)
                .map_err(|_| Error::fixed("ERR entries_added must be positive"))?;
            added = Some(n);
        } else if is(option, "maxdeletedid") {
            max_deleted = parse_id(value)?;
            // A replayed log is trusted: XSETID on an empty stream may have gone below the
            // tombstone.
            if id < max_deleted && ctx.caller != Caller::Replay {
                return Err(Error::fixed(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
        } else {
            return Err(Error::SYNTAX);
        }
        rest = after;
    }
    if !rest.is_empty() {
        return Err(Error::SYNTAX);
    }

    let key = args[1];
    let mut stream = ctx.edit::<Stream>(key)?.ok_or(Error::NO_SUCH_KEY)?;
    let log = &mut stream.log;
    if let Some(last) = log.last_live_id() {
        if id < last {
            return Err(Error::fixed(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if added.is_some_and(|added| added < log.len()) {
            return Err(Error::fixed(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
    }
    log.set_counters(id, added, (!max_deleted.is_zero()).then_some(max_deleted));
    drop(stream);
    reply.ok();
    ctx.notify(Classes::STREAM, "xsetid", key);
    ctx.dirty(1);
    Ok(())
}

/// XLEN key
pub(in crate::command) fn xlen(ctx: &mut Ctx<'_>, args: &[&[u8]], reply: &mut Reply) -> Done {
    let len = ctx.get::<Stream>(args[1])?.map_or(0, Stream::len);
    reply.count(len);
    Ok(())
}
