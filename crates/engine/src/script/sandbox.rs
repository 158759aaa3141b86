//! An interpreter as scripts may see it.
//!
//! Only what Redis 7.0 leaves in place is there: the base functions without
//! files and printing, `string`, `table`, `math`, `coroutine`, the bundled
//! libraries and `redis`. Every table among them is locked (see `guard.rs`);
//! a global that does not exist is an error to read. Code is always text:
//! bytecode could break the interpreter, so `load` and `loadstring` never pass
//! it on.
//!
//! ```text
//! environment (empty, locked) ── reads ──▶ globals ── misses ──▶ error
//!                                             │
//!                                             ├─ redis, string, cjson … (empty, locked) ──▶ real tables
//!                                             └─ KEYS, ARGV (set before each script)
//! ```

use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, Value, VmState};

use super::api::{self, Shared};
use super::arguments::{Arguments, integer, string};
use super::guard::{Guard, GuardBuilder};
use super::prelude::{self, Prelude};
use super::reply::Fields;
use super::{MAX_LUA_BYTES, fail, lib, library};

/// How often the host is asked whether to go on. Redis: every 100,000; a tenth of it, because each
/// instruction may be a call that copies many megabytes, and every coroutine counts for itself.
const INSTRUCTIONS_PER_TICK: u32 = 10_000;
/// Bound on the code that `load` collects piece by piece.
const MAX_LOADED_BYTES: usize = 512 * 1024 * 1024;
/// Where Lua's own `loadstring` is kept, out of the reach of scripts.
const LUAS_LOADSTRING: &str = "seawall.loadstring";

/// The functions of the base library that scripts keep.
///
/// Redis: 7.0.15 as first released also had `getfenv`, `setfenv` and `newproxy`; its
/// security updates took them away.
const BASE: [&str; 22] = [
    "xpcall",
    "tostring",
    "setmetatable",
    "next",
    "assert",
    "tonumber",
    "rawequal",
    "collectgarbage",
    "getmetatable",
    "rawset",
    "pcall",
    "type",
    "select",
    "unpack",
    "gcinfo",
    "pairs",
    "rawget",
    "loadstring",
    "ipairs",
    "_VERSION",
    "load",
    "error",
];
/// The libraries of Lua that scripts keep.
const LIBRARIES: [&str; 4] = ["string", "table", "math", "coroutine"];

/// A locked interpreter.
pub(crate) struct Sandbox {
    pub(crate) lua: Lua,
    pub(crate) shared: Shared,
    pub(crate) prelude: Prelude,
    pub(crate) fields: Fields,
    /// The real globals; never given to scripts.
    pub(crate) globals: Table,
    /// What code is compiled with.
    environment: Table,
    /// The part of the environment's metatable that decides where it reads.
    environment_mind: Table,
    /// What a library sees while it loads.
    loading_globals: Option<Table>,
}

impl Sandbox {
    /// An interpreter for scripts of EVAL.
    pub(crate) fn for_scripts() -> mlua::Result<Self> {
        Self::build(Kind::Scripts)
    }

    /// An interpreter for function libraries.
    pub(crate) fn for_libraries() -> mlua::Result<Self> {
        Self::build(Kind::Libraries)
    }

    fn build(kind: Kind) -> mlua::Result<Self> {
        let libs = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        // Lua's own `pcall` and `xpcall` stay: wrapped ones would add a frame.
        let lua = Lua::new_with(libs, LuaOptions::new().catch_rust_panics(true))?;
        lua.set_memory_limit(MAX_LUA_BYTES)?;
        let shared = Shared::new();
        let globals = lua.globals();
        keep_allowed(&globals)?;
        lib::strings::install(&lua, &globals.raw_get("string")?, &shared)?;
        let guard = Guard::default();
        let mut builder = GuardBuilder::new(&lua)?;

        let missing = lua.create_function(|lua, args: Arguments| missing(lua, &args))?;
        let missing_table = lua.create_table()?;
        missing_table.raw_set("__index", &missing)?;
        let (shown_metatable, _) = builder.lock(&lua, &missing_table, None)?;
        let (environment, environment_mind) =
            builder.lock(&lua, &globals, Some(shown_metatable.clone()))?;

        let prelude =
            prelude::install(&lua, &globals, &environment, &shared, &guard, builder.set())?;
        install_loaders(&lua, &globals, &environment, &shared)?;
        install_random(&lua, &globals, &shared)?;
        let redis = api::create(&lua, &shared)?;
        if kind == Kind::Scripts {
            api::add_eval_only(&lua, &redis)?;
        }
        globals.raw_set("redis", redis)?;
        globals.raw_set("cjson", lib::cjson::create(&lua)?)?;
        globals.raw_set("cmsgpack", lib::cmsgpack::create(&lua)?)?;
        globals.raw_set("struct", lib::struct_::create(&lua)?)?;
        globals.raw_set("bit", lib::bit::create(&lua)?)?;

        for name in LIBRARIES.into_iter().chain(["redis", "cjson", "cmsgpack", "struct", "bit"]) {
            let real: Table = globals.raw_get(name)?;
            let (locked, _) = builder.lock(&lua, &real, None)?;
            globals.raw_set(name, locked)?;
        }
        lock_string_metatable(&lua, &globals, &mut builder)?;
        let (global_view, _) = builder.lock(&lua, &globals, Some(shown_metatable))?;
        let global_view = if kind == Kind::Scripts { environment.clone() } else { global_view };
        globals.raw_set("_G", global_view)?;
        globals.set_metatable(Some(missing_table.clone()))?;

        let loading_globals = match kind {
            Kind::Scripts => None,
            Kind::Libraries => Some(loading_globals(&lua, &shared, &missing_table, &mut builder)?),
        };
        builder.finish(&guard);
        lua.set_globals(environment.clone())?;
        install_hook(&lua, &shared)?;
        let fields = Fields::new(&lua)?;
        Ok(Sandbox {
            lua,
            shared,
            prelude,
            fields,
            globals,
            environment,
            environment_mind,
            loading_globals,
        })
    }

    /// Compiles code that will see the locked environment.
    pub(crate) fn compile(&self, code: &[u8], name: &str) -> Result<Function, Vec<u8>> {
        compile(&self.lua, &self.environment, code, name.as_bytes())
    }

    /// Lets code see only what a library may use while it loads.
    pub(crate) fn enter_loading(&self) -> mlua::Result<()> {
        match &self.loading_globals {
            Some(globals) => self.environment_mind.raw_set("__index", globals),
            None => Ok(()),
        }
    }

    /// Lets code see everything again.
    pub(crate) fn leave_loading(&self) -> mlua::Result<()> {
        self.environment_mind.raw_set("__index", &self.globals)
    }
}

/// What an interpreter is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scripts,
    Libraries,
}

fn keep_allowed(globals: &Table) -> mlua::Result<()> {
    let names: Vec<Value> = globals
        .pairs::<Value, Value>()
        .map(|pair| pair.map(|(name, _)| name))
        .collect::<Result<_, _>>()?;
    for name in names {
        let allowed = match &name {
            Value::String(text) => {
                let text = text.as_bytes();
                BASE.iter().chain(&LIBRARIES).any(|known| known.as_bytes() == &*text)
            }
            _ => false,
        };
        if !allowed {
            globals.raw_set(name, Value::Nil)?;
        }
    }
    Ok(())
}

/// Answers a read of a global that does not exist.
fn missing(lua: &Lua, args: &Arguments) -> mlua::Result<Value> {
    if args.len() != 2 {
        return Err(fail::text(lua, "Wrong number of arguments to luaProtectedTableError"));
    }
    let name = match &args[1] {
        name @ (Value::String(_) | Value::Integer(_) | Value::Number(_)) => {
            lua.coerce_string(name.clone())?
        }
        _ => None,
    };
    let Some(name) = name else {
        return Err(fail::text(
            lua,
            "Second argument to luaProtectedTableError must be a string or number",
        ));
    };
    let mut text = b"Script attempted to access nonexistent global variable '".to_vec();
    text.extend_from_slice(&name.as_bytes());
    text.push(b'\'');
    Err(fail::text(lua, text))
}

/// `getmetatable("")` is locked as well, so that no script changes strings for
/// the next one.
fn lock_string_metatable(
    lua: &Lua,
    globals: &Table,
    builder: &mut GuardBuilder,
) -> mlua::Result<()> {
    let Some(metatable) = lua.type_metatable::<LuaString>() else {
        return Ok(());
    };
    let shown = lua.create_table()?;
    shown.raw_set("__index", globals.raw_get::<Table>("string")?)?;
    let (locked, _) = builder.lock(lua, &shown, None)?;
    metatable.raw_set("__metatable", locked)
}

/// The globals of a library while it loads: registering and logging.
fn loading_globals(
    lua: &Lua,
    shared: &Shared,
    missing: &Table,
    builder: &mut GuardBuilder,
) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    redis.raw_set("register_function", library::create(lua, shared)?)?;
    api::add_log_and_version(lua, &redis, shared)?;
    redis.set_metatable(Some(missing.clone()))?;
    let (redis, _) = builder.lock(lua, &redis, None)?;
    let globals = lua.create_table()?;
    globals.raw_set("redis", redis)?;
    globals.set_metatable(Some(missing.clone()))?;
    Ok(globals)
}

fn compile(lua: &Lua, environment: &Table, code: &[u8], name: &[u8]) -> Result<Function, Vec<u8>> {
    // The parser shall complain about bytecode as about any other bad text.
    let padded;
    let code = if code.first() == Some(&0x1b) {
        padded = [b" ", code].concat();
        &padded
    } else {
        code
    };
    lua.load(code)
        .set_name(String::from_utf8_lossy(name))
        .set_mode(ChunkMode::Text)
        .set_environment(environment.clone())
        .into_function()
        .map_err(|error| {
            let complaint = complaint(lua, code, name);
            complaint.unwrap_or_else(|| fail::foreign_message(&error).into_bytes())
        })
}

/// What Lua says about code that it cannot compile, byte for byte: the message names what it stumbled
/// over, and mlua's errors carry only what is UTF-8.
fn complaint(lua: &Lua, code: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let load: Function = lua.named_registry_value(LUAS_LOADSTRING).ok()?;
    let args = (lua.create_string(code).ok()?, lua.create_string(name).ok()?);
    let (_, text): (Value, LuaString) = load.call(args).ok()?;
    Some(text.as_bytes().to_vec())
}

/// `loadstring` and `load`, for text only and with the locked environment.
fn install_loaders(
    lua: &Lua,
    globals: &Table,
    environment: &Table,
    shared: &Shared,
) -> mlua::Result<()> {
    let luas_own: Function = globals.raw_get("loadstring")?;
    lua.set_named_registry_value(LUAS_LOADSTRING, luas_own)?;
    let held = environment.clone();
    let loadstring = lua.create_function(move |lua, args: Arguments| {
        let code = string(lua, &args, 0)?;
        let name = match args.get(1) {
            None | Some(Value::Nil) => code.clone(),
            Some(_) => string(lua, &args, 1)?,
        };
        loaded(lua, &held, &code.as_bytes(), &name.as_bytes())
    })?;
    globals.raw_set("loadstring", loadstring)?;
    let held = environment.clone();
    let state = shared.clone();
    let load = lua.create_function(move |lua, args: Arguments| {
        let Some(Value::Function(reader)) = args.first() else {
            return Err(super::arguments::type_error(lua, &args, 0, "function"));
        };
        let name = match args.get(1) {
            None | Some(Value::Nil) => b"=(load)".to_vec(),
            Some(_) => string(lua, &args, 1)?.as_bytes().to_vec(),
        };
        let mut code = Vec::new();
        loop {
            let piece = match reader.call::<Value>(()) {
                Ok(piece) => piece,
                Err(_) if state.lock().killed => return Err(fail::killed()),
                Err(error) => return Ok((Value::Nil, Some(fail::reveal(lua, &error)?))),
            };
            match piece {
                Value::Nil => break,
                Value::String(piece) if piece.as_bytes().is_empty() => break,
                Value::String(piece) => code.extend_from_slice(&piece.as_bytes()),
                _ => {
                    let text = lua.create_string("reader function must return a string")?;
                    return Ok((Value::Nil, Some(Value::String(text))));
                }
            }
            if code.len() > MAX_LOADED_BYTES {
                return Err(fail::text(lua, "not enough memory"));
            }
        }
        loaded(lua, &held, &code, &name)
    })?;
    globals.raw_set("load", load)
}

fn loaded(
    lua: &Lua,
    environment: &Table,
    code: &[u8],
    name: &[u8],
) -> mlua::Result<(Value, Option<Value>)> {
    let end = memchr::memchr(0, name).unwrap_or(name.len());
    match compile(lua, environment, code, &name[..end]) {
        Ok(function) => Ok((Value::Function(function), None)),
        Err(text) => Ok((Value::Nil, Some(Value::String(lua.create_string(text)?)))),
    }
}

/// `math.random` and `math.randomseed` over a generator that is the same
/// everywhere.
fn install_random(lua: &Lua, globals: &Table, shared: &Shared) -> mlua::Result<()> {
    let math: Table = globals.raw_get("math")?;
    let state = shared.clone();
    let random = lua.create_function(move |lua, args: Arguments| {
        let fraction = {
            let mut state = state.lock();
            if state.host.is_none() {
                drop(state);
                return Err(fail::text(
                    lua,
                    "math.random can only be called inside a script invocation",
                ));
            }
            state.random.fraction()
        };
        let bound = |index| integer(lua, &args, index).map(|whole| f64::from(whole as i32));
        match args.len() {
            0 => Ok(fraction),
            1 => {
                let high = bound(0)?;
                if high < 1.0 {
                    return Err(fail::bad_argument(lua, 1, "interval is empty"));
                }
                Ok((fraction * high).floor() + 1.0)
            }
            2 => {
                let (low, high) = (bound(0)?, bound(1)?);
                if low > high {
                    return Err(fail::bad_argument(lua, 2, "interval is empty"));
                }
                Ok((fraction * (high - low + 1.0)).floor() + low)
            }
            _ => Err(fail::text(lua, "wrong number of arguments")),
        }
    })?;
    math.raw_set("random", random)?;
    let state = shared.clone();
    let randomseed = lua.create_function(move |lua, args: Arguments| {
        if state.lock().host.is_none() {
            return Err(fail::text(
                lua,
                "math.randomseed can only be called inside a script invocation",
            ));
        }
        let seed = integer(lua, &args, 0)? as i32;
        state.lock().random.seed(seed);
        Ok(())
    })?;
    math.raw_set("randomseed", randomseed)
}

fn install_hook(lua: &Lua, shared: &Shared) -> mlua::Result<()> {
    let state = shared.clone();
    let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_TICK);
    lua.set_global_hook(triggers, move |_, _| state.ask_host().map(|()| VmState::Continue))
}
