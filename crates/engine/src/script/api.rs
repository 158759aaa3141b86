//! The `redis` table: what scripts and functions call.
//!
//! The functions share one [`State`] with the interpreter that runs them: the
//! host of the current run, the protocol version the script asked for, and
//! whether it was killed. Outside of a run there is no host, and most of the
//! table answers that it can only be used inside a script invocation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use mlua::{Function, IntoLua, Lua, LuaString, Table, Value};
use smallvec::SmallVec;

use super::arguments::{Arguments, as_number};
use super::library::Loading;
use super::number::{Lrand48, push_general, to_i64};
use super::{LogLevel, ScriptHost, Tick, convert, fail};

/// The version of Redis that scripts are told.
const VERSION: &str = "7.0.15";
const VERSION_NUMBER: i64 = 0x0007_000f;
/// Steps of work outside of Lua code, some nanoseconds each, until the host is asked.
const STEPS_PER_TICK: u64 = 1 << 18;

/// What the functions of one interpreter share.
pub(crate) struct State {
    /// Present while a script or function runs.
    pub(crate) host: Option<Arc<dyn ScriptHost>>,
    /// Protocol version of the replies to `redis.call`.
    pub(crate) protocol: u8,
    /// The script was told to stop.
    pub(crate) killed: bool,
    /// Behind `math.random`; not reset between scripts.
    pub(crate) random: Lrand48,
    /// Present while the code of a library runs.
    pub(crate) loading: Option<Loading>,
    /// Reused for replies.
    buffer: Vec<u8>,
}

/// A handle on the [`State`] of an interpreter.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Steps of work done outside of Lua code since the host was last asked.
    spent: AtomicU64,
}

impl Shared {
    pub(crate) fn new() -> Self {
        let state = Mutex::new(State {
            host: None,
            protocol: 2,
            killed: false,
            random: Lrand48::new(),
            loading: None,
            buffer: Vec::new(),
        });
        Shared(Arc::new(Inner { state, spent: AtomicU64::new(0) }))
    }

    /// Invariant: never held across a call into Lua or the host.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no holder of the script state panics")
    }

    /// Counts work that no count hook sees; asks the host when there was enough of it.
    ///
    /// # Errors
    /// When the script is to end.
    pub(crate) fn spend(&self, steps: u64) -> mlua::Result<()> {
        let spent = self.0.spent.fetch_add(steps, Ordering::Relaxed) + steps;
        if spent < STEPS_PER_TICK { Ok(()) } else { self.ask_host() }
    }

    /// Asks the host whether the script may go on.
    ///
    /// # Errors
    /// When it is to end; the script cannot catch that.
    pub(crate) fn ask_host(&self) -> mlua::Result<()> {
        self.0.spent.store(0, Ordering::Relaxed);
        let (host, is_loading, killed) = {
            let state = self.lock();
            let loading = state.loading.as_ref().map(Loading::host);
            (state.host.clone().or(loading), state.loading.is_some(), state.killed)
        };
        if !killed && host.is_none_or(|host| host.tick() == Tick::Continue) {
            return Ok(());
        }
        self.lock().killed = true;
        Err(if is_loading { fail::reply("FUNCTION LOAD timeout") } else { fail::killed() })
    }

    fn host(&self) -> Option<Arc<dyn ScriptHost>> {
        self.lock().host.clone()
    }

    fn running(&self, function: &str) -> mlua::Result<Arc<dyn ScriptHost>> {
        self.host().ok_or_else(|| {
            fail::reply(format!("{function} can only be called inside a script invocation"))
        })
    }
}

/// Builds the table that running scripts and functions see.
pub(crate) fn create(lua: &Lua, shared: &Shared) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let state = shared.clone();
    let call = move |lua: &Lua, args: Arguments| command(lua, &state, &args, OnError::Raise);
    table.raw_set("call", lua.create_function(call)?)?;
    let state = shared.clone();
    let pcall = move |lua: &Lua, args: Arguments| command(lua, &state, &args, OnError::Return);
    table.raw_set("pcall", lua.create_function(pcall)?)?;
    add_log_and_version(lua, &table, shared)?;
    let state = shared.clone();
    let setresp = move |lua: &Lua, args: Arguments| set_protocol(lua, &state, &args);
    table.raw_set("setresp", lua.create_function(setresp)?)?;
    table.raw_set("sha1hex", plain(lua, sha1hex)?)?;
    table.raw_set("error_reply", plain(lua, error_reply)?)?;
    table.raw_set("status_reply", plain(lua, status_reply)?)?;
    add_replication(lua, &table, shared)?;
    let state = shared.clone();
    let check = move |lua: &Lua, args: Arguments| may_call(lua, &state, &args);
    table.raw_set("acl_check_cmd", lua.create_function(check)?)?;
    Ok(table)
}

/// A function that needs nothing but its arguments.
fn plain<R: IntoLua + 'static>(
    lua: &Lua,
    function: fn(&Lua, &Arguments) -> mlua::Result<R>,
) -> mlua::Result<Function> {
    lua.create_function(move |lua, args: Arguments| function(lua, &args))
}

/// Adds what only scripts of EVAL have.
pub(crate) fn add_eval_only(lua: &Lua, table: &Table) -> mlua::Result<()> {
    table.raw_set("breakpoint", lua.create_function(|_, _: Arguments| Ok(false))?)?;
    table.raw_set("debug", lua.create_function(|_, _: Arguments| Ok(()))?)?;
    table.raw_set("replicate_commands", lua.create_function(|_, _: Arguments| Ok(true))?)
}

/// Adds `redis.log`, its levels, and the version; libraries have these while
/// they load, too.
pub(crate) fn add_log_and_version(lua: &Lua, table: &Table, shared: &Shared) -> mlua::Result<()> {
    let state = shared.clone();
    let log = move |lua: &Lua, args: Arguments| log(lua, &state, &args);
    table.raw_set("log", lua.create_function(log)?)?;
    for (name, level) in
        [("LOG_DEBUG", 0), ("LOG_VERBOSE", 1), ("LOG_NOTICE", 2), ("LOG_WARNING", 3)]
    {
        table.raw_set(name, level)?;
    }
    table.raw_set("REDIS_VERSION_NUM", VERSION_NUMBER)?;
    table.raw_set("REDIS_VERSION", VERSION)
}

/// What to do with an error reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnError {
    Raise,
    Return,
}

/// An argument of a command, as bytes.
enum Part<'a> {
    Text(&'a LuaString),
    Number(Vec<u8>),
}

/// The arguments of a command, or `None` if one is neither string nor number.
fn parts(args: &Arguments) -> Option<SmallVec<[Part<'_>; 8]>> {
    args.iter()
        .map(|value| match value {
            Value::String(text) => Some(Part::Text(text)),
            Value::Integer(whole) => Some(Part::Number(general(*whole as f64))),
            Value::Number(number) => Some(Part::Number(general(*number))),
            _ => None,
        })
        .collect()
}

fn general(number: f64) -> Vec<u8> {
    let mut text = Vec::new();
    push_general(&mut text, number, 17);
    text
}

/// Calls `use_them` with the arguments as byte slices.
fn with_slices<R>(parts: &[Part<'_>], use_them: impl FnOnce(&[&[u8]]) -> R) -> R {
    let borrowed: SmallVec<[_; 8]> = parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => Ok(text.as_bytes()),
            Part::Number(number) => Err(number),
        })
        .collect();
    let slices: SmallVec<[&[u8]; 8]> = borrowed
        .iter()
        .map(|part| match part {
            Ok(text) => &**text,
            Err(number) => number.as_slice(),
        })
        .collect();
    use_them(&slices)
}

/// The arguments of a command, or the complaint about them.
fn command_parts(args: &Arguments) -> Result<SmallVec<[Part<'_>; 8]>, &'static str> {
    if args.is_empty() {
        return Err("Please specify at least one argument for this redis lib call");
    }
    parts(args).ok_or("Lua redis lib command arguments must be strings or integers")
}

fn command(lua: &Lua, shared: &Shared, args: &Arguments, on_error: OnError) -> mlua::Result<Value> {
    let (host, protocol, mut buffer) = {
        let mut state = shared.lock();
        let Some(host) = state.host.clone() else {
            return Err(fail::reply(
                "redis.call/pcall can only be called inside a script invocation",
            ));
        };
        (host, state.protocol, std::mem::take(&mut state.buffer))
    };
    let parts = match command_parts(args) {
        Ok(parts) => parts,
        Err(text) if on_error == OnError::Raise => return Err(fail::reply(text)),
        Err(text) => {
            return Ok(Value::Table(fail::table(lua, format!("ERR {text}").as_bytes(), false)?));
        }
    };
    buffer.clear();
    with_slices(&parts, |slices| host.call(protocol, slices, &mut buffer));
    let result = if buffer.first() == Some(&b'-') && on_error == OnError::Raise {
        let err = convert::error_text(&buffer);
        Err(mlua::Error::external(fail::Raised::Reply { err, counted: true }))
    } else {
        convert::to_lua(lua, &buffer)
    };
    if buffer.capacity() <= KEPT_BUFFER_BYTES {
        shared.lock().buffer = buffer;
    }
    result
}

/// A larger reply buffer is not kept for the next command.
const KEPT_BUFFER_BYTES: usize = 64 * 1024;

fn may_call(_lua: &Lua, shared: &Shared, args: &Arguments) -> mlua::Result<bool> {
    let host = shared.running("redis.acl_check_cmd")?;
    let parts = command_parts(args).map_err(fail::reply)?;
    with_slices(&parts, |slices| host.may_call(slices))
        .ok_or_else(|| fail::reply("Invalid command passed to redis.acl_check_cmd()"))
}

fn log(lua: &Lua, shared: &Shared, args: &Arguments) -> mlua::Result<()> {
    if args.len() < 2 {
        return Err(fail::reply("redis.log() requires two arguments or more."));
    }
    let Some(level) = as_number(lua, &args[0])? else {
        return Err(fail::reply("First argument must be a number (log level)."));
    };
    let level = match to_i64(level) as i32 {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return Err(fail::reply("Invalid debug level.")),
    };
    let mut line = Vec::new();
    for (index, value) in args.iter().enumerate().skip(1) {
        if let Some(text) = lua.coerce_string(value.clone()).ok().flatten() {
            if index > 1 {
                line.push(b' ');
            }
            line.extend_from_slice(&text.as_bytes());
        }
    }
    let host = {
        let state = shared.lock();
        state.host.clone().or_else(|| state.loading.as_ref().map(Loading::host))
    };
    if let Some(host) = host {
        host.log(level, &line);
    }
    Ok(())
}

fn set_protocol(lua: &Lua, shared: &Shared, args: &Arguments) -> mlua::Result<()> {
    shared.running("redis.setresp")?;
    if args.len() != 1 {
        return Err(fail::reply("redis.setresp() requires one argument."));
    }
    match as_number(lua, &args[0])?.map(|number| to_i64(number) as i32) {
        Some(2) => shared.lock().protocol = 2,
        Some(3) => shared.lock().protocol = 3,
        _ => return Err(fail::reply("RESP version must be 2 or 3.")),
    }
    Ok(())
}

fn sha1hex(lua: &Lua, args: &Arguments) -> mlua::Result<Value> {
    if args.len() != 1 {
        return Err(fail::reply("wrong number of arguments"));
    }
    // Redis: what is no string is hashed as the empty one.
    let text = lua.coerce_string(args[0].clone()).ok().flatten();
    let digest = match text {
        Some(text) => sha1_smol::Sha1::from(&text.as_bytes()[..]).digest(),
        None => sha1_smol::Sha1::new().digest(),
    };
    Ok(Value::String(lua.create_string(digest.to_string())?))
}

fn only_string(args: &Arguments) -> Option<&LuaString> {
    match &args[..] {
        [Value::String(text)] => Some(text),
        _ => None,
    }
}

const WRONG_ARGUMENTS: &[u8] = b"ERR wrong number or type of arguments";

fn error_reply(lua: &Lua, args: &Arguments) -> mlua::Result<Table> {
    let Some(text) = only_string(args) else {
        return fail::table(lua, WRONG_ARGUMENTS, false);
    };
    let text = text.as_bytes();
    let line = if text.first() == Some(&b'-') { &text[1..] } else { &text[..] };
    fail::table(lua, &convert::with_code(line), false)
}

fn status_reply(lua: &Lua, args: &Arguments) -> mlua::Result<Table> {
    let Some(text) = only_string(args) else {
        return fail::table(lua, WRONG_ARGUMENTS, false);
    };
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("ok", text)?;
    Ok(table)
}

fn add_replication(lua: &Lua, table: &Table, shared: &Shared) -> mlua::Result<()> {
    const TO_LOG: i64 = 1;
    const TO_REPLICAS: i64 = 2;
    let state = shared.clone();
    let set_repl = move |lua: &Lua, args: Arguments| {
        let host = state.running("redis.set_repl")?;
        if args.len() != 1 {
            return Err(fail::reply("redis.set_repl() requires two arguments."));
        }
        let flags = i64::from(to_i64(as_number(lua, &args[0])?.unwrap_or(0.0)) as i32);
        if flags & !(TO_LOG | TO_REPLICAS) != 0 {
            return Err(fail::reply(
                "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
            ));
        }
        host.set_repl(flags & TO_LOG != 0, flags & TO_REPLICAS != 0);
        Ok(())
    };
    table.raw_set("set_repl", lua.create_function(set_repl)?)?;
    table.raw_set("REPL_NONE", 0)?;
    table.raw_set("REPL_AOF", TO_LOG)?;
    table.raw_set("REPL_SLAVE", TO_REPLICAS)?;
    table.raw_set("REPL_REPLICA", TO_REPLICAS)?;
    table.raw_set("REPL_ALL", TO_LOG | TO_REPLICAS)
}
