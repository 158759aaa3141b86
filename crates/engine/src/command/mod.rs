//! Commands: the table, how a request finds its command, and one file per family.

mod bitmap;
mod client;
mod client_control;
mod client_tracking;
mod cluster;
pub(crate) mod compatibility;
mod config;
mod connection;
mod cursor;
mod debug;
mod expire;
pub(crate) mod find_keys;
mod function;
mod geo;
mod hash;
mod help;
mod hyperloglog;
mod info;
mod introspect;
mod keys;
mod list;
mod object;
mod pick;
mod pubsub;
mod scan;
mod script;
mod server;
mod set;
mod slowlog;
mod sort;
mod stream;
mod string;
mod string_edit;
mod string_lcs;
mod transaction;
mod zset;

pub(crate) mod index;
pub(crate) mod spec;
pub(crate) mod table;

use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::resp::Reply;

/// Placeholder in the table for commands that consist only of subcommands; the index never picks
/// it.
fn no_subcommand(_: &mut Ctx<'_>, args: &[&[u8]], _: &mut Reply) -> Done {
    Err(Error::arity(&String::from_utf8_lossy(args[0])))
}
