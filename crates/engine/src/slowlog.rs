//! The slow log: the last commands that took longer than the bound.

use std::collections::VecDeque;

/// One slow command.
#[derive(Debug)]
pub(crate) struct Slow {
    pub(crate) id: i64,
    pub(crate) at_seconds: i64,
    pub(crate) micros: i64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) name: Vec<u8>,
}

/// The newest first.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    pub(crate) entries: VecDeque<Slow>,
    next_id: i64,
}

const MAX_ARGS: usize = 32;
const MAX_BYTES: usize = 128;

impl SlowLog {
    /// Remembers a command, cut to a size that cannot hurt.
    pub(crate) fn add(&mut self, args: &[&[u8]], mut slow: Slow, max_len: u64) {
        let shown = if args.len() > MAX_ARGS { MAX_ARGS - 1 } else { args.len() };
        slow.args = args[..shown]
            .iter()
            .map(|arg| match arg.len().checked_sub(MAX_BYTES) {
                Some(more) if more > 0 => {
                    let mut cut = arg[..MAX_BYTES].to_vec();
                    cut.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
                    cut
                }
                _ => arg.to_vec(),
            })
            .collect();
        if shown < args.len() {
            slow.args.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
        }
        slow.id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(slow);
        self.trim(max_len);
    }

    pub(crate) fn trim(&mut self, max_len: u64) {
        self.entries.truncate(usize::try_from(max_len).unwrap_or(usize::MAX));
    }
}
