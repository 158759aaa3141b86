//! Leases in Redis: asked for, renewed, given back.

use std::time::Duration;

use redis::Value;
use seawall_client::{
    client::{Script, ScriptInvocation, Topology},
    error::Result,
};
use seawall_resilience::clock::millis;

use super::{
    remote::{Lease, RemoteTier, Stored},
    remote_replies::{parse_lease, parse_stored},
    remote_tags::Stamp,
};

static LEASE: Script = Script::with_time(include_str!("script/lease.lua"));
static RELEASE: Script = Script::with_time(include_str!("script/release.lua"));
static RENEW: Script = Script::with_time(include_str!("script/renew.lua"));

/// Leases that one script extends at most.
const BATCH: usize = 64;

/// A lease that is asked for together with others.
pub(crate) struct Wanted {
    pub(crate) entry: Vec<u8>,
    pub(crate) token: u64,
    pub(crate) stamp: Stamp,
    /// The version of an entry that is to be replaced although it looks good.
    pub(crate) replaces: Option<u64>,
}

/// The entry and token of a lease.
pub(crate) type LeaseId = (Box<[u8]>, u64);

impl RemoteTier {
    fn lease_call(
        &self,
        key: &[u8],
        token: u64,
        former: &[u64],
        stamp: Stamp,
        replaces: Option<u64>,
    ) -> ScriptInvocation {
        let former: Vec<u8> = former.iter().flat_map(|token| token.to_be_bytes()).collect();
        let replaces = replaces.map(|version| version.to_be_bytes().to_vec()).unwrap_or_default();
        LEASE
            .on(&[key])
            .arg(&token.to_be_bytes()[..])
            .arg(millis(self.lease_ttl))
            .arg(&self.shape.to_be_bytes()[..])
            .arg(&stamp.generations.to_be_bytes()[..])
            .arg(replaces)
            .arg(former)
    }

    /// Asks for the lease; `former` are tokens of requests whose replies were lost, `replaces` is the
    /// version that is to be refreshed.
    pub(crate) async fn lease(
        &self,
        key: &[u8],
        token: u64,
        former: &[u64],
        stamp: Stamp,
        replaces: Option<u64>,
    ) -> Result<Lease> {
        let call = self.lease_call(key, token, former, stamp, replaces);
        parse_lease(self.guarded(key, || self.client.run(&call)).await?)
    }

    /// Asks for several leases.
    pub(crate) async fn lease_many(&self, wanted: &[Wanted]) -> Vec<Result<Lease>> {
        let calls: Vec<ScriptInvocation> = wanted
            .iter()
            .map(|Wanted { entry, token, stamp, replaces }| {
                self.lease_call(entry, *token, &[], *stamp, *replaces)
            })
            .collect();
        let replies = self.run_guarded(&calls).await;
        replies.into_iter().map(|reply| parse_lease(reply?)).collect()
    }

    /// Gives a lease back.
    pub(crate) async fn release(&self, key: &[u8], token: u64) -> Result<()> {
        let call = RELEASE.on(&[key]).arg(&token.to_be_bytes()[..]).arg(self.names.wake(key));
        let call = call.arg("").arg("");
        self.guarded(key, || self.client.run(&call)).await.map(drop)
    }

    /// Gives a lease back and makes the entry of this version fresh for this long. Returns `None` if
    /// the lease or the entry is gone.
    pub(crate) async fn prolong(
        &self,
        key: &[u8],
        token: u64,
        version: u64,
        ttl: Duration,
    ) -> Result<Option<Stored>> {
        let call = RELEASE
            .on(&[key])
            .arg(&token.to_be_bytes()[..])
            .arg(self.names.wake(key))
            .arg(millis(ttl))
            .arg(&version.to_be_bytes()[..]);
        match self.guarded(key, || self.client.run(&call)).await? {
            reply @ Value::Array(_) => Ok(parse_stored(reply)?.0),
            _ => Ok(None),
        }
    }

    /// Extends leases. Returns the tokens of those that are gone.
    pub(crate) async fn renew(&self, held: &[LeaseId]) -> Vec<u64> {
        // On a Cluster each entry has a slot of its own.
        let batch = if self.client.topology() == Topology::Cluster { 1 } else { BATCH };
        let calls: Vec<ScriptInvocation> = held
            .chunks(batch)
            .map(|chunk| {
                let keys: Vec<&[u8]> = chunk.iter().map(|(entry, _)| &**entry).collect();
                let call = RENEW.on(&keys).arg(millis(self.lease_ttl));
                chunk.iter().fold(call, |call, (_, token)| call.arg(&token.to_be_bytes()[..]))
            })
            .collect();
        let mut lost = Vec::new();
        for (chunk, reply) in held.chunks(batch).zip(self.client.run_all(&calls).await) {
            match reply {
                Ok(Value::Array(alive)) => {
                    let gone = chunk.iter().zip(alive).filter(|(_, alive)| *alive == Value::Int(0));
                    lost.extend(gone.map(|((_, token), _)| *token));
                }
                Ok(other) => tracing::debug!(?other, "a renewal that is no list"),
                Err(error) => tracing::debug!(%error, "leases could not be renewed"),
            }
        }
        lost
    }
}
