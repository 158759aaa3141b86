//! Lua scripts, sent by digest, or in full if the server does not have them.
//!
//! The digest is computed once per process. A server that answers NOSCRIPT (it is new, was
//! restarted or had its scripts flushed) executed nothing, so the text is sent at once and stays
//! cached there. There is no loading step and no record of which node has which script.

use std::{borrow::Cow, sync::OnceLock};

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
    source: &'static str,
    has_time: bool,
    ready: OnceLock<Ready>,
}

/// A script as it is sent.
#[derive(Debug)]
struct Ready {
    text: Cow<'static, str>,
    digest: String,
}

/// The line that [`Script::with_time`] replaces, and what it puts there.
const TIME_LINE: &str = "-- #include time.lua";
const TIME: &str = include_str!("../script/time.lua");

impl Script {
    /// Creates a script. The digest is computed on the first call.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Script { source: text, has_time: false, ready: OnceLock::new() }
    }

    /// Creates a script that needs the server's time.
    ///
    /// Each line `-- #include time.lua` becomes the locals `now`, in milliseconds, `micros`, and `time`,
    /// the reply of `TIME`. They stand where the script needs them, so that no other path pays for them.
    ///
    /// ```
    /// use seawall::Script;
    ///
    /// static NOW: Script = Script::with_time("-- #include time.lua\nreturn now");
    /// ```
    #[must_use]
    pub const fn with_time(text: &'static str) -> Self {
        Script { source: text, has_time: true, ready: OnceLock::new() }
    }

    /// Returns the text that is sent.
    pub fn text(&self) -> &str {
        &self.ready().text
    }

    fn ready(&self) -> &Ready {
        self.ready.get_or_init(|| {
            let text = match self.has_time {
                true => Cow::Owned(self.source.replace(TIME_LINE, TIME)),
                false => Cow::Borrowed(self.source),
            };
            debug_assert_eq!(self.has_time, self.source.contains(TIME_LINE), "{}", self.source);
            let digest = sha1_smol::Sha1::from(&*text).digest().to_string();
            Ready { text, digest }
        })
    }

    /// Starts a call with these keys.
    pub fn on<K: AsRef<[u8]>>(&'static self, keys: &[K]) -> ScriptInvocation {
        let mut command = cmd("EVALSHA");
        command.arg(&self.ready().digest).arg(keys.len());
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
        &self.script.ready().digest
    }

    /// Returns the same call with the script's text.
    pub fn in_full(&self) -> Cmd {
        let mut full = cmd("EVAL");
        full.arg(self.script.text());
        for argument in self.command.args_iter().skip(2) {
            if let Arg::Simple(argument) = argument {
                full.arg(argument);
            }
        }
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TIMED: Script = Script::with_time(
        "local function f()\n  -- #include time.lua\n  return now\nend\n-- #include time.lua\nreturn micros",
    );
    static PLAIN: Script = Script::new("return 1");

    #[test]
    fn the_time_stands_where_the_script_asks_for_it() {
        assert_eq!(TIMED.text().matches("redis.call('TIME')").count(), 2);
        assert!(!TIMED.text().contains(TIME_LINE) && TIMED.text().ends_with("return micros"));
        assert_eq!(PLAIN.text(), "return 1");
    }

    #[test]
    fn the_digest_is_that_of_the_text_that_is_sent() {
        for script in [&TIMED, &PLAIN] {
            let call = script.on(&[b"key"]);
            let text = match call.in_full().args_iter().nth(1) {
                Some(Arg::Simple(text)) => text.to_vec(),
                _ => panic!("a text follows EVAL"),
            };
            assert_eq!(call.digest(), sha1_smol::Sha1::from(text).digest().to_string());
        }
    }
}
