//! Placement of an inventory's shards, decided once for all processes.
//!
//! A shard's keys begin with `stock:{SKU:SHARD:SALT}`. The salt is the smallest number that places
//! the key on the primary that the shard is meant for: primary `i mod n` for shard `i`. The salts
//! are written to `stock:{SKU}:layout` before anything else and never change, so every process
//! finds the same keys, even after slots were moved to other nodes. With a single server all salts
//! are 0.

use redis::cmd;
use seawall_client::{
    Handle,
    client::{Client, Script},
    error::{Error, Result},
    key::KeyPart,
};

use super::inventory::Shard;

/// Salts that are tried for a shard. With a thousand primaries this fails with probability e⁻¹⁶.
const MAX_SALT: u32 = 16_384;
/// Maximum number of shards of an inventory.
pub const MAX_SHARDS: usize = 1_024;

static FOUND: Script = Script::with_time(include_str!("script/found.lua"));

/// Reads the layout of an inventory. If there is none, creates it with empty shards.
pub(super) async fn open(
    handle: &Handle,
    sku: &(impl KeyPart + ?Sized),
    shards: usize,
) -> Result<Vec<Shard>> {
    let client = handle.client();
    let key = [handle.key("stock", sku)?.as_slice(), b":layout"].concat();
    let known: Option<String> = client.query(&key, cmd("HGET").arg(&key).arg("salts")).await?;
    let proposed = match known {
        Some(known) => known,
        None => propose(handle, sku, shards)?,
    };
    let found = |step: &str| FOUND.on(&[&key]).arg(step).arg(&proposed);
    let (salts, made): (String, Option<String>) = client.eval(&found("LAYOUT")).await?;
    let salts: Option<Vec<u32>> = salts.split(' ').map(|salt| salt.parse().ok()).collect();
    let salts = salts
        .filter(|salts| (1..=MAX_SHARDS).contains(&salts.len()))
        .ok_or_else(|| Error::unexpected("an inventory's layout is not one"))?;
    let shards: Vec<Shard> = salts
        .iter()
        .enumerate()
        .map(|(shard, salt)| Ok(Shard::new(&shard_key(handle, sku, shard, *salt)?)))
        .collect::<Result<_>>()?;
    if made.is_none() {
        for shard in &shards {
            let _: String = client.eval(&FOUND.on(&[shard.key()]).arg("SHARD").arg("")).await?;
        }
        client.run(&found("MADE")).await?;
    }
    Ok(shards)
}

fn propose(handle: &Handle, sku: &(impl KeyPart + ?Sized), shards: usize) -> Result<String> {
    let primaries = handle.client().primary_numbers();
    let salts: Vec<String> = (0..shards)
        .map(|shard| {
            let wanted = primaries.get(shard % primaries.len().max(1)).copied();
            Ok(salt(handle.client(), wanted, |salt| shard_key(handle, sku, shard, salt))?
                .to_string())
        })
        .collect::<Result<_>>()?;
    Ok(salts.join(" "))
}

fn salt(client: &Client, wanted: Option<u64>, key: impl Fn(u32) -> Result<Vec<u8>>) -> Result<u32> {
    let Some(wanted) = wanted else { return Ok(0) };
    for salt in 0..MAX_SALT {
        if client.node_number(&key(salt)?) == wanted {
            return Ok(salt);
        }
    }
    // A primary with hardly any slots: the shard is placed anywhere.
    Ok(0)
}

fn shard_key(
    handle: &Handle,
    sku: &(impl KeyPart + ?Sized),
    shard: usize,
    salt: u32,
) -> Result<Vec<u8>> {
    handle.key("stock", &(sku, shard, salt))
}
