//! CPU time and memory of a process, from /proc.

use std::fs;

use crate::outcome::{Context, Failure, Outcome};

/// CPU time of all threads of a process, in nanoseconds.
///
/// `schedstat` counts nanoseconds, where `stat` counts ticks of 10 ms, but it is per thread.
pub(super) fn time_ns(pid: u32) -> Outcome<u64> {
    let folder = format!("/proc/{pid}/task");
    let mut total = 0;
    for thread in fs::read_dir(&folder).context(format!("cannot read {folder}"))? {
        let file = thread?.path().join("schedstat");
        // A thread may end between the listing and this line.
        let text = fs::read_to_string(&file).unwrap_or_default();
        total += text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(total)
}

/// Resident memory of a process, in bytes.
pub(super) fn resident_bytes(pid: u32) -> Outcome<u64> {
    let file = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&file).context(format!("cannot read {file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| Failure::new(format!("no VmRSS in {file}")))
}
