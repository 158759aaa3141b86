//! Figures of the operating system about this process, for INFO.
//!
//! Read from /proc, so available on Linux; on other systems the numbers stay zero rather than
//! wrong.

use seawall_engine::HostInfo;

/// Clock ticks a second in /proc, the same on every Linux.
const TICKS_A_SECOND: u64 = 100;

/// Memory and CPU time, if known.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    cpu_ticks: Option<(u64, u64)>,
    resident_bytes: Option<u64>,
}

impl Figures {
    /// Reads the figures from the system.
    pub(crate) fn read() -> Self {
        let read = |file: &str| std::fs::read_to_string(file).ok();
        Self {
            cpu_ticks: read("/proc/self/stat").and_then(|stat| cpu_ticks(&stat)),
            resident_bytes: read("/proc/self/status").and_then(|status| resident_bytes(&status)),
        }
    }

    /// Returns the resident memory.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        self.resident_bytes
    }

    /// Writes the figures to INFO.
    pub(crate) fn tell(&self, info: &mut HostInfo) {
        if let Some((user, system)) = self.cpu_ticks {
            info.used_cpu_user_micros = user * (1_000_000 / TICKS_A_SECOND);
            info.used_cpu_sys_micros = system * (1_000_000 / TICKS_A_SECOND);
        }
        if let Some(bytes) = self.resident_bytes {
            info.used_memory_rss = bytes;
        }
    }
}

/// Parses user and system time. The program's name comes first, in parentheses, and may contain any
/// character.
fn cpu_ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 12 34 0 0 20 0";
        assert_eq!(cpu_ticks(stat), Some((12, 34)));
        assert_eq!(cpu_ticks("nonsense"), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(resident_bytes("VmPeak:\t 9 kB\nVmRSS:\t   2 kB\n"), Some(2048));
        assert_eq!(resident_bytes(""), None);
    }
}
