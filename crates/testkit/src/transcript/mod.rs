//! Command transcripts: recorded dialogues with a server, played against any server.
//!
//! A file holds sections; each begins with `== title` and runs on an empty server with new
//! connections, so that sections neither see nor disturb one another.
//!
//! ```text
//! # A comment says why the lines below are worth keeping.
//! == a blocked client is served by a push
//! > @2 BLPOP queue 0          sends on connection 2 (without @N: connection 1)
//! < @2 silent                 nothing has come on connection 2
//! > RPUSH queue "\x00\xff"    words may be quoted: "\n\r\t\"\\\xNN" or 'as it is'
//! < :1
//! < @2 ["queue", "\x00\xff"]
//! >> "PING\r\n"               raw bytes
//! < +PONG
//! > SADD s {1..600}           expands to 600 words; "ab"*100 repeats a string
//! < :600
//! ```
//!
//! Replies are written as [`crate::Reply`] prints them: `+OK`, `-ERR text`, `:1`, `"bulk"`, `nil`
//! (`$-1`), `nil-array` (`*-1`), `null` (`_`), `[a, b]`, `~[set]`, `>[push]`, `{k: v}`, `,1.5`,
//! `#t`, `(big`, `="txt:verbatim"`. Inside a collection, statuses and errors are quoted: `-"ERR x"`.
//!
//! Where exact bytes are not guaranteed:
//!
//! | written | accepts |
//! | --- | --- |
//! | `*` | any reply |
//! | `:*`, `:1..5` | any integer, an integer in the range (both ends included) |
//! | `-ERR wrong...` | an error that begins like this |
//! | `glob "a*b"` | a string or status in which each `*` stands for anything |
//! | `unordered [a, b]` | the same elements in any order (also `~[]` and `{}`) |
//! | `pairs [k, v, k, v]` | the same pairs in any order, flat as RESP2 sends a map |
//! | `silent` | no reply yet |
//! | `closed` | the server closed the connection |
//!
//! [`record`] fills in the missing replies of a file from a server that is known to be right, and
//! [`play`] checks them.

mod lexer;
mod pattern;
mod record;
mod run;
mod script;

pub use record::record;
pub use run::{Failure, Summary, play};
pub use script::{Script, SyntaxError};
