//! Limits on the output that a client leaves unread (client-output-buffer-limit).

use seawall_engine::{Engine, OutputLimit, SessionId};

use crate::connection::Connection;

/// Redis' order of the client classes: normal, replica, pub/sub.
const NORMAL: usize = 0;
const SUBSCRIBER: usize = 2;

/// Returns `true` if a client with `waiting` bytes of unread output must be disconnected. Tracks
/// since when it is above the soft limit.
pub(crate) fn is_exceeded(
    connection: &mut Connection,
    engine: &Engine,
    waiting: usize,
    now_ms: u64,
) -> bool {
    let limit = of(engine, connection.session);
    judge(limit, waiting as u64, now_ms, &mut connection.soft_since_ms)
}

/// Returns the limits of a session's class.
pub(crate) fn of(engine: &Engine, session: SessionId) -> OutputLimit {
    let class = if engine.is_subscriber(session) { SUBSCRIBER } else { NORMAL };
    engine.settings().output_limits[class]
}

/// The rule itself: at the hard limit at once, at the soft limit if it lasts.
pub(crate) fn judge(
    limit: OutputLimit,
    waiting: u64,
    now_ms: u64,
    soft_since_ms: &mut Option<u64>,
) -> bool {
    if limit.soft_bytes == 0 || waiting < limit.soft_bytes {
        *soft_since_ms = None;
    } else {
        let since = *soft_since_ms.get_or_insert(now_ms);
        if now_ms.saturating_sub(since) > limit.soft_seconds * 1000 {
            return true;
        }
    }
    limit.hard_bytes != 0 && waiting >= limit.hard_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: OutputLimit = OutputLimit { hard_bytes: 100, soft_bytes: 10, soft_seconds: 2 };

    #[test]
    fn the_hard_bound_counts_at_once() {
        let mut since = None;
        assert!(!judge(LIMIT, 99, 0, &mut since));
        assert!(judge(LIMIT, 100, 0, &mut since));
    }

    #[test]
    fn the_soft_bound_counts_when_it_lasts() {
        let mut since = None;
        assert!(!judge(LIMIT, 10, 0, &mut since));
        assert!(!judge(LIMIT, 10, 2000, &mut since));
        assert!(judge(LIMIT, 10, 2001, &mut since));
        // A client that catches up starts anew.
        assert!(!judge(LIMIT, 9, 3000, &mut since));
        assert!(!judge(LIMIT, 10, 9000, &mut since));
    }

    #[test]
    fn zero_is_no_bound() {
        let none = OutputLimit { hard_bytes: 0, soft_bytes: 0, soft_seconds: 0 };
        assert!(!judge(none, u64::MAX, u64::MAX, &mut None));
    }
}
