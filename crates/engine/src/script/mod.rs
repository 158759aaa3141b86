//! Lua scripts and functions: driven from outside the engine, one command at a time.

mod job;

pub(crate) use job::{ScriptJob, ScriptRun, ScriptStore, Work};
