//! Read-only tables on an interpreter that has none.
//!
//! Redis patches Lua so that a table can be locked. The stock interpreter can
//! only intercept writes to keys that do not exist. So scripts never hold the
//! real tables of the libraries and of the globals: they hold empty ones whose
//! metatable reads from the real one and refuses writes. What could see through
//! this is replaced: `rawset`, `rawget`, `setmetatable`, `getmetatable`, `pairs`
//! and `table.insert` know the empty tables and treat them as Redis treats the
//! locked ones.
//!
//! Invariant: no real table is reachable from script code.
//!
//! Limit: `next(redis)` finds nothing; `pairs(redis)` does.

use std::sync::{Arc, OnceLock};

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::arguments::{Arguments, type_error};
use super::fail;

/// The complaint about a write to a locked table.
const READONLY: &str = "Attempt to modify a readonly table";

/// One locked table.
struct Locked {
    /// Address of the empty table.
    address: usize,
    /// Keeps the empty table alive, so that no other gets its address.
    _empty: Table,
    real: Table,
    /// What `getmetatable` shows.
    metatable: Option<Table>,
}

/// The locked tables of one interpreter, complete once it is built.
#[derive(Clone, Default)]
pub(crate) struct Guard {
    tables: Arc<OnceLock<Vec<Locked>>>,
}

/// Collects locked tables while an interpreter is being built.
pub(crate) struct GuardBuilder {
    tables: Vec<Locked>,
    /// The empty tables as keys, for the Lua code of the prelude.
    set: Table,
    refuse: Function,
}

impl GuardBuilder {
    pub(crate) fn new(lua: &Lua) -> mlua::Result<Self> {
        let refuse = lua.create_function(|lua, _: Arguments| -> mlua::Result<()> {
            Err(fail::text(lua, READONLY))
        })?;
        Ok(GuardBuilder { tables: Vec::new(), set: lua.create_table()?, refuse })
    }

    /// The locked tables as keys of a table, those to come included.
    pub(crate) fn set(&self) -> &Table {
        &self.set
    }

    /// The empty table that stands for `real`, and its real metatable.
    pub(crate) fn lock(
        &mut self,
        lua: &Lua,
        real: &Table,
        metatable: Option<Table>,
    ) -> mlua::Result<(Table, Table)> {
        let hidden = lua.create_table()?;
        hidden.raw_set("__index", real)?;
        hidden.raw_set("__newindex", &self.refuse)?;
        let empty = lua.create_table()?;
        empty.set_metatable(Some(hidden.clone()))?;
        self.set.raw_set(&empty, true)?;
        let address = empty.to_pointer() as usize;
        let real = real.clone();
        self.tables.push(Locked { address, _empty: empty.clone(), real, metatable });
        Ok((empty, hidden))
    }

    pub(crate) fn finish(self, guard: &Guard) {
        // Invariant: each guard is finished once, by the sandbox that made it.
        let _ = guard.tables.set(self.tables);
    }
}

impl Guard {
    fn find(&self, table: &Table) -> Option<&Locked> {
        let address = table.to_pointer() as usize;
        self.tables.get()?.iter().find(|locked| locked.address == address)
    }

    /// Replaces the functions that would see through the empty tables.
    pub(crate) fn install(&self, lua: &Lua, globals: &Table) -> mlua::Result<()> {
        let guard = self.clone();
        let rawset = move |lua: &Lua, args: Arguments| guard.rawset(lua, &args);
        globals.raw_set("rawset", lua.create_function(rawset)?)?;

        let guard = self.clone();
        let rawget = move |lua: &Lua, args: Arguments| -> mlua::Result<Value> {
            let table = table_argument(lua, &args, 0)?;
            let key = any_argument(lua, &args, 1)?;
            match guard.find(table) {
                Some(locked) => locked.real.raw_get(key),
                None => table.raw_get(key),
            }
        };
        globals.raw_set("rawget", lua.create_function(rawget)?)?;

        let guard = self.clone();
        let setmetatable = move |lua: &Lua, args: Arguments| guard.setmetatable(lua, &args);
        globals.raw_set("setmetatable", lua.create_function(setmetatable)?)?;

        let native: Function = globals.raw_get("getmetatable")?;
        let guard = self.clone();
        let getmetatable = move |lua: &Lua, args: Arguments| -> mlua::Result<Value> {
            let value = any_argument(lua, &args, 0)?;
            match value {
                Value::Table(table) => match guard.find(table) {
                    Some(locked) => Ok(locked.metatable.clone().map_or(Value::Nil, Value::Table)),
                    None => native.call(value),
                },
                _ => native.call(value),
            }
        };
        globals.raw_set("getmetatable", lua.create_function(getmetatable)?)?;
        self.install_pairs(lua, globals)?;
        self.install_insert(lua, globals)
    }

    fn rawset(&self, lua: &Lua, args: &Arguments) -> mlua::Result<Value> {
        let table = table_argument(lua, args, 0)?;
        let key = any_argument(lua, args, 1)?;
        let value = any_argument(lua, args, 2)?;
        if self.find(table).is_some() {
            return Err(fail::bare(READONLY));
        }
        match key {
            Value::Nil => return Err(fail::bare("table index is nil")),
            Value::Number(number) if number.is_nan() => {
                return Err(fail::bare("table index is NaN"));
            }
            _ => table.raw_set(key, value)?,
        }
        Ok(args[0].clone())
    }

    fn setmetatable(&self, lua: &Lua, args: &Arguments) -> mlua::Result<Value> {
        let table = table_argument(lua, args, 0)?;
        let metatable = match args.get(1) {
            Some(Value::Nil) => None,
            Some(Value::Table(metatable)) => Some(metatable),
            _ => return Err(fail::bad_argument(lua, 2, "nil or table expected")),
        };
        if self.find(table).is_some() {
            return Err(fail::bare(READONLY));
        }
        if let Some(old) = table.metatable()
            && !old.raw_get::<Value>("__metatable")?.is_nil()
        {
            return Err(fail::text(lua, "cannot change a protected metatable"));
        }
        table.set_metatable(metatable.cloned())?;
        Ok(args[0].clone())
    }

    fn install_pairs(&self, lua: &Lua, globals: &Table) -> mlua::Result<()> {
        let next: Function = globals.raw_get("next")?;
        let guard = self.clone();
        let native = next.clone();
        let locked_next = lua.create_function(move |lua, args: Arguments| {
            let table = table_argument(lua, &args, 0)?;
            let key = args.get(1).cloned().unwrap_or(Value::Nil);
            let real = guard.find(table).map_or(table, |locked| &locked.real);
            native.call::<MultiValue>((real, key))
        })?;
        let guard = self.clone();
        let pairs = lua.create_function(move |lua, args: Arguments| {
            let table = table_argument(lua, &args, 0)?;
            let step = if guard.find(table).is_some() { &locked_next } else { &next };
            Ok((step.clone(), table.clone(), Value::Nil))
        })?;
        globals.raw_set("pairs", pairs)
    }

    /// `table.insert` writes past metatables, so it must know locked tables.
    fn install_insert(&self, lua: &Lua, globals: &Table) -> mlua::Result<()> {
        let library: Table = globals.raw_get("table")?;
        let guard = self.clone();
        let insert = lua.create_function(move |lua, args: Arguments| {
            let table = table_argument(lua, &args, 0)?;
            let end = table.raw_len() as i64 + 1;
            let (at, value) = match args.len() {
                2 => (end, &args[1]),
                3 => (super::arguments::integer(lua, &args, 1)?, &args[2]),
                _ => return Err(fail::text(lua, "wrong number of arguments to 'insert'")),
            };
            if guard.find(table).is_some() {
                return Err(fail::bare(READONLY));
            }
            let mut index = end.max(at);
            // Redis: moves every element behind the place, one by one.
            while index > at {
                let moved: Value = table.raw_get(index - 1)?;
                table.raw_set(index, moved)?;
                index -= 1;
            }
            table.raw_set(at, value)
        })?;
        library.raw_set("insert", insert)
    }
}

fn table_argument<'a>(lua: &Lua, args: &'a Arguments, index: usize) -> mlua::Result<&'a Table> {
    match args.get(index) {
        Some(Value::Table(table)) => Ok(table),
        _ => Err(type_error(lua, args, index, "table")),
    }
}

fn any_argument<'a>(lua: &Lua, args: &'a Arguments, index: usize) -> mlua::Result<&'a Value> {
    args.get(index).ok_or_else(|| fail::bad_argument(lua, index + 1, "value expected"))
}
