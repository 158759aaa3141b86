//! Warns when a capability whose keys must not vanish runs on a server that evicts keys.
//!
//! A lock, a sale, a stream or a session that the server evicts breaks its promise silently, and the cause
//! is a setting of the server that the program never sees. So the first such capability of a handle asks
//! the server once, in the background, and logs what it found. It refuses nothing: the setting may be
//! beyond the program's control. `docs/sharing.md` says which capability needs what.

use std::{sync::atomic::Ordering, time::Duration};

use redis::cmd;
use seawall_resilience::Backoff;

use super::Handle;
use crate::client::Client;

/// Pause before a server that did not answer is asked again; doubled each time.
const PAUSES: Backoff = Backoff::doubling(Duration::from_millis(500), Duration::from_secs(60));

impl Handle {
    /// Logs a warning, once for this handle, if its server may evict what `capability` stores.
    ///
    /// Returns at once. A server that does not answer is asked again, less and less often, until it does.
    /// An embedded engine is not asked.
    pub fn needs_every_key(&self, capability: &'static str) {
        if self.client().is_embedded() {
            return;
        }
        let asked = &self.inner.asked_about_eviction;
        if asked.load(Ordering::Relaxed) || asked.swap(true, Ordering::Relaxed) {
            return;
        }
        let (client, mut stop) = (self.client().clone(), self.stopping());
        self.spawn_at_home(async move {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => {}
                () = ask_until_answered(&client, capability) => {}
            }
        });
    }
}

async fn ask_until_answered(client: &Client, capability: &str) {
    let mut pauses = PAUSES;
    while !warn_if_evicting(client, capability).await {
        client.clock().sleep(pauses.pause()).await;
    }
}

/// Returns `true` if the server answered, also if it refuses to say.
async fn warn_if_evicting(client: &Client, capability: &str) -> bool {
    let info: String = match client.query(b"", cmd("INFO").arg("memory")).await {
        Ok(info) => info,
        Err(error) => {
            tracing::debug!(%error, "the server does not say whether it evicts keys");
            return !error.is_outage();
        }
    };
    if let Some(policy) = evicting_policy(&info) {
        tracing::warn!(
            capability,
            policy,
            "this Redis evicts keys when its memory is full, and this capability must not lose any: give it \
             a Redis of its own with maxmemory-policy noeviction (docs/sharing.md)"
        );
    }
    true
}

/// The policy by which a server with this `INFO memory` evicts; `None` if it evicts nothing.
fn evicting_policy(info: &str) -> Option<&str> {
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let limit: u64 = field("maxmemory")?.parse().ok()?;
    field("maxmemory_policy").filter(|policy| limit > 0 && *policy != "noeviction")
}

#[cfg(test)]
mod tests {
    use super::evicting_policy;

    #[test]
    fn a_policy_counts_only_with_a_limit() {
        let info = |limit: u64, policy: &str| {
            format!(
                "# Memory\r\nused_memory:1\r\nmaxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n"
            )
        };
        assert_eq!(evicting_policy(&info(100, "allkeys-lru")), Some("allkeys-lru"));
        assert_eq!(evicting_policy(&info(100, "volatile-ttl")), Some("volatile-ttl"));
        assert_eq!(evicting_policy(&info(100, "noeviction")), None);
        assert_eq!(evicting_policy(&info(0, "allkeys-lru")), None);
        assert_eq!(evicting_policy("# Memory\r\n"), None);
    }
}
