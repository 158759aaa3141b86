//! The upkeep of a worker's groups: create them, show their state, remove old consumers.

use std::{sync::atomic::Ordering, time::Duration};

use redis::cmd;
use seawall_client::{Script, error::Result};
use seawall_resilience::clock::millis;

use super::{builder::Start, intake::GroupConsumer, status};

/// Silence after which a consumer without pending entries is removed.
const FORGET_AFTER: Duration = Duration::from_secs(3600);

static FORGET: Script = Script::new(include_str!("script/forget_consumers.lua"));

impl<T> GroupConsumer<T> {
    /// Creates missing groups.
    ///
    /// A group may start with new entries only the first time: a stream that was deleted while the
    /// worker runs is read from its beginning.
    pub(super) async fn ensure_groups(&self) -> Result<()> {
        let first = !self.began.load(Ordering::Relaxed);
        let start = if first && self.settings.start == Start::Now { "$" } else { "0" };
        let commands = self.streams.iter().map(|stream| {
            let mut create = cmd("XGROUP");
            create.arg("CREATE").arg(&stream.key).arg(&self.settings.group);
            create.arg(start).arg("MKSTREAM");
            (stream.key.clone(), create)
        });
        let replies = self.client.send_all(commands.collect()).await;
        for (stream, reply) in self.streams.iter().zip(replies) {
            match reply {
                Ok(_) => {}
                Err(error) if error.is_code("BUSYGROUP") => {}
                // Redis: with OOM the command is refused before it checks whether the group exists.
                // The worker must go on, because workers free memory.
                Err(error) if error.is_code("OOM") && self.has_group(&stream.key).await? => {}
                Err(error) => return Err(error),
            }
        }
        self.began.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn has_group(&self, key: &[u8]) -> Result<bool> {
        let groups = self.client.send(key, cmd("XINFO").arg("GROUPS").arg(key)).await;
        Ok(status::find_group(groups, &self.settings.group)?.is_some())
    }

    /// Shows the group's state in the metrics. A failure is not fatal.
    pub(super) async fn show(&self) {
        for stream in &self.streams {
            match status::ask(stream, &self.settings.group).await {
                Ok(status) => self.meter.show(&status),
                Err(error) => tracing::debug!(stream = %stream.name, %error, "not shown"),
            }
        }
    }

    /// Removes consumers that have been silent for long, and the consumer `also`.
    pub(super) async fn forget_consumers(&self, also: Option<&str>) -> Result<()> {
        let silence = FORGET_AFTER.max(self.settings.claim_idle.saturating_mul(10));
        for stream in &self.streams {
            let call = FORGET
                .on(&[&stream.key])
                .arg(&self.settings.group)
                .arg(millis(silence))
                .arg(also.unwrap_or_default());
            self.client.run(&call).await?;
        }
        Ok(())
    }
}
