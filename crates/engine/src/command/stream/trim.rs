//! The options that XADD and XTRIM share: what to keep, how exactly, and the new entry's id.

use super::{INVALID_ID, parse_id};
use crate::args::{self, int};
use crate::error::Error;
use crate::value::stream::{IdSpec, Keep, Log, Precision, StreamId};

/// What to trim and how thoroughly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trim {
    pub(super) keep: Keep,
    pub(super) precision: Precision,
}

/// The options of XADD or XTRIM.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) trim: Option<Trim>,
    pub(super) must_exist: bool,
    /// The id of the new entry and where it stands; only XADD has one, and it may be missing.
    pub(super) id: Option<(IdSpec, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Add,
    Trim,
}

/// Approximate trimming without LIMIT removes at most this many nodes' worth of entries.
const DEFAULT_LIMIT_NODES: i64 = 100;
/// …but is bounded even if nodes are not.
const MAX_DEFAULT_LIMIT: i64 = 1_000_000;
const UNBOUNDED_NODE_LIMIT: i64 = 10_000;

/// Reads the options from `args[2]` on; `node_entries` is `stream-node-max-entries`.
pub(super) fn parse(argv: &[&[u8]], command: Command, node_entries: u64) -> Result<Options, Error> {
    let mut options = Options { trim: None, must_exist: false, id: None };
    let mut keep: Option<(Keep, bool)> = None;
    let mut limit = None;
    let mut i = 2;
    while let Some(arg) = argv.get(i) {
        let more = argv.len() - 1 - i;
        let is = |word| args::is(arg, word);
        if command == Command::Add && **arg == *b"*" {
            options.id = Some((IdSpec::Auto, i));
            break;
        } else if (is("maxlen") || is("minid")) && more > 0 {
            if keep.is_some() {
                return Err(Error::fixed(
                    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
                ));
            }
            let marked = more >= 2 && matches!(argv[i + 1], b"~" | b"=");
            let approximate = marked && argv[i + 1] == b"~";
            i += 1 + usize::from(marked);
            let what = if is("maxlen") { parse_maxlen(argv[i])? } else { parse_minid(argv[i])? };
            keep = Some((what, approximate));
        } else if is("limit") && more > 0 {
            i += 1;
            limit = Some(parse_limit(argv[i])?);
        } else if command == Command::Add && is("nomkstream") {
            options.must_exist = true;
        } else if command == Command::Add {
            options.id = Some((IdSpec::parse(arg).ok_or(INVALID_ID)?, i));
            break;
        } else {
            return Err(Error::SYNTAX);
        }
        i += 1;
    }
    options.trim = assemble(keep, limit, command, node_entries)?;
    Ok(options)
}

fn parse_maxlen(arg: &[u8]) -> Result<Keep, Error> {
    let max = u64::try_from(int(arg)?)
        .map_err(|_| Error::fixed("ERR The MAXLEN argument must be >= 0."))?;
    Ok(Keep::MaxLen(max))
}

fn parse_minid(arg: &[u8]) -> Result<Keep, Error> {
    parse_id(arg).map(Keep::MinId)
}

fn parse_limit(arg: &[u8]) -> Result<u64, Error> {
    u64::try_from(int(arg)?).map_err(|_| Error::fixed("ERR The LIMIT argument must be >= 0."))
}

fn assemble(
    keep: Option<(Keep, bool)>,
    limit: Option<u64>,
    command: Command,
    node_entries: u64,
) -> Result<Option<Trim>, Error> {
    const NEEDS_TILDE: Error =
        Error::fixed("ERR syntax error, LIMIT cannot be used without the special ~ option");
    let Some((keep, approximate)) = keep else {
        return match (limit, command) {
            (Some(1..), _) => Err(Error::fixed(
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
            )),
            (_, Command::Trim) => {
                Err(Error::fixed("ERR syntax error, XTRIM must be called with a trimming strategy"))
            }
            (Some(0), Command::Add) => Err(NEEDS_TILDE),
            (None, Command::Add) => Ok(None),
        };
    };
    let precision = match (approximate, limit) {
        (false, None) => Precision::Exact,
        (false, Some(_)) => return Err(NEEDS_TILDE),
        (true, Some(limit)) => Precision::Approximate { limit },
        (true, None) => Precision::Approximate { limit: default_limit(node_entries) },
    };
    Ok(Some(Trim { keep, precision }))
}

fn default_limit(node_entries: u64) -> u64 {
    match (node_entries as i64).wrapping_mul(DEFAULT_LIMIT_NODES) {
        ..=0 => UNBOUNDED_NODE_LIMIT as u64,
        limit => limit.min(MAX_DEFAULT_LIMIT) as u64,
    }
}

impl Trim {
    pub(super) fn is_approximate(self) -> bool {
        self.precision != Precision::Exact
    }

    /// The exact trim that leaves what `log` now holds, as strategy and threshold for the log:
    /// approximate trimming depends on node boundaries, which a replay need not share.
    pub(super) fn outcome(self, log: &Log) -> (&'static [u8], String) {
        match (self.keep, self.precision) {
            (Keep::MaxLen(max), Precision::Exact) => (b"MAXLEN", max.to_string()),
            (Keep::MaxLen(_), _) => (b"MAXLEN", log.len().to_string()),
            (Keep::MinId(min), Precision::Exact) => (b"MINID", min.to_string()),
            (Keep::MinId(_), _) => {
                (b"MINID", log.first_stored_id().unwrap_or(StreamId::MAX).to_string())
            }
        }
    }
}
