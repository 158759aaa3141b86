//! The stream of one shard as a worker of the consumer group sees it: entries in, verdicts out.
//!
//! Reading blocks, and so has a connection of its own. Whenever that is opened anew, what was
//! delivered before but never handled (this process was killed, or a reply was lost) comes first:
//! the entries that are pending under this consumer's name.

use std::time::Duration;

use seawall::{Cmd, FromRedisValue as _, Link, Script, cmd, link::Lane};

use super::{Order, Status, store::Placed};
use crate::{
    error::Result,
    keys::{self, Shard},
};

/// The one group that writes orders.
pub(super) const GROUP: &str = "orders";
/// Entries that are taken at once.
const BATCH: usize = 64;
/// How long a read waits for the first entry.
const BLOCK: Duration = Duration::from_secs(2);
/// How long an entry is left to its worker before another takes it over.
const TAKE_OVER_AFTER: Duration = Duration::from_secs(30);
/// Dead letters that are kept for each shard.
const MAX_DEAD: usize = 10_000;

static SETTLE: Script = Script::new(include_str!("settle.lua"));
static PARK: Script = Script::new(include_str!("park.lua"));

/// Entries as Redis sends them: id, and fields or nothing when the entry is gone.
type Entries = Vec<(String, Option<Vec<String>>)>;

/// One entry of the stream.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    /// `None` when it cannot be understood.
    pub(super) order: Option<Order>,
}

/// One shard's stream, under one consumer's name.
#[derive(Debug)]
pub(super) struct Queue {
    link: Link,
    shard: Shard,
    consumer: String,
}

impl Queue {
    pub(super) fn new(link: Link, shard: Shard, consumer: String) -> Self {
        Queue { link, shard, consumer }
    }

    /// Makes the group where there is none. It begins at the stream's first entry: what was
    /// appended before the group existed counts.
    pub(super) async fn ensure_group(&self) -> Result<()> {
        let key = self.shard.orders();
        let mut create = cmd("XGROUP");
        create.arg("CREATE").arg(&key).arg(GROUP).arg("0").arg("MKSTREAM");
        match self.link.send(&key, &create).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_code("BUSYGROUP") => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A connection for [`Queue::wait`].
    pub(super) async fn lane(&self) -> seawall::Result<Lane> {
        self.link.lane(&self.shard.orders()).await
    }

    /// New entries; waits for the first. None when none came.
    pub(super) async fn wait(&self, lane: &mut Lane) -> seawall::Result<Vec<Entry>> {
        let limit = BLOCK + self.link.response_timeout();
        let block = BLOCK.as_millis().to_string();
        let reply = lane.send(&self.read(">", Some(&block)), limit).await?;
        Ok(entries(reply))
    }

    /// New entries that are there already.
    pub(super) async fn take(&self) -> seawall::Result<Vec<Entry>> {
        let reply = self.link.query(&self.shard.orders(), &self.read(">", None)).await?;
        Ok(entries(reply))
    }

    /// Entries after `start` that were delivered to this consumer and never settled.
    pub(super) async fn pending(&self, start: &str) -> seawall::Result<Vec<Entry>> {
        let reply = self.link.query(&self.shard.orders(), &self.read(start, None)).await?;
        Ok(entries(reply))
    }

    fn read(&self, start: &str, block: Option<&str>) -> Cmd {
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg(GROUP).arg(&self.consumer).arg("COUNT").arg(BATCH);
        if let Some(millis) = block {
            read.arg("BLOCK").arg(millis);
        }
        read.arg("STREAMS").arg(self.shard.orders()).arg(start);
        read
    }

    /// Takes over entries whose worker has not settled them for long.
    pub(super) async fn take_over(&self) -> seawall::Result<Vec<Entry>> {
        let key = self.shard.orders();
        let mut claim = cmd("XAUTOCLAIM");
        claim.arg(&key).arg(GROUP).arg(&self.consumer);
        claim.arg(TAKE_OVER_AFTER.as_millis().to_string()).arg("0-0").arg("COUNT").arg(BATCH);
        // Redis: 7.0 adds a third element, the ids of entries that are gone.
        let reply: Vec<seawall::Value> = self.link.query(&key, &claim).await?;
        let list = reply.into_iter().nth(1).unwrap_or(seawall::Value::Nil);
        Ok(Option::<Entries>::from_redis_value(list)?.map(decode).unwrap_or_default())
    }

    /// How often an entry was delivered.
    pub(super) async fn deliveries(&self, entry: &Entry) -> seawall::Result<u64> {
        let key = self.shard.orders();
        let mut pending = cmd("XPENDING");
        pending.arg(&key).arg(GROUP).arg(&entry.id).arg(&entry.id).arg(1);
        let rows: Vec<(String, String, u64, u64)> = self.link.query(&key, &pending).await?;
        Ok(rows.first().map_or(0, |(_, _, _, count)| *count))
    }

    /// Takes an order out of the queue after the database's word.
    pub(super) async fn settle(&self, entry: &str, order: &Order, placed: Placed) -> Result<()> {
        let (verdict, instead) = match placed {
            Placed::Duplicate { has } => ("RETURNED", has.to_string()),
            Placed::SoldOut => ("REFUSED", String::new()),
            Placed::Kept | Placed::Killed => ("KEPT", String::new()),
        };
        let voucher = order.voucher_id;
        let keys =
            [self.shard.orders(), self.shard.queued(), keys::sale(voucher), keys::buyers(voucher)];
        let call = SETTLE.on(&keys).arg(GROUP).arg(entry).arg(order.id).arg(order.user_id);
        self.link.run(&call.arg(verdict).arg(instead)).await?;
        Ok(())
    }

    /// Moves an entry to the dead letters.
    pub(super) async fn park(&self, entry: &Entry, why: &str) -> Result<()> {
        let keys = [self.shard.orders(), self.shard.dead(), self.shard.queued()];
        let order = entry.order.as_ref().map(|order| order.id.to_string()).unwrap_or_default();
        let call = PARK.on(&keys).arg(GROUP).arg(&entry.id).arg(MAX_DEAD).arg(why).arg(order);
        self.link.run(&call).await?;
        Ok(())
    }
}

fn entries(reply: Option<Vec<(String, Entries)>>) -> Vec<Entry> {
    reply.into_iter().flatten().flat_map(|(_, list)| decode(list)).collect()
}

fn decode(list: Entries) -> Vec<Entry> {
    let entry = |(id, fields): (String, Option<Vec<String>>)| {
        let order = fields.as_deref().and_then(order);
        Entry { id, order }
    };
    list.into_iter().map(entry).collect()
}

/// The order that `reserve.lua` appended.
fn order(fields: &[String]) -> Option<Order> {
    let field = |name: &str| {
        let mut pairs = fields.chunks_exact(2);
        pairs.find(|pair| pair[0] == name).and_then(|pair| pair[1].parse::<u64>().ok())
    };
    Some(Order {
        id: field("order")?,
        user_id: field("user")?,
        voucher_id: field("voucher")?,
        status: Status::Queued,
        create_time: field("time").and_then(|time| i64::try_from(time).ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[&str]) -> Vec<String> {
        pairs.iter().map(|&field| field.to_owned()).collect()
    }

    #[test]
    fn an_entry_is_understood_in_any_order_of_fields_or_not_at_all() {
        let good = order(&fields(&["voucher", "3", "user", "2", "order", "1", "new", "x"]));
        let good = good.expect("all that is needed is there");
        assert_eq!((good.id, good.user_id, good.voucher_id), (1, 2, 3));
        for bad in [
            &["order", "1", "user", "2"][..],
            &["order", "-1", "user", "2", "voucher", "3"],
            &["x"],
        ] {
            assert!(order(&fields(bad)).is_none(), "{bad:?}");
        }
    }
}
