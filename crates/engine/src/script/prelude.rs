//! The little Lua around every script: protected calls and the error handler.
//!
//! These are Lua functions because only Lua code can catch an error and hand on
//! all results. They hold everything they use as upvalues, so nothing a script
//! does to its environment reaches them.
//!
//! - `pcall` gives a script the text of a table error, as Redis 7 does to stay
//!   compatible with scripts that expect strings; `xpcall` and
//!   `coroutine.resume` give the table.
//! - `table.insert` and `pairs` are the native ones for ordinary tables; locked
//!   tables and wrong arguments are left to `guard.rs`. An insertion far below
//!   the table's start moves two thousand million places: it is done in Lua,
//!   where the script can be stopped.
//! - `unpack` is the native one for ranges that it can count.
//! - `string.gsub` with a function or a table, and `string.gmatch`, call back or
//!   keep state; the search itself is in `lib/strings.rs`.
//! - None of them catches the end of a killed script: `reveal` raises it again.
//! - `run` and `run_function` are what Rust calls; they answer `true, value` or
//!   `false, {err=, source=, line=}`.

use std::borrow::Cow;

use mlua::{Function, Lua, Table, Value, Variadic};

use super::api::Shared;
use super::arguments::Arguments;
use super::fail;
use super::guard::Guard;

/// Name of the chunk, as a traceback would show it.
pub(crate) const CHUNK_NAME: &str = "=seawall";

const SOURCE: &str = r#"
local pcall, xpcall, resume, type, tostring, reveal, place, select, next = ...
local locked, native_insert, insert, pairs = select(10, ...)
local gsub, gmatch, search, sub, concat, wrong, rawget, rawset = select(14, ...)
local unpack, error, tonumber = select(22, ...)

-- What the native one counts in: 32 bits, whose overflow ends the process. No stack has room for more
-- results than this anyway.
local most_results, least_index, past_index = 8000, -2147483648, 2147483648

-- As the native one, which moves up everything from the position on.
local function insert_far(t, position, value)
  for i = #t + 1, position + 1, -1 do
    rawset(t, i, rawget(t, i - 1))
  end
  rawset(t, position, value)
end

local function gsub_by(kind, by, s, p, most, anchored)
  local out, size, copied, from, count = {}, 0, 0, 0, 0
  local function put(piece)
    size = size + 1
    out[size] = piece
  end
  local function use(first, last, ...)
    if not first then return false end
    count = count + 1
    local value
    if kind == 'function' then value = by(...) else value = by[(...)] end
    local got = type(value)
    if not value then
      value = sub(s, first + 1, last)
    elseif got ~= 'string' and got ~= 'number' then
      wrong(got)
    end
    put(sub(s, copied + 1, first))
    put(value)
    copied, from = last, last
    if last == first then from = last + 1 end
    return not anchored
  end
  while count < most and use(search(s, p, from, true, kind == 'table')) do end
  put(sub(s, copied + 1))
  return concat(out), count
end

local function finish_text(ok, ...)
  if ok then return ok, ... end
  return false, (reveal('text', (...)))
end

local function finish(ok, ...)
  if ok then return ok, ... end
  return false, (reveal('value', (...)))
end

local function handler(err)
  err = reveal('last', err)
  if type(err) ~= 'table' then
    err = {err = 'ERR ' .. tostring(err)}
  end
  local source, line = place()
  if source then
    err.source = source
    err.line = line
  end
  return err
end

local callback, keys, args
local function call()
  return callback(keys, args)
end

return {
  insert = function(t, a, ...)
    if type(t) == 'table' and not locked[t] then
      local count = select('#', ...)
      if count == 0 and a ~= nil then
        native_insert(t, a)
        return
      elseif count == 1 and type(a) == 'number' then
        if a < -1000 then
          insert_far(t, a, (...))
        else
          native_insert(t, a, (...))
        end
        return
      end
    end
    return insert(t, a, ...)
  end,
  gsub = function(...)
    local _, _, by = ...
    local kind = type(by)
    if kind ~= 'function' and kind ~= 'table' then
      return gsub(...)
    end
    -- Not a tail call: an error names the line two levels up.
    local text, count = gsub_by(kind, by, gsub(...))
    return text, count
  end,
  gmatch = function(...)
    local s, p = gmatch(...)
    local from = 0
    local function take(first, last, ...)
      if not first then return end
      from = last
      if last == first then from = last + 1 end
      return ...
    end
    return function()
      return take(search(s, p, from))
    end
  end,
  unpack = function(...)
    local t, i, j = ...
    if type(t) ~= 'table' then
      local got = select('#', ...) == 0 and 'no value' or type(t)
      error("bad argument #1 to 'unpack' (table expected, got " .. got .. ')', 2)
    end
    if i ~= nil or j ~= nil then
      local from, to = 1, #t
      if i ~= nil then from = tonumber(i) end
      if j ~= nil then to = tonumber(j) end
      if not from then
        error("bad argument #2 to 'unpack' (number expected, got " .. type(i) .. ')', 2)
      end
      if not to then
        error("bad argument #3 to 'unpack' (number expected, got " .. type(j) .. ')', 2)
      end
      local fits = from >= least_index and from < past_index and to >= least_index and to < past_index
      if not (fits and to - from < most_results) then
        error('too many results to unpack', 2)
      end
    end
    return unpack(...)
  end,
  pairs = function(t)
    if type(t) == 'table' and not locked[t] then
      return next, t, nil
    end
    return pairs(t)
  end,
  pcall = function(...)
    return finish_text(pcall(...))
  end,
  xpcall = function(f, h)
    return finish(xpcall(f, function(err) return h(reveal('value', err)) end))
  end,
  resume = function(...)
    return finish(resume(...))
  end,
  run = function(f)
    return xpcall(f, handler)
  end,
  run_function = function(f, k, a)
    callback, keys, args = f, k, a
    return xpcall(call, handler)
  end,
  load = function(f)
    local ok, err = pcall(f)
    if ok then return true end
    return false, reveal('last', err)
  end,
}
"#;

/// The entry points of the prelude.
pub(crate) struct Prelude {
    /// Runs a compiled script.
    pub(crate) run: Function,
    /// Runs a library function with its keys and arguments.
    pub(crate) run_function: Function,
    /// Runs the code of a library.
    pub(crate) load: Function,
}

/// Installs the protected calls into the real globals.
pub(crate) fn install(
    lua: &Lua,
    globals: &Table,
    environment: &Table,
    shared: &Shared,
    guard: &Guard,
    locked: &Table,
) -> mlua::Result<Prelude> {
    let table: Table = globals.raw_get("table")?;
    let native_insert: Function = table.raw_get("insert")?;
    guard.install(lua, globals)?;
    let state = shared.clone();
    let reveal = lua.create_function(move |lua, (mode, value): (mlua::LuaString, Value)| {
        reveal(lua, &state, &mode.as_bytes(), value)
    })?;
    let place = lua.create_function(|lua, _: Arguments| Ok(place(lua)))?;
    let coroutine: Table = globals.raw_get("coroutine")?;
    let parts: Table =
        lua.load(SOURCE).set_name(CHUNK_NAME).set_environment(environment.clone()).call((
            globals.raw_get::<Function>("pcall")?,
            globals.raw_get::<Function>("xpcall")?,
            coroutine.raw_get::<Function>("resume")?,
            globals.raw_get::<Function>("type")?,
            globals.raw_get::<Function>("tostring")?,
            reveal,
            place,
            globals.raw_get::<Function>("select")?,
            globals.raw_get::<Function>("next")?,
            locked,
            native_insert,
            table.raw_get::<Function>("insert")?,
            globals.raw_get::<Function>("pairs")?,
            strings(lua, globals, &table)?,
        ))?;
    let string: Table = globals.raw_get("string")?;
    string.raw_set("search", Value::Nil)?;
    string.raw_set("gsub", parts.raw_get::<Function>("gsub")?)?;
    string.raw_set("gmatch", parts.raw_get::<Function>("gmatch")?)?;
    table.raw_set("insert", parts.raw_get::<Function>("insert")?)?;
    globals.raw_set("pairs", parts.raw_get::<Function>("pairs")?)?;
    globals.raw_set("unpack", parts.raw_get::<Function>("unpack")?)?;
    globals.raw_set("pcall", parts.raw_get::<Function>("pcall")?)?;
    globals.raw_set("xpcall", parts.raw_get::<Function>("xpcall")?)?;
    coroutine.raw_set("resume", parts.raw_get::<Function>("resume")?)?;
    Ok(Prelude {
        run: parts.raw_get("run")?,
        run_function: parts.raw_get("run_function")?,
        load: parts.raw_get("load")?,
    })
}

/// What the prelude needs of `string` and `table`, in the order in which it takes it.
fn strings(lua: &Lua, globals: &Table, table: &Table) -> mlua::Result<Variadic<Function>> {
    let string: Table = globals.raw_get("string")?;
    let mut found = Variadic::new();
    for name in ["gsub", "gmatch", "search", "sub"] {
        found.push(string.raw_get(name)?);
    }
    found.push(table.raw_get("concat")?);
    found.push(lua.create_function(|lua, kind: String| {
        Err::<(), _>(fail::text(lua, format!("invalid replacement value (a {kind})")))
    })?);
    found.push(globals.raw_get("rawget")?);
    for name in ["rawset", "unpack", "error", "tonumber"] {
        found.push(globals.raw_get(name)?);
    }
    Ok(found)
}

/// Turns what was caught into what a script may see.
fn reveal(lua: &Lua, shared: &Shared, mode: &[u8], value: Value) -> mlua::Result<Value> {
    if mode != b"last" && shared.lock().killed {
        return Err(fail::killed());
    }
    let value = match value {
        Value::Error(error) => fail::reveal(lua, &error)?,
        other => other,
    };
    if mode == b"text"
        && let Value::Table(table) = &value
    {
        let text: Value = table.raw_get("err")?;
        if matches!(text, Value::String(_) | Value::Integer(_) | Value::Number(_)) {
            return Ok(text);
        }
    }
    Ok(value)
}

/// Chunk and line of the error: of the function that raised it or, if that is
/// not written in Lua, of the one that called it.
fn place(lua: &Lua) -> (Option<String>, Option<i64>) {
    // Level 0 is this function, 1 the handler, 2 the function that raised.
    let at = |level| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let line = frame.current_line().map_or(-1, |line| line as i64);
            (source.what == "C", source.source.map(Cow::into_owned), line)
        })
    };
    let mut level = 2;
    if matches!(at(level), Some((true, ..))) {
        level += 1;
    }
    // The wrappers of this file stand for functions that are not written in Lua.
    while matches!(at(level), Some((_, Some(source), _)) if source == CHUNK_NAME) {
        level += 1;
    }
    let found = at(level);
    match found {
        Some((_, source, line)) => (source, Some(line)),
        None => (None, None),
    }
}
