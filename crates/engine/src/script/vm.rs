//! The interpreters, and running jobs on them.
//!
//! Scripts and function libraries have an interpreter each, made when first
//! needed. Compiled scripts are kept by SHA1, callbacks of libraries by the id
//! the engine gave the library. Both are a cache: the engine numbers the times
//! it was told to forget everything, and an interpreter that is behind starts
//! afresh; code that is not there is compiled from the job.

use std::collections::HashMap;
use std::sync::Arc;

use mlua::{Function, LuaString, Table, Value};

use super::library::Loading;
use super::reply::{self, Protocols};
use super::sandbox::Sandbox;
use super::shebang::ScriptFlags;
use super::store::{LibraryId, Script, Sha};
use super::{MAX_LUA_BYTES, Request, ScriptHost, fail};

/// A function that the code of a library registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegisteredFunction {
    /// Its name, unique among all libraries.
    pub(crate) name: Vec<u8>,
    /// What it is for, in its author's words.
    pub(crate) description: Option<Vec<u8>>,
    /// What it promises.
    pub(crate) flags: ScriptFlags,
}

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScriptReply {
    /// The reply for the caller.
    pub(crate) bytes: Vec<u8>,
    /// The reply is an error that a command of the script produced, so that the
    /// statistics counted it already.
    pub(crate) counted: bool,
    /// False if the code could not be compiled; it must not be remembered.
    pub(crate) compiled: bool,
}

impl ScriptReply {
    fn error(text: &[u8], compiled: bool) -> Self {
        let mut bytes = Vec::new();
        push_error(&mut bytes, text);
        ScriptReply { bytes, counted: false, compiled }
    }
}

/// What a script or function is called with.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) request: &'a Request,
    /// Protocol version of the caller.
    pub(crate) protocol: u8,
    pub(crate) host: &'a Arc<dyn ScriptHost>,
}

/// Runs scripts and functions.
#[derive(Default)]
pub(crate) struct Vm {
    scripts: Option<Scripts>,
    libraries: Option<Libraries>,
}

struct Scripts {
    generation: u64,
    sandbox: Sandbox,
    compiled: HashMap<Sha, Function>,
    keys_name: LuaString,
    args_name: LuaString,
}

struct Libraries {
    generation: u64,
    sandbox: Sandbox,
    callbacks: HashMap<LibraryId, HashMap<Vec<u8>, Function>>,
}

impl Vm {
    /// Starts without an interpreter; they are made when needed.
    #[must_use]
    pub(crate) fn new() -> Self {
        Vm::default()
    }

    /// Compiles a script without running it.
    ///
    /// # Errors
    ///
    /// The text of the error, without a code.
    pub(crate) fn compile(
        &mut self,
        generation: u64,
        sha: &Sha,
        script: &Script,
    ) -> Result<(), Vec<u8>> {
        self.scripts(generation)?.function(sha, script).map(drop)
    }

    /// Runs a script.
    pub(crate) fn eval(
        &mut self,
        generation: u64,
        sha: &Sha,
        script: &Script,
        call: Call<'_>,
    ) -> ScriptReply {
        let scripts = match self.scripts(generation) {
            Ok(scripts) => scripts,
            Err(text) => return ScriptReply::error(&text, false),
        };
        let function = match scripts.function(sha, script) {
            Ok(function) => function,
            Err(text) => return ScriptReply::error(&text, false),
        };
        let sandbox = &scripts.sandbox;
        begin(sandbox, call.host);
        let outcome = (|| {
            sandbox.globals.raw_set(&scripts.keys_name, array(sandbox, call.request.keys())?)?;
            sandbox.globals.raw_set(&scripts.args_name, array(sandbox, call.request.argv())?)?;
            sandbox.prelude.run.call::<(bool, Value)>(function)
        })();
        finish(sandbox, outcome, sha, call.protocol)
    }

    /// Calls a function of a library, loading the library if need be.
    pub(crate) fn call(
        &mut self,
        generation: u64,
        library: LibraryId,
        code: &[u8],
        function: &[u8],
        call: Call<'_>,
    ) -> ScriptReply {
        let known = self
            .libraries
            .as_ref()
            .is_some_and(|l| l.generation == generation && l.callbacks.contains_key(&library));
        if !known && let Err(text) = self.load_library(generation, library, code, call.host) {
            return ScriptReply::error(&text, false);
        }
        let libraries = match self.libraries(generation) {
            Ok(libraries) => libraries,
            Err(text) => return ScriptReply::error(&text, false),
        };
        let callback = libraries.callbacks.get(&library).and_then(|l| l.get(function));
        let Some(callback) = callback else {
            return ScriptReply::error(b"Function not found", true);
        };
        let sandbox = &libraries.sandbox;
        begin(sandbox, call.host);
        let outcome = (|| {
            let keys = array(sandbox, call.request.keys())?;
            let args = array(sandbox, call.request.argv())?;
            sandbox.prelude.run_function.call::<(bool, Value)>((callback, keys, args))
        })();
        finish(sandbox, outcome, function, call.protocol)
    }

    /// Runs the code of a library and keeps the callbacks that it registers.
    ///
    /// # Errors
    ///
    /// The text of the error, without a code.
    pub(crate) fn load_library(
        &mut self,
        generation: u64,
        id: LibraryId,
        code: &[u8],
        host: &Arc<dyn ScriptHost>,
    ) -> Result<Vec<RegisteredFunction>, Vec<u8>> {
        let libraries = self.libraries(generation)?;
        let sandbox = &libraries.sandbox;
        let function = sandbox
            .compile(code, "@user_function")
            .map_err(|text| [b"Error compiling function: ", text.as_slice()].concat())?;
        {
            let mut state = sandbox.shared.lock();
            state.loading = Some(Loading::new(host.clone()));
            state.killed = false;
        }
        let outcome = sandbox
            .enter_loading()
            .and_then(|()| sandbox.prelude.load.call::<(bool, Value)>(function));
        let left = sandbox.leave_loading();
        let loading = sandbox.shared.lock().loading.take();
        let (ok, error) =
            outcome.and_then(|outcome| left.map(|()| outcome)).map_err(|error| broken(&error))?;
        if !ok {
            let text = error_of(&error);
            return Err([b"Error registering functions: ", text.as_slice()].concat());
        }
        let registered = loading.map(|loading| loading.functions).unwrap_or_default();
        let mut names = Vec::with_capacity(registered.len());
        let mut callbacks = HashMap::with_capacity(registered.len());
        for (function, callback) in registered {
            callbacks.insert(function.name.clone(), callback);
            names.push(function);
        }
        if names.is_empty() {
            return Err(b"No functions registered".to_vec());
        }
        libraries.callbacks.insert(id, callbacks);
        Ok(names)
    }

    /// Forgets a library that was deleted, replaced or not accepted.
    pub(crate) fn drop_library(&mut self, id: LibraryId) {
        if let Some(libraries) = &mut self.libraries {
            libraries.callbacks.remove(&id);
        }
    }

    fn scripts(&mut self, generation: u64) -> Result<&mut Scripts, Vec<u8>> {
        if self.scripts.as_ref().is_none_or(|scripts| scripts.generation != generation) {
            self.scripts = Some(Scripts::new(generation).map_err(|error| broken(&error))?);
        }
        Ok(self.scripts.as_mut().expect("was made above"))
    }

    fn libraries(&mut self, generation: u64) -> Result<&mut Libraries, Vec<u8>> {
        if self.libraries.as_ref().is_none_or(|libraries| libraries.generation != generation) {
            let sandbox = Sandbox::for_libraries().map_err(|error| broken(&error))?;
            self.libraries = Some(Libraries { generation, sandbox, callbacks: HashMap::new() });
        }
        Ok(self.libraries.as_mut().expect("was made above"))
    }
}

impl Scripts {
    fn new(generation: u64) -> mlua::Result<Self> {
        let sandbox = Sandbox::for_scripts()?;
        let keys_name = sandbox.lua.create_string("KEYS")?;
        let args_name = sandbox.lua.create_string("ARGV")?;
        Ok(Scripts { generation, sandbox, compiled: HashMap::new(), keys_name, args_name })
    }

    fn function(&mut self, sha: &Sha, script: &Script) -> Result<Function, Vec<u8>> {
        if let Some(function) = self.compiled.get(sha) {
            return Ok(function.clone());
        }
        let code = &script.source[script.code_at..];
        let function = self.sandbox.compile(code, "@user_script").map_err(|text| {
            [b"Error compiling script (new function): ", text.as_slice()].concat()
        })?;
        self.compiled.insert(*sha, function.clone());
        Ok(function)
    }
}

/// The text for a failure of the interpreter itself.
fn broken(error: &mlua::Error) -> Vec<u8> {
    fail::foreign_message(error).into_bytes()
}

fn array(sandbox: &Sandbox, values: &[Box<[u8]>]) -> mlua::Result<Table> {
    let table = sandbox.lua.create_table_with_capacity(values.len(), 0)?;
    for value in values {
        table.raw_push(sandbox.lua.create_string(value)?)?;
    }
    Ok(table)
}

fn begin(sandbox: &Sandbox, host: &Arc<dyn ScriptHost>) {
    let mut state = sandbox.shared.lock();
    state.host = Some(host.clone());
    state.protocol = 2;
    state.killed = false;
}

fn finish(
    sandbox: &Sandbox,
    outcome: mlua::Result<(bool, Value)>,
    name: &[u8],
    client: u8,
) -> ScriptReply {
    let script = {
        let mut state = sandbox.shared.lock();
        state.host = None;
        state.protocol
    };
    let mut bytes = Vec::new();
    let written = match outcome {
        Ok((true, value)) => {
            let protocols = Protocols { client, script };
            reply::write(&sandbox.lua, &mut bytes, value, &sandbox.fields, protocols)
        }
        Ok((false, error)) => Ok(push_failure(&mut bytes, &error, name)),
        Err(error) => Err(error),
    };
    let counted = written.unwrap_or_else(|error| {
        bytes.clear();
        let text = format!(
            "Error running script {}, {}",
            String::from_utf8_lossy(name),
            fail::foreign_message(&error)
        );
        push_error(&mut bytes, text.as_bytes());
        false
    });
    tidy(sandbox);
    ScriptReply { bytes, counted, compiled: true }
}

/// Frees a script's leftover memory if it is large: later scripts need it.
fn tidy(sandbox: &Sandbox) {
    if sandbox.lua.used_memory() > MAX_LUA_BYTES / 4 {
        // A finalizer that fails is the script's own; nothing depends on it.
        let _ = sandbox.lua.gc_collect();
    }
}

/// The error that ended a script; says whether it was counted already.
fn push_failure(out: &mut Vec<u8>, error: &Value, name: &[u8]) -> bool {
    let Value::Table(table) = error else {
        let mut text = b"Error running script ".to_vec();
        text.extend_from_slice(name);
        text.extend_from_slice(b", ");
        match error {
            Value::String(message) => text.extend(message.as_bytes().iter().take(100)),
            _ => text.extend_from_slice(b"execution failure"),
        }
        push_error(out, &text);
        return false;
    };
    let mut text = vec![b'-'];
    text.extend_from_slice(&error_of(error));
    let source: Option<LuaString> = table.raw_get("source").ok();
    let line: Option<i64> = table.raw_get("line").ok();
    if let (Some(source), Some(line)) = (source, line) {
        text.extend_from_slice(b" script: ");
        text.extend_from_slice(name);
        text.extend_from_slice(b", on ");
        text.extend_from_slice(&source.as_bytes());
        text.extend_from_slice(format!(":{line}.").as_bytes());
    }
    push_error(out, &text);
    matches!(table.raw_get("ignore_error_stats_update"), Ok(Value::Boolean(true)))
}

/// The text of an error value, with a code.
fn error_of(error: &Value) -> Vec<u8> {
    match error {
        Value::String(text) => [b"ERR ", c_string(&text.as_bytes())].concat(),
        Value::Table(table) => match table.raw_get::<Option<LuaString>>("err") {
            Ok(Some(text)) => c_string(&text.as_bytes()).to_vec(),
            _ => b"ERR unknown error".to_vec(),
        },
        _ => b"ERR unknown error".to_vec(),
    }
}

/// Redis: errors are C strings there and end at a zero.
fn c_string(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(0, text).unwrap_or(text.len())]
}

/// Writes an error line; a text that starts with `-` brings its own code.
fn push_error(out: &mut Vec<u8>, text: &[u8]) {
    if text.first() != Some(&b'-') {
        out.extend_from_slice(b"-ERR ");
    }
    let text = super::convert::without_line_end(text);
    out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}
