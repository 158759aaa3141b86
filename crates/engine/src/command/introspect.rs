//! COMMAND: the table as clients see it.

use super::find_keys::{FoundKey, find_keys};
use super::index::{CommandRef, Listed};
use super::spec::{Begin, Command, Find, Group, KeySpec, access, flag};
use crate::args::is;
use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::glob::{self, Case};
use crate::resp::Reply;

pub(super) fn command(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    let all: Vec<&Listed> = top_level(cx).collect();
    out.array(all.len());
    for listed in all {
        describe(listed.spec, listed.full_name, listed.group, out);
    }
    Ok(())
}

fn top_level<'a>(cx: &'a Ctx<'_>) -> impl Iterator<Item = &'a Listed> {
    let list = cx.engine.index.list();
    list.iter().enumerate().filter(|(i, c)| c.parent as usize == *i).map(|(_, c)| c)
}

pub(super) fn command_count(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    let count = top_level(cx).count();
    out.count(count);
    Ok(())
}

/// `get` or `config|get`, as the subcommands of COMMAND take it.
fn by_text(cx: &Ctx<'_>, name: &[u8]) -> Option<CommandRef> {
    let mut parts = name.splitn(2, |b| *b == b'|');
    let first = parts.next()?;
    cx.engine.index.by_full_name(first, parts.next())
}

pub(super) fn command_info(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    if a.len() == 2 {
        return command(cx, a, out);
    }
    out.array(a.len() - 2);
    for name in &a[2..] {
        match by_text(cx, name) {
            Some(command) => {
                let listed = cx.engine.index.listed(command);
                describe(listed.spec, listed.full_name, listed.group, out);
            }
            None => out.null(),
        }
    }
    Ok(())
}

pub(super) fn command_docs(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let wanted: Vec<&Listed> = if a.len() == 2 {
        top_level(cx).collect()
    } else {
        let index = &cx.engine.index;
        a[2..].iter().filter_map(|name| by_text(cx, name)).map(|c| index.listed(c)).collect()
    };
    out.map(wanted.len());
    for listed in wanted {
        out.bulk(listed.full_name.as_bytes());
        document(listed.spec, listed.full_name, listed.group, out);
    }
    Ok(())
}

fn document(spec: &Command, full_name: &str, group: Group, out: &mut Reply) {
    out.map(2 + usize::from(!spec.subs.is_empty()));
    out.bulk(b"since");
    out.bulk(spec.since.as_bytes());
    out.bulk(b"group");
    out.bulk(group.name().as_bytes());
    if !spec.subs.is_empty() {
        out.bulk(b"subcommands");
        out.map(spec.subs.len());
        for sub in spec.subs {
            let name = format!("{full_name}|{}", sub.name);
            out.bulk(name.as_bytes());
            document(sub, &name, group, out);
        }
    }
}

/// The request that follows the subcommand, with its command.
fn inner<'a, 'b>(cx: &Ctx<'_>, a: &'a [&'b [u8]]) -> Result<(CommandRef, &'a [&'b [u8]]), Error> {
    let args = &a[2..];
    let index = &cx.engine.index;
    let command = index
        .by_name(args[0])
        .and_then(|command| match args.get(1) {
            Some(sub) if !command.subs.is_empty() => index.by_full_name(args[0], Some(sub)),
            _ => Some(command),
        })
        .ok_or(Error::fixed("ERR Invalid command specified"))?;
    // A sharded channel has the place of a key, but is none.
    if command.keys.iter().all(|spec| spec.access & access::NOT_KEY != 0) {
        return Err(Error::fixed("ERR The command has no key arguments"));
    }
    if !command.accepts(args.len()) {
        return Err(Error::fixed("ERR Invalid number of arguments specified for command"));
    }
    Ok((command, args))
}

const NO_KEYS_FOUND: Error = Error::fixed("ERR Invalid arguments specified for command");

/// Returns the keys of the request that follows; it must have some unless its command can run
/// without keys.
fn inner_keys(command: CommandRef, args: &[&[u8]]) -> Result<Vec<FoundKey>, Error> {
    let keys = find_keys(command, args).unwrap_or_default();
    if keys.is_empty() && !command.has(flag::NO_MANDATORY_KEYS) {
        return Err(NO_KEYS_FOUND);
    }
    Ok(keys)
}

pub(super) fn command_getkeys(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let (command, args) = inner(cx, a)?;
    let keys = inner_keys(command, args)?;
    out.array(keys.len());
    for key in keys {
        out.bulk(args[key.at]);
    }
    Ok(())
}

pub(super) fn command_getkeysandflags(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let (command, args) = inner(cx, a)?;
    let keys = inner_keys(command, args)?;
    out.array(keys.len());
    for key in keys {
        out.array(2);
        out.bulk(args[key.at]);
        let access = variable_access(command, args).unwrap_or(key.access);
        access_names(access, out);
    }
    Ok(())
}

/// What SET and BITFIELD do with their key depends on their options.
fn variable_access(command: CommandRef, args: &[&[u8]]) -> Option<u32> {
    if !command.keys.iter().any(|spec| spec.access & access::VARIABLE != 0) {
        return None;
    }
    match command.name {
        "set" => Some(if args[3..].iter().any(|word| is(word, "get")) {
            access::RW | access::ACCESS | access::UPDATE
        } else {
            access::OW | access::UPDATE
        }),
        "bitfield" => Some(if args[2..].iter().any(|word| is(word, "set") || is(word, "incrby")) {
            access::RW | access::ACCESS | access::UPDATE
        } else {
            access::RO | access::ACCESS
        }),
        _ => None,
    }
}

pub(super) fn command_list(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    type Test<'t> = Box<dyn Fn(&Listed) -> bool + 't>;
    let test: Test<'_> = match &a[2..] {
        [] => Box::new(|_| true),
        [word, kind, value] if is(word, "filterby") => {
            let value = *value;
            if is(kind, "module") {
                Box::new(|_| false)
            } else if is(kind, "aclcat") {
                Box::new(move |c| {
                    let wanted = String::from_utf8_lossy(value).to_ascii_lowercase();
                    categories(c.spec, c.group).iter().any(|name| *name == wanted)
                })
            } else if is(kind, "pattern") {
                Box::new(|c| glob::matches(value, c.full_name.as_bytes(), Case::Insensitive))
            } else {
                return Err(Error::SYNTAX);
            }
        }
        _ => return Err(Error::SYNTAX),
    };
    let names: Vec<&str> =
        cx.engine.index.list().iter().filter(|c| test(c)).map(|c| c.full_name).collect();
    out.array(names.len());
    for name in names {
        out.bulk(name.as_bytes());
    }
    Ok(())
}

pub(super) fn command_help(_: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    super::help::reply("COMMAND", super::help::COMMAND, out);
    Ok(())
}

// ---- the shape of one command in COMMAND's reply ----------------------------------------------

fn describe(spec: &Command, full_name: &str, group: Group, out: &mut Reply) {
    out.array(10);
    out.bulk(full_name.as_bytes());
    out.int(i64::from(spec.arity));
    let movable = is_movable(spec);
    let flags: Vec<&str> = flag::NAMES
        .iter()
        .filter(|(bit, _)| spec.has(*bit))
        .map(|(_, name)| *name)
        .chain(movable.then_some("movablekeys"))
        .collect();
    out.set(flags.len());
    flags.iter().for_each(|name| out.simple(name));
    let (first, last, step) = old_key_range(spec);
    out.int(first);
    out.int(last);
    out.int(step);
    let categories = categories(spec, group);
    out.set(categories.len());
    categories.iter().for_each(|name| out.simple(&format!("@{name}")));
    out.array(0);
    out.array(spec.keys.len());
    spec.keys.iter().for_each(|key| describe_keys(key, out));
    out.array(spec.subs.len());
    for sub in spec.subs {
        describe(sub, &format!("{full_name}|{}", sub.name), group, out);
    }
}

fn is_simple(spec: &KeySpec) -> bool {
    matches!((spec.begin, spec.find), (Begin::Index(_), Find::Range { .. }))
}

fn is_movable(spec: &Command) -> bool {
    spec.keys.iter().any(|key| !is_simple(key))
}

/// First key, last key and step, as Redis reported them before there were key specifications.
fn old_key_range(spec: &Command) -> (i64, i64, i64) {
    let mut first = i64::MAX;
    let mut last = 0;
    let mut only_step = 1;
    for key in spec.keys.iter().filter(|key| is_simple(key)) {
        let (Begin::Index(at), Find::Range { last: to, step, .. }) = (key.begin, key.find) else {
            continue;
        };
        if key.access & access::NOT_KEY != 0 {
            continue;
        }
        if first == i64::MAX {
            only_step = step as i64;
        }
        first = first.min(at as i64);
        let to = if to >= 0 { (at as i64) + to as i64 } else { to as i64 };
        last = if to < 0 || last < 0 { to.min(last) } else { to.max(last) };
    }
    if first == i64::MAX { (0, 0, 0) } else { (first, last, only_step) }
}

/// Every ACL category in the order in which Redis lists them.
const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// The ACL categories of a command, without `@`.
fn categories(spec: &Command, group: Group) -> Vec<&'static str> {
    let mut names = Vec::new();
    let scripting = group == Group::Scripting;
    let admin_like = matches!(spec.name, "lastsave" | "role");
    if spec.has(flag::WRITE) {
        names.push("write");
    }
    if spec.has(flag::READONLY) && !scripting {
        names.push("read");
    }
    if spec.has(flag::ADMIN) || admin_like {
        names.push("admin");
        names.push("dangerous");
    } else if spec.has(flag::DANGEROUS) {
        names.push("dangerous");
    }
    names.push(if spec.has(flag::FAST) { "fast" } else { "slow" });
    if spec.has(flag::PUBSUB) {
        names.push("pubsub");
    }
    if spec.has(flag::BLOCKING) {
        names.push("blocking");
    }
    if spec.subs.is_empty() {
        match group {
            Group::String => names.push("string"),
            Group::List => names.push("list"),
            Group::Set => names.push("set"),
            Group::Hash => names.push("hash"),
            Group::SortedSet => names.push("sortedset"),
            Group::Stream => names.push("stream"),
            Group::Geo => names.push("geo"),
            Group::Bitmap => names.push("bitmap"),
            Group::HyperLogLog => names.push("hyperloglog"),
            Group::Transactions => names.push("transaction"),
            Group::Scripting => names.push("scripting"),
            Group::Connection => names.push("connection"),
            Group::Generic if spec.name.starts_with("sort") => {
                names.extend(["set", "sortedset", "list"]);
            }
            Group::Generic if spec.name == "wait" => names.push("connection"),
            Group::Generic => names.push("keyspace"),
            Group::Server if matches!(spec.name, "flushall" | "flushdb" | "swapdb" | "dbsize") => {
                names.push("keyspace");
            }
            Group::PubSub | Group::Server | Group::Cluster => {}
        }
    }
    names.sort_by_key(|name| CATEGORIES.iter().position(|listed| listed == name));
    names
}

fn access_names(bits: u32, out: &mut Reply) {
    let names: Vec<&str> =
        access::NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    out.set(names.len());
    names.iter().for_each(|name| out.simple(name));
}

fn describe_keys(spec: &KeySpec, out: &mut Reply) {
    let number = |name: &str, n: i64, out: &mut Reply| {
        out.bulk(name.as_bytes());
        out.int(n);
    };
    out.map(3);
    out.bulk(b"flags");
    access_names(spec.access, out);
    out.bulk(b"begin_search");
    out.map(2);
    out.bulk(b"type");
    match spec.begin {
        Begin::Index(at) => {
            out.bulk(b"index");
            out.bulk(b"spec");
            out.map(1);
            number("index", at as i64, out);
        }
        Begin::Keyword(word, from) => {
            out.bulk(b"keyword");
            out.bulk(b"spec");
            out.map(2);
            out.bulk(b"keyword");
            out.bulk(word.as_bytes());
            number("startfrom", from as i64, out);
        }
        Begin::Unknown => {
            out.bulk(b"unknown");
            out.bulk(b"spec");
            out.map(0);
        }
    }
    out.bulk(b"find_keys");
    out.map(2);
    out.bulk(b"type");
    match spec.find {
        Find::Range { last, step, limit } => {
            out.bulk(b"range");
            out.bulk(b"spec");
            out.map(3);
            number("lastkey", last as i64, out);
            number("keystep", step as i64, out);
            number("limit", limit as i64, out);
        }
        Find::Counted => {
            out.bulk(b"keynum");
            out.bulk(b"spec");
            out.map(3);
            number("keynumidx", 0, out);
            number("firstkey", 1, out);
            number("keystep", 1, out);
        }
        Find::Unknown => {
            out.bulk(b"unknown");
            out.bulk(b"spec");
            out.map(0);
        }
    }
}
