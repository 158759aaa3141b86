//! EVAL and SCRIPT: what is checked before an interpreter is needed.

use crate::args::is;
use crate::ctx::{Caller, Ctx};
use crate::engine::scripting::Leave;
use crate::error::{Done, Error, printable};
use crate::number::parse_i64;
use crate::resp::Reply;
use crate::script::shebang::ScriptFlags;
use crate::script::{Request, RunKind, Script, Sha, Work, hex_sha1};

use super::help;

const NO_SCRIPT: Error = Error::fixed("NOSCRIPT No matching script. Please use EVAL.");

/// Whether the command promises not to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    ReadWrite,
    ReadOnly,
}

pub(super) fn eval(cx: &mut Ctx<'_>, a: &[&[u8]], _: &mut Reply) -> Done {
    run_source(cx, a, Access::ReadWrite)
}

pub(super) fn eval_ro(cx: &mut Ctx<'_>, a: &[&[u8]], _: &mut Reply) -> Done {
    run_source(cx, a, Access::ReadOnly)
}

pub(super) fn evalsha(cx: &mut Ctx<'_>, a: &[&[u8]], _: &mut Reply) -> Done {
    run_known(cx, a, Access::ReadWrite)
}

pub(super) fn evalsha_ro(cx: &mut Ctx<'_>, a: &[&[u8]], _: &mut Reply) -> Done {
    run_known(cx, a, Access::ReadOnly)
}

fn run_source(cx: &mut Ctx<'_>, a: &[&[u8]], access: Access) -> Done {
    let keys = key_count(a, Error::NOT_INTEGER)?;
    let sha = hex_sha1(a[1]);
    let script = match cx.engine.scripts.by_sha.get(&sha) {
        Some(script) => script.clone(),
        None => Script::read(a[1]).map_err(|text| refusal(&text))?,
    };
    start(cx, a, keys, sha, script, access)
}

fn run_known(cx: &mut Ctx<'_>, a: &[&[u8]], access: Access) -> Done {
    let Ok(mut sha) = Sha::try_from(a[1]) else { return Err(NO_SCRIPT) };
    let keys = key_count(a, Error::NOT_INTEGER)?;
    sha.make_ascii_lowercase();
    let script = cx.engine.scripts.by_sha.get(&sha).cloned().ok_or(NO_SCRIPT)?;
    start(cx, a, keys, sha, script, access)
}

fn start(
    cx: &mut Ctx<'_>,
    a: &[&[u8]],
    keys: usize,
    sha: Sha,
    script: Script,
    access: Access,
) -> Done {
    let leave = leave_to_run(cx, script.flags, access)?;
    let generation = cx.engine.scripts.generation;
    cx.start_script(Work::Eval { generation, sha, script }, Request::new(a, keys), leave);
    Ok(())
}

/// An error of the interpreter's side, as a reply.
pub(super) fn refusal(text: &[u8]) -> Error {
    Error::new(format!("ERR {}", printable(text, usize::MAX)))
}

/// How many keys the request names.
pub(super) fn key_count(a: &[&[u8]], not_a_number: Error) -> Result<usize, Error> {
    let count = parse_i64(a[2]).ok_or(not_a_number)?;
    if count > (a.len() - 3) as i64 {
        return Err(Error::fixed("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(count).map_err(|_| Error::fixed("ERR Number of keys can't be negative"))
}

/// Decides what a script may do, by its flags and by how it is called; without flags (`None`)
/// nothing is known before it runs.
pub(super) fn leave_to_run(
    cx: &mut Ctx<'_>,
    flags: Option<ScriptFlags>,
    access: Access,
) -> Result<Leave, Error> {
    if cx.caller == Caller::Replay {
        return Err(Error::fixed("ERR Scripts are not replayed, their effects are"));
    }
    let out_of_memory = cx.engine.settings.maxmemory > 0 && !cx.engine.make_room();
    let Some(flags) = flags else {
        return Ok(Leave { read_only: access == Access::ReadOnly, out_of_memory });
    };
    let writes = !flags.contains(ScriptFlags::NO_WRITES);
    if writes {
        if let Some(text) = &cx.engine.refuse_writes {
            return Err(Error::new(text.clone()));
        }
        if access == Access::ReadOnly {
            return Err(Error::fixed(
                "ERR Can not execute a script with write flag using *_ro command.",
            ));
        }
    }
    let allow_oom = flags.contains(ScriptFlags::ALLOW_OOM);
    if out_of_memory && writes && !allow_oom {
        return Err(match cx.caller {
            Caller::Transaction => Error::fixed(
                "OOM allow-oom flag is not set on the script, \
                 can not run it when used memory > 'maxmemory'",
            ),
            _ => Error::OOM,
        });
    }
    let read_only = access == Access::ReadOnly || !writes;
    Ok(Leave { read_only, out_of_memory: out_of_memory && !allow_oom })
}

pub(super) fn script_load(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let sha = hex_sha1(a[2]);
    if cx.engine.scripts.by_sha.contains_key(&sha) {
        out.bulk(&sha);
        return Ok(());
    }
    let script = Script::read(a[2]).map_err(|text| refusal(&text))?;
    let generation = cx.engine.scripts.generation;
    cx.start_script(
        Work::Compile { generation, sha, script },
        Request::new(a, 0),
        Leave::default(),
    );
    Ok(())
}

pub(super) fn script_exists(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    out.array(a.len() - 2);
    for sha in &a[2..] {
        let known = Sha::try_from(sha.to_ascii_lowercase())
            .is_ok_and(|sha| cx.engine.scripts.by_sha.contains_key(&sha));
        out.int(i64::from(known));
    }
    Ok(())
}

pub(super) fn script_flush(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    if !is_flush_mode(&a[2..]) {
        return Err(Error::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    cx.engine.scripts.flush_scripts();
    out.ok();
    Ok(())
}

/// Whether these are the options of a FLUSH subcommand: nothing, SYNC or ASYNC.
pub(super) fn is_flush_mode(options: &[&[u8]]) -> bool {
    match options {
        [] => true,
        [mode] => is(mode, "sync") || is(mode, "async"),
        _ => false,
    }
}

pub(super) fn script_kill(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    kill(cx, |kind| !matches!(kind, RunKind::Function(..)), out)
}

/// Ends the script that runs now, if it is of the `right_kind` and has written nothing.
pub(super) fn kill(
    cx: &mut Ctx<'_>,
    right_kind: impl FnOnce(&RunKind) -> bool,
    out: &mut Reply,
) -> Done {
    let Some(script) = &mut cx.engine.script else {
        return Err(Error::fixed("NOTBUSY No scripts in execution right now."));
    };
    if script.wrote {
        return Err(Error::fixed(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. \
             You can either wait the script termination or kill the server in a hard way using \
             the SHUTDOWN NOSAVE command.",
        ));
    }
    if !right_kind(&script.kind) {
        return Err(script.busy_error());
    }
    script.killed = true;
    out.ok();
    Ok(())
}

pub(super) fn script_debug(_: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    if is(a[2], "no") {
        out.ok();
        return Ok(());
    }
    if is(a[2], "yes") || is(a[2], "sync") {
        // Limit: there is no step-by-step debugger.
        return Err(Error::fixed("ERR the script debugger is not supported"));
    }
    Err(Error::fixed("ERR Use SCRIPT DEBUG YES/SYNC/NO"))
}

pub(super) fn script_help(_: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    help::reply("SCRIPT", help::SCRIPT, out);
    Ok(())
}
