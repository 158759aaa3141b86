//! FUNCTION and FCALL: libraries of functions.

use crate::args::is;
use crate::ctx::{Caller, Ctx};
use crate::engine::scripting::Leave;
use crate::error::{Done, Error, printable};
use crate::glob;
use crate::resp::Reply;
use crate::script::shebang::library_header;
use crate::script::{Library, RegisteredFunction, Request, RunKind, Work};

use super::help;
use super::script::{Access, is_flush_mode, key_count, kill, leave_to_run, refusal};

pub(super) fn fcall(cx: &mut Ctx<'_>, a: &[&[u8]], _: &mut Reply) -> Done {
    call(cx, a, Access::ReadWrite)
}

pub(super) fn fcall_ro(cx: &mut Ctx<'_>, a: &[&[u8]], _: &mut Reply) -> Done {
    call(cx, a, Access::ReadOnly)
}

fn call(cx: &mut Ctx<'_>, a: &[&[u8]], access: Access) -> Done {
    const NOT_FOUND: Error = Error::fixed("ERR Function not found");
    let library = cx.engine.scripts.library_of(a[1]).ok_or(NOT_FOUND)?;
    let function = library.function(a[1]).ok_or(NOT_FOUND)?;
    let flags = function.flags;
    let work = Work::CallFunction {
        generation: cx.engine.scripts.library_generation,
        id: library.id,
        source: library.source.clone(),
        code_at: library.code_at,
        function: function.name.clone(),
    };
    let keys = key_count(a, Error::fixed("ERR Bad number of keys provided"))?;
    let leave = leave_to_run(cx, Some(flags), access)?;
    cx.start_script(work, Request::new(a, keys), leave);
    Ok(())
}

pub(super) fn function_load(cx: &mut Ctx<'_>, a: &[&[u8]], _: &mut Reply) -> Done {
    let (options, source) = (&a[2..a.len() - 1], a[a.len() - 1]);
    let mut replace = false;
    for option in options {
        if !is(option, "replace") {
            return Err(Error::new(format!(
                "ERR Unknown option given: {}",
                printable(option, usize::MAX)
            )));
        }
        replace = true;
    }
    let header = library_header(source).map_err(|text| refusal(&text))?;
    let store = &mut cx.engine.scripts;
    if !replace && store.libraries.contains_key(&header.name) {
        let name = String::from_utf8_lossy(&header.name);
        return Err(Error::new(format!("ERR Library '{name}' already exists")));
    }
    let work = Work::LoadLibrary {
        generation: store.library_generation,
        id: store.new_library_id(),
        name: header.name,
        source: source.into(),
        code_at: header.code_at,
    };
    cx.start_script(work, Request::new(a, 0), Leave::default());
    Ok(())
}

pub(super) fn function_delete(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let deleted = cx.engine.scripts.delete_library(a[2]);
    // A rewritten log may repeat the deletion.
    if !deleted && cx.caller != Caller::Replay {
        return Err(Error::fixed("ERR Library not found"));
    }
    cx.dirty(1);
    out.ok();
    Ok(())
}

pub(super) fn function_flush(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    if a.len() > 3 {
        return Err(Error::new(format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try FUNCTION HELP.",
            printable(a[1], 128)
        )));
    }
    if !is_flush_mode(&a[2..]) {
        return Err(Error::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    cx.engine.scripts.flush_libraries();
    cx.dirty(1);
    out.ok();
    Ok(())
}

pub(super) fn function_list(cx: &mut Ctx<'_>, a: &[&[u8]], out: &mut Reply) -> Done {
    let mut with_code = false;
    let mut pattern: Option<&[u8]> = None;
    let mut rest = a[2..].iter();
    while let Some(option) = rest.next() {
        if !with_code && is(option, "withcode") {
            with_code = true;
        } else if pattern.is_none() && is(option, "libraryname") {
            let name = rest.next();
            pattern = Some(name.ok_or(Error::fixed("ERR library name argument was not given"))?);
        } else {
            return Err(Error::new(format!("ERR Unknown argument {}", printable(option, 128))));
        }
    }
    let wanted = |name: &[u8]| {
        pattern.is_none_or(|pattern| glob::matches(pattern, name, glob::Case::Insensitive))
    };
    let libraries = &cx.engine.scripts.libraries;
    let shown: Vec<_> = libraries.iter().filter(|(name, _)| wanted(name)).collect();
    out.array(shown.len());
    for (name, library) in shown {
        out.map(if with_code { 4 } else { 3 });
        out.bulk(b"library_name");
        out.bulk(name);
        out.bulk(b"engine");
        out.bulk(b"LUA");
        list_functions(library, out);
        if with_code {
            out.bulk(b"library_code");
            out.bulk(&library.source);
        }
    }
    Ok(())
}

fn list_functions(library: &Library, out: &mut Reply) {
    out.bulk(b"functions");
    out.array(library.functions.len());
    for RegisteredFunction { name, description, flags } in &library.functions {
        out.map(3);
        out.bulk(b"name");
        out.bulk(name);
        out.bulk(b"description");
        match description {
            Some(text) => out.bulk(text),
            None => out.null(),
        }
        out.bulk(b"flags");
        out.set(flags.names().count());
        for flag in flags.names() {
            out.simple(flag);
        }
    }
}

pub(super) fn function_stats(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    let engine = &*cx.engine;
    if let Some(script) = &engine.script
        && matches!(script.kind, RunKind::Script)
    {
        return Err(script.busy_error());
    }
    out.map(2);
    out.bulk(b"running_script");
    match &engine.script {
        Some(script) if let RunKind::Function(name, request) = &script.kind => {
            let nanos = engine.clock.monotonic_nanos().saturating_sub(script.started_nanos);
            out.map(3);
            out.bulk(b"name");
            out.bulk(name);
            out.bulk(b"command");
            out.array(request.args.len());
            request.args.iter().for_each(|arg| out.bulk(arg));
            out.bulk(b"duration_ms");
            out.int((nanos / 1_000_000) as i64);
        }
        _ => out.null(),
    }
    out.bulk(b"engines");
    out.map(1);
    out.bulk(b"LUA");
    out.map(2);
    out.bulk(b"libraries_count");
    out.int(engine.scripts.libraries.len() as i64);
    out.bulk(b"functions_count");
    out.int(engine.scripts.function_count() as i64);
    Ok(())
}

pub(super) fn function_kill(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    kill(cx, |kind| matches!(kind, RunKind::Function(..)), out)
}

pub(super) fn function_help(_: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    help::reply("FUNCTION", help::FUNCTION, out);
    Ok(())
}
