//! Finds the keys among a request's arguments, by the rules in the command table.
//!
//! COMMAND GETKEYS, client-side caching and the rewrite of the log use it. SORT and MIGRATE-like
//! commands have rules that the table cannot express; theirs are here.

use super::index::CommandRef;
use super::spec::{Begin, Find, KeySpec, access};
use crate::args::is;
use crate::number;

/// A key among the arguments, and what the command does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundKey {
    pub(crate) at: usize,
    pub(crate) access: u32,
}

/// The keys of a request; `None` when the arguments make no sense.
pub(crate) fn find_keys(command: CommandRef, args: &[&[u8]]) -> Option<Vec<FoundKey>> {
    let mut found = Vec::new();
    match command.name {
        "sort" => sort_keys(args, &mut found),
        "sort_ro" => found.push(FoundKey { at: 1, access: access::RO | access::ACCESS }),
        _ => {
            let all = command.keys.iter().try_for_each(|spec| by_spec(spec, args, &mut found));
            if all.is_none() {
                return by_loose_count(command.keys, args);
            }
        }
    }
    Some(found)
}

fn sort_keys(args: &[&[u8]], found: &mut Vec<FoundKey>) {
    found.push(FoundKey { at: 1, access: access::RO | access::ACCESS });
    let mut i = 2;
    let mut store = None;
    while i < args.len() {
        if is(args[i], "limit") {
            i += 2;
        } else if is(args[i], "get") || is(args[i], "by") {
            i += 1;
        } else if is(args[i], "store") && i + 1 < args.len() {
            // Redis: the last STORE wins.
            store = Some(i + 1);
            i += 1;
        }
        i += 1;
    }
    if let Some(at) = store {
        found.push(FoundKey { at, access: access::OW | access::UPDATE });
    }
}

fn by_spec(spec: &KeySpec, args: &[&[u8]], found: &mut Vec<FoundKey>) -> Option<()> {
    let first = match spec.begin {
        // Redis: an index past the end is an error even if the command does not need the key, as
        // with PFMERGE.
        Begin::Index(at) if at >= args.len() => return None,
        Begin::Index(at) => at,
        Begin::Keyword(word, from) => match behind_word(args, word, from) {
            Some(at) => at,
            None => return Some(()),
        },
        Begin::Unknown => return Some(()),
    };
    if first >= args.len() {
        return Some(());
    }
    let (first, last, step) = match spec.find {
        Find::Range { last, step, limit } => {
            let last = if last >= 0 {
                first + last as usize
            } else if limit <= 1 {
                args.len().checked_sub(last.unsigned_abs())?
            } else {
                first + (args.len() - first) / limit + 1 - last.unsigned_abs() - 1
            };
            (first, last, step)
        }
        Find::Counted => {
            let count = number::parse_i64(args[first]).filter(|count| *count >= 0)?;
            // Redis: it is kept in 32 bits.
            let count = usize::try_from(count as i32).ok()?;
            (first + 1, first + count, 1)
        }
        Find::Unknown => return Some(()),
    };
    if last >= args.len() || last < first {
        return None;
    }
    for at in (first..=last).step_by(step) {
        found.push(FoundKey { at, access: spec.access });
    }
    Some(())
}

/// Finds the keys of a command that counts them, if the count is not a number or does not fit.
///
/// Redis: an older function is used then, which reads the count with `atoi`, knows nothing about
/// what happens to a key, and puts the destination key last.
fn by_loose_count(specs: &[KeySpec], args: &[&[u8]]) -> Option<Vec<FoundKey>> {
    let counted = specs.iter().find(|spec| matches!(spec.find, Find::Counted))?;
    let Begin::Index(at) = counted.begin else { return None };
    let first = at + 1;
    let count = usize::try_from(number::atoi(args.get(at)?)).ok()?;
    if count == 0 || count > args.len() - first {
        return None;
    }
    let stored = specs.iter().filter_map(|spec| match (spec.begin, spec.find) {
        (Begin::Index(at), Find::Range { .. }) => Some(at),
        _ => None,
    });
    let places = (first..first + count).chain(stored);
    Some(places.map(|at| FoundKey { at, access: 0 }).collect())
}

fn behind_word(args: &[&[u8]], word: &str, from: isize) -> Option<usize> {
    let at = if from > 0 {
        (from as usize..args.len()).find(|i| is(args[*i], word))?
    } else {
        let start = args.len().checked_sub(from.unsigned_abs())?;
        (1..=start).rev().find(|i| is(args[*i], word))?
    };
    Some(at + 1)
}
