//! Memory of clients: their buffers count as memory, and the largest clients are evicted.
//!
//! `client_bytes` is the sum over all sessions of what each held when it was last measured
//! (`counted`). A session is measured whenever its input or output changes here, and when the host
//! reports how much it could not send yet. It is part of `used_memory`, so `maxmemory` includes it,
//! as in Redis.

use super::{Engine, HostRequest};
use crate::resp::Output;
use crate::script::LogLevel;

/// Redis: with a smaller `maxmemory-clients`, no client could connect to change it.
const LEAST_CLIENT_MEMORY: usize = 128 << 10;
/// Redis' order of the classes of `client-output-buffer-limit`.
const NORMAL: usize = 0;
const SUBSCRIBER: usize = 2;

impl Engine {
    /// Brings the sum up to date with what a session holds now.
    #[inline]
    pub(crate) fn recount(&mut self, session: usize) {
        let Some(state) = self.sessions.get_mut(session) else { return };
        let memory = state.memory();
        if memory != state.counted {
            self.client_bytes = self.client_bytes + memory - state.counted;
            state.counted = memory;
        }
    }

    /// Removes a session and its share of the sum.
    pub(crate) fn forget_session(&mut self, session: usize) {
        if self.sessions.contains(session) {
            self.client_bytes -= self.sessions.remove(session).counted;
        }
    }

    /// Ends a session at once: its output is dropped, its input is not run.
    fn doom(&mut self, session: usize, why: &str) {
        let state = &mut self.sessions[session];
        let text = format!("closing client {} ({}): {why}", state.client_id, state.peer.addr);
        state.output = Output::default();
        state.acks.clear();
        state.input = Vec::new();
        state.parser.reset();
        state.close_after_flush = true;
        state.doomed = true;
        self.requests.push(HostRequest::Log { level: LogLevel::Warning as u8, text });
        self.touch_session(session);
    }

    /// Ends a session whose unread output is above its hard limit. Returns `true` if it did. Called
    /// after each reply, so that a batch of requests cannot exceed the limit by more than one
    /// reply.
    pub(crate) fn limit_output(&mut self, session: usize) -> bool {
        let Some(state) = self.sessions.get(session) else { return true };
        let class = if state.all_subscriptions() > 0 { SUBSCRIBER } else { NORMAL };
        let bound = self.settings.output_limits[class].hard_bytes;
        let waiting = (state.output.len() + state.unsent) as u64;
        if bound == 0 || waiting < bound || state.doomed {
            return state.doomed;
        }
        self.doom(session, &format!("{waiting} bytes of unread output"));
        true
    }

    /// Returns the limit for all clients together; `None` if there is none.
    fn client_memory_bound(&self) -> Option<usize> {
        let bound = match self.settings.maxmemory_clients {
            0 => return None,
            // Redis: a percentage of no limit is no limit.
            percent if percent < 0 && self.settings.maxmemory == 0 => return None,
            percent if percent < 0 => {
                (self.settings.maxmemory as f64 * percent.unsigned_abs() as f64 / 100.0) as usize
            }
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        Some(bound.max(LEAST_CLIENT_MEMORY))
    }

    /// Ends the clients that hold most, until all together are below `maxmemory-clients`.
    pub(crate) fn evict_clients(&mut self) {
        let Some(bound) = self.client_memory_bound() else { return };
        if self.client_bytes <= bound {
            return;
        }
        // The memory of an ending client is freed once the host has dropped it; until then it still
        // counts for that client.
        let ending = self.sessions.iter().filter(|(_, state)| state.doomed);
        let mut gone: usize = ending.map(|(_, state)| state.counted).sum();
        while self.client_bytes.saturating_sub(gone) > bound {
            let largest = self
                .sessions
                .iter()
                .filter(|(_, state)| !state.no_evict && !state.doomed)
                .max_by_key(|(_, state)| state.memory())
                .map(|(session, _)| session);
            let Some(session) = largest else { return };
            let memory = self.sessions[session].memory();
            self.stats.evicted_clients += 1;
            self.doom(session, &format!("evicted with {memory} bytes, all clients hold too much"));
            self.recount(session);
            gone += self.sessions[session].counted;
        }
    }
}
