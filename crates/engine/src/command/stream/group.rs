//! XGROUP and XACK.

use super::{bad_subcommand, no_group, parse_id, parse_ids};
use crate::args::{int, is};
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::keyspace::Edit;
use crate::notify::Classes;
use crate::resp::Reply;
use crate::value::stream::{Stream, StreamId};

const NEEDS_KEY: Error = Error::fixed(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to \
     use the MKSTREAM option to create an empty stream automatically.",
);

/// What follows the id in XGROUP CREATE and SETID.
#[derive(Debug, Default)]
struct Options {
    make_stream: bool,
    entries_read: Option<i64>,
}

fn parse_options(args: &[&[u8]], creating: bool) -> Result<Options, Error> {
    let mut options = Options::default();
    let mut rest = &args[5..];
    while let [option, after @ ..] = rest {
        rest = match after {
            _ if creating && is(option, "mkstream") => {
                options.make_stream = true;
                after
            }
            [value, after @ ..] if is(option, "entriesread") => {
                options.entries_read = match int(value)? {
                    -1 => None,
                    n @ 0.. => Some(n),
                    _ => {
                        return Err(Error::fixed(
                            "ERR value for ENTRIESREAD must be positive or -1",
                        ));
                    }
                };
                after
            }
            _ => return Err(bad_subcommand(args, "XGROUP")),
        };
    }
    Ok(options)
}

/// A stream that must exist.
fn edit_existing<'c>(ctx: &'c mut Ctx<'_>, key: &[u8]) -> Result<Edit<'c, Stream>, Error> {
    ctx.edit::<Stream>(key)?.ok_or(NEEDS_KEY)
}

/// XGROUP CREATE key group id|$ [MKSTREAM] [ENTRIESREAD n]
pub(in crate::command) fn xgroup_create(
    ctx: &mut Ctx<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
) -> Done {
    const MAX_ARGS: usize = 8;
    let options = parse_options(args, true)?;
    let (key, name) = (args[2], args[3]);
    let last_id = ctx.edit::<Stream>(key)?.map(|stream| stream.log.last_id());
    if last_id.is_none() && !options.make_stream {
        return Err(NEEDS_KEY);
    }
    if args.len() > MAX_ARGS {
        return Err(bad_subcommand(args, "XGROUP"));
    }
    let start = match args[4] {
        b"$" => last_id.unwrap_or(StreamId::MIN),
        id => parse_id(id)?,
    };
    let created =
        ctx.edit_or_new(key, Stream::new)?.groups.create(name, start, options.entries_read);
    if last_id.is_none() {
        ctx.touched(key);
    }
    if !created {
        return Err(Error::fixed("BUSYGROUP Consumer Group name already exists"));
    }
    reply.ok();
    changed(ctx, key, "xgroup-create");
    Ok(())
}

/// XGROUP SETID key group id|$ [ENTRIESREAD n]
pub(in crate::command) fn xgroup_setid(
    ctx: &mut Ctx<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
) -> Done {
    let options = parse_options(args, false)?;
    let (key, name) = (args[2], args[3]);
    let mut stream = edit_existing(ctx, key)?;
    let Stream { log, groups } = &mut *stream;
    let mut group = groups.get_mut(name).ok_or_else(|| no_group(key, name))?;
    if !matches!(args.len(), 5 | 7) {
        return Err(bad_subcommand(args, "XGROUP"));
    }
    let id = match args[4] {
        b"$" => log.last_id(),
        id => StreamId::parse_bound(id, 0).ok_or(super::INVALID_ID)?,
    };
    group.set_position(id, options.entries_read);
    drop(group);
    drop(stream);
    reply.ok();
    changed(ctx, key, "xgroup-setid");
    Ok(())
}

/// XGROUP DESTROY key group
pub(in crate::command) fn xgroup_destroy(
    ctx: &mut Ctx<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
) -> Done {
    let (key, name) = (args[2], args[3]);
    let destroyed = edit_existing(ctx, key)?.groups.destroy(name);
    reply.int(i64::from(destroyed));
    if destroyed {
        changed(ctx, key, "xgroup-destroy");
        // Sessions that wait in this group learn that it is gone; watchers of the key do not.
        ctx.engine.waiting.signal(ctx.db, key);
    }
    Ok(())
}

/// XGROUP CREATECONSUMER key group consumer
pub(in crate::command) fn xgroup_createconsumer(
    ctx: &mut Ctx<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
) -> Done {
    let (key, name, consumer) = (args[2], args[3], args[4]);
    let now = ctx.now;
    let mut stream = edit_existing(ctx, key)?;
    let mut group = stream.groups.get_mut(name).ok_or_else(|| no_group(key, name))?;
    let created = group.create_consumer(consumer, now).is_some();
    drop(group);
    drop(stream);
    reply.int(i64::from(created));
    if created {
        changed(ctx, key, "xgroup-createconsumer");
    }
    Ok(())
}

/// XGROUP DELCONSUMER key group consumer
pub(in crate::command) fn xgroup_delconsumer(
    ctx: &mut Ctx<'_>,
    args: &[&[u8]],
    reply: &mut Reply,
) -> Done {
    let (key, name, consumer) = (args[2], args[3], args[4]);
    let mut stream = edit_existing(ctx, key)?;
    let mut group = stream.groups.get_mut(name).ok_or_else(|| no_group(key, name))?;
    let pending = group.delete_consumer(consumer);
    drop(group);
    drop(stream);
    if pending.is_some() {
        changed(ctx, key, "xgroup-delconsumer");
    }
    reply.count(pending.unwrap_or(0));
    Ok(())
}

/// Reports that a group changed. Watchers of the key are not affected.
fn changed(ctx: &mut Ctx<'_>, key: &[u8], event: &str) {
    ctx.notify(Classes::STREAM, event, key);
    ctx.dirty(1);
}

/// XACK key group id [id …]
pub(in crate::command) fn xack(ctx: &mut Ctx<'_>, args: &[&[u8]], reply: &mut Reply) -> Done {
    let mut acknowledged = 0;
    if let Some(mut stream) = ctx.edit::<Stream>(args[1])?
        && let Some(mut group) = stream.groups.get_mut(args[2])
    {
        let ids = parse_ids(&args[3..])?;
        acknowledged = ids.iter().filter(|id| group.acknowledge(**id).is_some()).count();
    }
    ctx.dirty(acknowledged as u64);
    reply.count(acknowledged);
    Ok(())
}

/// XGROUP HELP
pub(in crate::command) fn xgroup_help(_: &mut Ctx<'_>, _: &[&[u8]], reply: &mut Reply) -> Done {
    const LINES: [&str; 16] = [
        "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CREATE <key> <groupname> <id|$> [option]",
        "    Add a consumer group that starts behind <id>. Options:",
        "    * MKSTREAM",
        "      Make an empty stream if there is none.",
        "    * ENTRIESREAD entries_read",
        "      How many entries the group counts as read (internal use).",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Add a consumer to a group.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Remove a consumer and what it has pending.",
        "DESTROY <key> <groupname>",
        "    Remove a group.",
        "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
        "    Move a group to another position.",
        "HELP",
    ];
    reply.array(LINES.len() + 1);
    for line in LINES {
        reply.simple(line);
    }
    reply.simple("    Print this help.");
    Ok(())
}
