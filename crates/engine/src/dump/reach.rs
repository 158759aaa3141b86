//! Which keys an operation reads and writes, by the command table.

use crate::args::is;
use crate::command::spec::{Begin, Find, KeySpec, access};
use crate::effects::Operation;
use crate::engine::Engine;
use crate::number::parse_i64;

/// A key that an operation reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch<'a> {
    /// Its database.
    pub db: u32,
    /// The key.
    pub key: &'a [u8],
    /// Whether it may be changed.
    pub written: bool,
}

/// Which keys an operation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Those that were listed, and no other.
    Keys,
    /// No key by name; right to repeat on a part of the keys: FLUSHALL, FLUSHDB, FUNCTION.
    Everywhere,
    /// It moves keys to other places: SWAPDB.
    Shuffles,
}

impl Engine {
    /// Lists the keys of an operation that this engine logged.
    pub fn reach<'a>(&self, operation: &Operation<'a>, touches: &mut Vec<Touch<'a>>) -> Reach {
        let args: Vec<&[u8]> = operation.args().collect();
        let db = operation.db;
        let Ok(command) = self.index.resolve(&args) else { return Reach::Everywhere };
        if command.name == "swapdb" {
            return Reach::Shuffles;
        }
        for spec in command.keys {
            let written = spec.access & access::RO == 0;
            let keys = key_args(spec, &args);
            touches.extend(keys.map(|index| Touch { db, key: args[index], written }));
        }
        // These two write to a database that is not the one they run in.
        if command.name == "move" {
            let other = database(args[2]).unwrap_or(db);
            touches.push(Touch { db: other, key: args[1], written: true });
        } else if command.name == "copy"
            && let Some(at) = args.iter().skip(3).position(|word| is(word, "db"))
            && let Some(other) = args.get(at + 4).and_then(|number| database(number))
        {
            touches[1].db = other;
        }
        if touches.is_empty() { Reach::Everywhere } else { Reach::Keys }
    }
}

fn database(text: &[u8]) -> Option<u32> {
    parse_i64(text).and_then(|number| u32::try_from(number).ok())
}

/// The indexes of the arguments that a rule names as keys.
fn key_args(spec: &KeySpec, args: &[&[u8]]) -> std::iter::StepBy<std::ops::Range<usize>> {
    let nothing = (0..0).step_by(1);
    let first = match spec.begin {
        Begin::Index(index) => index,
        Begin::Keyword(word, from) => {
            let found = if from >= 0 {
                let from = from.unsigned_abs();
                args.iter().skip(from).position(|arg| is(arg, word)).map(|at| from + at)
            } else {
                let end = args.len().saturating_sub(from.unsigned_abs() - 1);
                args[..end].iter().rposition(|arg| is(arg, word))
            };
            match found {
                Some(at) => at + 1,
                None => return nothing,
            }
        }
        Begin::Unknown => return nothing,
    };
    match spec.find {
        Find::Range { last, step, limit } => {
            let end = if last >= 0 {
                first + last.unsigned_abs() + 1
            } else if limit <= 1 {
                (args.len() + 1).saturating_sub(last.unsigned_abs())
            } else {
                first + args.len().saturating_sub(first) / limit
            };
            (first..end.min(args.len()).max(first)).step_by(step.max(1))
        }
        Find::Counted => {
            let count = args.get(first).and_then(|text| parse_i64(text)).unwrap_or(0);
            let count = usize::try_from(count).unwrap_or(0);
            let start = (first + 1).min(args.len());
            (start..start.saturating_add(count).min(args.len())).step_by(1)
        }
        Find::Unknown => nothing,
    }
}
