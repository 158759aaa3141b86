//! Lua scripts, sent by digest, or in full if the server does not have them.
//!
//! The digest is computed once per process. A server that answers NOSCRIPT (it is new, was
//! restarted or had its scripts flushed) executed nothing, so the text is sent at once and stays
//! cached there. There is no loading step and no record of which node has which script.

use std::sync::OnceLock;

use redis::{Arg, Cmd, ToRedisArgs, cmd};

/// A script. Its first key determines the server; all its keys must be in one slot.
///
/// ```
/// use seawall::Script;
///
/// static ADD: Script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
/// ```
#[derive(Debug)]
pub struct Script {
    text: &'static str,
    digest: OnceLock<String>,
}

impl Script {
    /// Creates a script. The digest is computed on the first call.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Script { text, digest: OnceLock::new() }
    }

    /// Starts a call with these keys.
    pub fn on<K: AsRef<[u8]>>(&'static self, keys: &[K]) -> ScriptInvocation {
        let digest =
            self.digest.get_or_init(|| sha1_smol::Sha1::from(self.text).digest().to_string());
        let mut command = cmd("EVALSHA");
        command.arg(digest).arg(keys.len());
        for key in keys {
            command.arg(key.as_ref());
        }
        let key = keys.first().map(|key| key.as_ref().to_vec()).unwrap_or_default();
        ScriptInvocation { script: self, key, command }
    }
}

/// One call of a [`Script`] with its keys and arguments.
#[derive(Debug, Clone)]
pub struct ScriptInvocation {
    script: &'static Script,
    key: Vec<u8>,
    command: Cmd,
}

impl ScriptInvocation {
    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.command.arg(argument);
        self
    }

    /// Returns the key that determines the server.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the command that runs the script by digest.
    pub(crate) fn by_digest(&self) -> &Cmd {
        &self.command
    }

    /// Returns the digest, which identifies the script.
    pub fn digest(&self) -> &'static str {
        self.script.digest.get().map_or("", String::as_str)
    }

    /// Returns the same call with the script's text.
    pub fn in_full(&self) -> Cmd {
        let mut full = cmd("EVAL");
        full.arg(self.script.text);
        for argument in self.command.args_iter().skip(2) {
            if let Arg::Simple(argument) = argument {
                full.arg(argument);
            }
        }
        full
    }
}
