//! Acquires a lock and waits until replicas have it, before the caller relies on it.
//!
//! `WAIT` refers to the writes of its own connection and delays all commands behind it, so the
//! script and the `WAIT` use a dedicated connection. Too few acknowledgements count as a refusal:
//! the caller gives the lock back. This narrows the window in which a fail-over forgets a lock, but
//! does not close it, because a replica that did not acknowledge may be the one that is promoted.

use redis::{Pipeline, Value, cmd};
use seawall_client::{
    client::{Client, ScriptInvocation},
    error::{Error, Result},
};
use seawall_resilience::clock::millis;

use super::request::Replicas;

/// Runs the call and waits for the replicas.
pub(super) async fn run(
    client: &Client,
    call: &ScriptInvocation,
    replicas: Replicas,
) -> Result<Value> {
    let mut connection = client.dedicated(call.key()).await?;
    let limit = client.response_timeout() + replicas.limit;
    let mut pipeline = Pipeline::with_capacity(2);
    // Sent in full, because this server may not have the script yet.
    pipeline.add_command(call.in_full());
    pipeline.add_command(cmd("WAIT").arg(replicas.count).arg(millis(replicas.limit)).clone());
    let mut replies = connection.send_all(&pipeline, limit).await?.into_iter();
    let mut next =
        || replies.next().unwrap_or_else(|| Err(Error::unexpected("a pipeline lost a reply")));
    let (reply, acknowledged) = (next()?, next()?);
    let acknowledged: u32 = redis::from_redis_value(acknowledged)?;
    if acknowledged < replicas.count && super::request::Answer::read(reply.clone())?.is_held() {
        let message = format!("{acknowledged} of {} replicas have the lock", replicas.count);
        return Err(Error::Refused { code: "NOREPLICAS".into(), message: message.into() });
    }
    Ok(reply)
}
