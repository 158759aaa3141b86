//! Invalidates every entry of a cache.
//!
//! Where the cache has a generation, raising it is one step. Without one the entries are looked for,
//! server by server: `SCAN` gives every key that is there all the time, so what was stored or leased
//! before the sweep began is found, and what is loaded after that is newer than everything that the
//! sweep stands for. Keys that only look like ours are left alone.
//!
//! Not covered: a slot that moves from a server that was not searched yet to one that was.

use redis::{Value, cmd};
use seawall_client::error::Result;

use crate::{backplane::message::about_all, recovery::backlog::Bump, tier::remote::RemoteTier};

/// How many keys a server looks at in one step.
const STEP: usize = 500;
/// How an entry begins: see `envelope.rs`.
const MAGIC: &[u8] = b"\xc5\x01";

/// How all entries are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// They count under a generation.
    Generation,
    /// They have to be looked for.
    Search,
}

/// Invalidates every entry, then tells every local tier.
pub(crate) async fn sweep(remote: &RemoteTier, way: Sweep) -> Result<()> {
    if way == Sweep::Generation {
        return remote.bump(&Bump::everything(&remote.names)).await;
    }
    let pattern = remote.names.entries_pattern();
    for node in remote.client.nodes() {
        let mut cursor = 0_u64;
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(STEP);
            let reply = node.send(&scan).await?;
            let (next, keys): (u64, Vec<Vec<u8>>) = redis::from_redis_value(reply)?;
            let ours = only_ours(remote, keys).await?;
            if !ours.is_empty() {
                let outcome = remote.invalidate(ours, false).await;
                outcome.error.map_or(Ok(()), Err)?;
            }
            cursor = next;
            // It comes back to 0 after at most all keys of the server.
            if cursor == 0 {
                break;
            }
        }
    }
    // Local tiers may have copies of what Redis no longer has.
    remote.announce(&about_all()).await
}

async fn only_ours(remote: &RemoteTier, keys: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    let heads = keys.iter().map(|key| {
        let mut head = cmd("GETRANGE");
        head.arg(key).arg(0).arg(MAGIC.len() - 1);
        (key.clone(), head)
    });
    let heads = remote.client.send_all(heads.collect()).await;
    let mut ours = Vec::new();
    for (key, head) in keys.into_iter().zip(heads) {
        match head {
            Ok(Value::BulkString(head)) if head == MAGIC => ours.push(key),
            Ok(_) => {}
            // Not a string: the key belongs to another program.
            Err(error) if error.is_code("WRONGTYPE") => {}
            Err(error) => return Err(error),
        }
    }
    Ok(ours)
}
