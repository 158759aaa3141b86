//! One shard of a delayed queue: its keys, all in one slot, and the scripts over them.

use std::time::Duration;

use redis::{Value, cmd};
use seawall_client::{
    Script,
    client::{Client, ScriptInvocation},
    error::{Error, Result},
};
use seawall_resilience::clock::millis;

use super::{
    job::{Acked, Added, Changed, Dead, Given, JobState},
    lease::{Attempts, Back, Claimed, Claims, Due},
};

/// Most payload bytes in one command, unless a single payload is larger: the server handles nothing
/// else meanwhile.
pub(super) const MAX_BYTES_AT_ONCE: usize = 1 << 20;
/// Expired leases that one claim looks at.
const LEASES_AT_ONCE: usize = 256;

static ADD: Script = Script::with_time(include_str!("script/add.lua"));
static CLAIM: Script = Script::with_time(include_str!("script/claim.lua"));
static BEGIN: Script = Script::with_time(include_str!("script/begin.lua"));
static ACK: Script = Script::with_time(include_str!("script/ack.lua"));
static NACK: Script = Script::with_time(include_str!("script/nack.lua"));
static EXTEND: Script = Script::with_time(include_str!("script/extend.lua"));
static CHANGE: Script = Script::with_time(include_str!("script/change.lua"));

/// The keys of one shard.
#[derive(Debug)]
pub(super) struct Shard {
    client: Client,
    waiting: Vec<u8>,
    leased: Vec<u8>,
    payloads: Vec<u8>,
    tokens: Vec<u8>,
    dead: Vec<u8>,
    notes: Vec<u8>,
    finished: Vec<u8>,
    last: Vec<u8>,
    pub(super) channel: Vec<u8>,
}

/// Lease time, attempt limit and deduplication time.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeliveryPolicy {
    pub(super) lease: Duration,
    pub(super) attempts: u64,
    pub(super) remember: Duration,
}

/// A change to an item that is not leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Cancel,
    Move(Duration),
    Revive(Duration),
}

impl Shard {
    pub(super) fn new(client: Client, base: &[u8]) -> Self {
        let part = |name: &str| [base, b":", name.as_bytes()].concat();
        Shard {
            client,
            waiting: base.to_vec(),
            leased: part("leased"),
            payloads: part("payloads"),
            tokens: part("tokens"),
            dead: part("dead"),
            notes: part("notes"),
            finished: part("finished"),
            last: part("last"),
            channel: part("due"),
        }
    }

    pub(super) async fn add(
        &self,
        items: &[(&str, Vec<u8>, Duration)],
        policy: DeliveryPolicy,
    ) -> Result<Vec<Added>> {
        let keys = [&self.waiting, &self.leased, &self.payloads, &self.finished];
        let mut call = ADD.on(&keys).arg(&self.channel).arg(millis(policy.remember));
        for (id, payload, after) in items {
            call = call.arg(*id).arg(payload).arg(millis(*after));
        }
        let outcomes: Vec<String> = self.client.eval(&call).await?;
        let added = |outcome: String| {
            Ok(match &*outcome {
                "added" => Added::Now,
                "waiting" => Added::Before(JobState::Waiting),
                "leased" => Added::Before(JobState::Leased),
                "dead" => Added::Before(JobState::Dead),
                "finished" => Added::Before(JobState::Finished),
                _ => return Err(strange(&outcome)),
            })
        };
        outcomes.into_iter().map(added).collect()
    }

    /// Claims due items.
    ///
    /// An item that must run alone is returned only if `alone` allows it, and then as the only
    /// item.
    pub(super) async fn claim(
        &self,
        count: usize,
        alone: bool,
        policy: DeliveryPolicy,
    ) -> Result<Claims> {
        let Shard { waiting, leased, payloads, tokens, dead, notes, last, .. } = self;
        let call = CLAIM
            .on(&[waiting, leased, payloads, tokens, dead, notes, last])
            .arg(count)
            .arg(millis(policy.lease))
            .arg(policy.attempts)
            .arg(LEASES_AT_ONCE)
            .arg(MAX_BYTES_AT_ONCE)
            .arg(u8::from(alone));
        type Row = (String, u64, u64, u8, Option<Vec<u8>>, i64);
        let (wait, died, rows): (i64, u64, Vec<Row>) = self.client.eval(&call).await?;
        let now = self.client.clock().now();
        let items = rows.into_iter().map(|(id, token, counted, alone, payload, late)| Claimed {
            id,
            token,
            attempts: Attempts { counted: counted + 1, alone: alone == 1 },
            payload: payload.unwrap_or_default(),
            due: Due {
                late: Duration::from_millis(u64::try_from(late).unwrap_or(0)),
                claimed: now,
            },
        });
        let next_in = u64::try_from(wait).ok().map(Duration::from_millis);
        Ok(Claims { items: items.collect(), next_in, died })
    }

    /// Records that an item is begun alone, and extends its lease from now on. Returns `false` if
    /// the lease is lost.
    pub(super) async fn begin(
        &self,
        (id, token): (&str, u64),
        attempts: Attempts,
        lease: Duration,
    ) -> Result<bool> {
        let call = BEGIN.on(&[&self.leased, &self.tokens, &self.notes]);
        let call = call.arg(id).arg(token).arg(attempts.counted).arg(millis(lease));
        Ok(self.client.eval::<u64>(&call).await? == 1)
    }

    pub(super) async fn ack(
        &self,
        items: &[(&str, u64)],
        policy: DeliveryPolicy,
    ) -> Result<Vec<Acked>> {
        let keys = [&self.leased, &self.payloads, &self.tokens, &self.finished, &self.notes];
        let call = pairs(ACK.on(&keys).arg(millis(policy.remember)), items);
        let outcomes: Vec<u64> = self.client.eval(&call).await?;
        Ok(outcomes
            .into_iter()
            .map(|done| if done == 1 { Acked::Done } else { Acked::Lost })
            .collect())
    }

    pub(super) async fn give_back(
        &self,
        (id, token, attempts): (&str, u64, Attempts),
        after: Duration,
        back: Back,
        reason: &str,
    ) -> Result<Given> {
        let keys = [&self.waiting, &self.leased, &self.tokens, &self.dead, &self.notes];
        let counted = attempts.counted;
        let before = counted.saturating_sub(1);
        let (tally, limit) = match back {
            Back::Counted { limit } => (counted.to_string(), limit.to_string()),
            Back::Free => (before.to_string(), "-1".to_owned()),
            Back::Unbegun if attempts.alone => (format!("{before}.5"), "-1".to_owned()),
            Back::Unbegun => (before.to_string(), "-1".to_owned()),
            Back::Dead => (counted.to_string(), "0".to_owned()),
            Back::Unread => (before.to_string(), "0".to_owned()),
        };
        let call = NACK.on(&keys).arg(id).arg(token).arg(millis(after)).arg(tally).arg(limit);
        let outcome: String = self.client.eval(&call.arg(reason).arg(&self.channel)).await?;
        Ok(match &*outcome {
            "waiting" => Given::Waiting,
            "dead" => Given::Dead,
            "lost" => Given::Lost,
            _ => return Err(strange(&outcome)),
        })
    }

    /// Extends leases from now on. Returns `false` for each lease that is lost.
    pub(super) async fn extend(&self, items: &[(&str, u64)], lease: Duration) -> Result<Vec<bool>> {
        let keys = [&self.leased, &self.tokens];
        let call = pairs(EXTEND.on(&keys).arg(millis(lease)), items);
        let outcomes: Vec<u64> = self.client.eval(&call).await?;
        Ok(outcomes.into_iter().map(|extended| extended == 1).collect())
    }

    pub(super) async fn change(&self, id: &str, change: Change) -> Result<Changed> {
        let keys =
            [&self.waiting, &self.leased, &self.payloads, &self.tokens, &self.dead, &self.notes];
        let (word, after) = match change {
            Change::Cancel => ("cancel", Duration::ZERO),
            Change::Move(after) => ("move", after),
            Change::Revive(after) => ("revive", after),
        };
        let call = CHANGE.on(&keys).arg(id).arg(word).arg(millis(after)).arg(&self.channel);
        let outcome: String = self.client.eval(&call).await?;
        Ok(match &*outcome {
            "done" => Changed::Done,
            "leased" => Changed::Leased,
            "dead" => Changed::Dead,
            "unknown" => Changed::Unknown,
            _ => return Err(strange(&outcome)),
        })
    }

    /// Returns the number of waiting, leased and dead items.
    pub(super) async fn counts(&self) -> Result<[u64; 3]> {
        let count = |key: &Vec<u8>| (key.clone(), cmd("ZCARD").arg(key).to_owned());
        let commands = vec![count(&self.waiting), count(&self.leased), count(&self.dead)];
        let mut counts = [0; 3];
        for (place, reply) in counts.iter_mut().zip(self.client.send_all(commands).await) {
            *place = redis::from_redis_value(reply?)?;
        }
        Ok(counts)
    }

    /// Returns dead items; those that died first come first.
    pub(super) async fn dead(&self, count: usize) -> Result<Vec<Dead>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut range = cmd("ZRANGE");
        range.arg(&self.dead).arg(0).arg(count - 1);
        let ids: Vec<String> = self.client.query(&self.dead, &range).await?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let fields = |key: &Vec<u8>| (key.clone(), cmd("HMGET").arg(key).arg(&ids).to_owned());
        let commands = vec![fields(&self.notes), fields(&self.tokens), fields(&self.payloads)];
        let mut columns = Vec::with_capacity(3);
        for reply in self.client.send_all(commands).await {
            let column: Vec<Value> = redis::from_redis_value(reply?)?;
            columns.push(column);
        }
        let cell = |column: usize, row: usize| {
            columns.get(column).and_then(|values| match values.get(row) {
                Some(Value::BulkString(bytes)) => Some(bytes.clone()),
                _ => None,
            })
        };
        let text = |column, row| {
            String::from_utf8_lossy(&cell(column, row).unwrap_or_default()).into_owned()
        };
        let dead = |(row, id)| Dead {
            id,
            reason: text(0, row),
            attempts: text(1, row).parse().unwrap_or(0),
            payload: cell(2, row).unwrap_or_default(),
        };
        Ok(ids.into_iter().enumerate().map(dead).collect())
    }
}

fn pairs(mut call: ScriptInvocation, items: &[(&str, u64)]) -> ScriptInvocation {
    for (id, token) in items {
        call = call.arg(*id).arg(*token);
    }
    call
}

fn strange(outcome: &str) -> Error {
    Error::unexpected(format!("{outcome:?} is not an answer of the queue's"))
}
