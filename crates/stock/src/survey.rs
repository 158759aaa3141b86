//! Reads all records of a shard, page by page.

use std::collections::BTreeMap;

use redis::cmd;
use seawall_client::error::Result;

use super::inventory::Inner;

/// Fields per page.
const PAGE: usize = 500;

impl Inner {
    /// Returns all records of a shard, by field. A record that changes meanwhile may be seen in its
    /// old or new state.
    pub(super) async fn survey(&self, shard: usize) -> Result<BTreeMap<String, String>> {
        let key = &self.shards[shard].keys[1];
        let mut all = BTreeMap::new();
        let mut cursor = 0u64;
        // Bounded by the server: a scan ends when its cursor has come round.
        loop {
            let (next, page): (u64, Vec<(String, String)>) = self
                .client
                .query(key, cmd("HSCAN").arg(key).arg(cursor).arg("COUNT").arg(PAGE))
                .await?;
            all.extend(page);
            cursor = next;
            if cursor == 0 {
                return Ok(all);
            }
        }
    }
}
