//! Finds the parts of two replies that differ, and formats commands for reports.

use super::compare::{Policy, picked};
use super::generate::{CONNECTIONS, Step};
use crate::reply::{Escaped, Reply};

/// A command whose replies differ.
pub(super) struct Mismatch {
    pub(super) command: String,
    pub(super) redis: Reply,
    pub(super) ours: Reply,
}

/// Compares replies in the order of the dialogue.
///
/// Replies to queued commands come with EXEC, so the commands are remembered until then.
#[derive(Default)]
pub(super) struct Judge {
    queued: [Vec<(String, Policy)>; CONNECTIONS],
    /// Our reply to the previous command, from which a random pick is made.
    before: [Option<Reply>; CONNECTIONS],
}

impl Judge {
    /// Returns what differs between the two replies to `step`.
    pub(super) fn mismatches(&mut self, step: &Step, redis: &Reply, ours: &Reply) -> Vec<Mismatch> {
        let before = self.before[step.connection].replace(ours.clone());
        let queued = &mut self.queued[step.connection];
        if *redis == queued_reply() {
            queued.push((shown(step), step.policy));
        }
        let mut commands = Vec::new();
        match command_name(step).as_str() {
            "EXEC" => commands = std::mem::take(queued),
            "DISCARD" | "RESET" => queued.clear(),
            _ => {}
        }
        let (theirs, replies) = (redis.items(), ours.items());
        if !commands.is_empty() && theirs.len() == commands.len() && theirs.len() == replies.len() {
            let parts = commands.into_iter().zip(theirs.iter().zip(replies));
            return parts
                .filter(|((_, policy), (a, b))| !policy.same(a, b))
                .map(|((command, _), (a, b))| mismatch(command, a, b))
                .collect();
        }
        let is_pick = step.policy == Policy::Pick && !redis.is_error() && *redis != queued_reply();
        let from_there = |there: &Reply| picked(redis, ours, there);
        let same =
            step.policy.same(redis, ours) && (!is_pick || before.as_ref().is_none_or(from_there));
        if same { Vec::new() } else { vec![mismatch(shown(step), redis, ours)] }
    }
}

/// Returns what differs between everything that arrived on one connection after `step`.
///
/// Messages that arrive together may be in any order: patterns are kept in a hash table.
pub(super) fn event_mismatches(
    step: &Step,
    redis: &[Option<Reply>],
    ours: &[Option<Reply>],
) -> Vec<Mismatch> {
    let sorted = |events: &[Option<Reply>]| {
        let mut events = events.to_vec();
        events.sort();
        events
    };
    if redis == ours || sorted(redis) == sorted(ours) {
        return Vec::new();
    }
    if let ([Some(redis)], [Some(ours)]) = (redis, ours) {
        return vec![mismatch(shown(step), redis, ours)];
    }
    vec![mismatch(shown(step), &together(redis), &together(ours))]
}

fn queued_reply() -> Reply {
    Reply::Simple(b"QUEUED".to_vec())
}

fn mismatch(command: String, redis: &Reply, ours: &Reply) -> Mismatch {
    Mismatch { command, redis: redis.clone(), ours: ours.clone() }
}

fn together(events: &[Option<Reply>]) -> Reply {
    let closed = || Reply::Simple(b"closed".to_vec());
    Reply::Push(events.iter().map(|event| event.clone().unwrap_or_else(closed)).collect())
}

pub(super) fn command_name(step: &Step) -> String {
    String::from_utf8_lossy(&step.args[0]).to_ascii_uppercase()
}

/// Formats the command as a person would type it.
pub(super) fn shown(step: &Step) -> String {
    let word = |arg: &Vec<u8>| {
        let plain = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\' | b'\'');
        if !arg.is_empty() && arg.iter().all(plain) {
            String::from_utf8_lossy(arg).into_owned()
        } else {
            format!("\"{}\"", Escaped(arg))
        }
    };
    let words: Vec<String> = step.args.iter().map(word).collect();
    match step.connection {
        0 => words.join(" "),
        other => format!("@{} {}", other + 1, words.join(" ")),
    }
}

/// Removes the connection from a formatted command.
pub(super) fn bare(command: &str) -> &str {
    match command.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
        Some((_, rest)) => rest,
        None => command,
    }
}

/// Returns the first words, which distinguish kinds of differences.
pub(super) fn kind_of(text: &str) -> String {
    bare(text).split_whitespace().take(2).collect::<Vec<_>>().join(" ").to_ascii_uppercase()
}
