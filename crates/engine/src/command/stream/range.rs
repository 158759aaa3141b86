//! XRANGE and XREVRANGE.

use super::{limit, parse_end, parse_start, write_entries};
use crate::args::{int, is};
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::resp::Reply;
use crate::value::stream::Stream;

/// XRANGE key start end [COUNT n]
pub(in crate::command) fn xrange(ctx: &mut Ctx<'_>, args: &[&[u8]], reply: &mut Reply) -> Done {
    let (start, end) = (parse_start(args[2])?, parse_end(args[3])?);
    let count = parse_count(&args[4..])?;
    let Some(stream) = ctx.get::<Stream>(args[1])? else {
        reply.array(0);
        return Ok(());
    };
    match count {
        Some(0) => reply.null_array(),
        count => write_entries(reply, stream.log.range(start, end).take(limit(count.unwrap_or(0)))),
    }
    Ok(())
}

/// XREVRANGE key end start [COUNT n]
pub(in crate::command) fn xrevrange(ctx: &mut Ctx<'_>, args: &[&[u8]], reply: &mut Reply) -> Done {
    let (start, end) = (parse_start(args[3])?, parse_end(args[2])?);
    let count = parse_count(&args[4..])?;
    let Some(stream) = ctx.get::<Stream>(args[1])? else {
        reply.array(0);
        return Ok(());
    };
    match count {
        Some(0) => reply.null_array(),
        count => {
            write_entries(reply, stream.log.range_rev(start, end).take(limit(count.unwrap_or(0))));
        }
    }
    Ok(())
}

/// Parses COUNT, the last one if it is given more than once; a negative count is zero.
fn parse_count(mut args: &[&[u8]]) -> Result<Option<i64>, Error> {
    let mut count = None;
    while let [option, value, rest @ ..] = args {
        if !is(option, "count") {
            return Err(Error::SYNTAX);
        }
        count = Some(int(value)?.max(0));
        args = rest;
    }
    if args.is_empty() { Ok(count) } else { Err(Error::SYNTAX) }
}
