//! Deleting what is too big to be deleted at once.
//!
//! UNLINK frees memory in the background, which is good enough for keys of moderate size; a hash of
//! millions of fields still keeps that thread, and every replica, busy for long. So large collections
//! are emptied in slices with pauses between them, and what is left is unlinked.

use std::time::Duration;

use crate::{
    Handle, MAX_COMMAND_MEMBERS,
    client::Script,
    error::{Error, Result},
};
use redis::cmd;

static PICK: Script = Script::new(include_str!("script/slice.lua"));

/// Collections with at most this many members are unlinked at once.
const MODERATE: u64 = 5000;
/// Members of a slice.
const SLICE: usize = MAX_COMMAND_MEMBERS / 2;
/// How long the server has for others after each slice.
const PAUSE: Duration = Duration::from_millis(2);
/// More slices than any collection has.
const MAX_SLICES: u64 = 1 << 32;

/// How far a deletion got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Unlinked {
    /// Members that are gone; for a string 1.
    pub members: u64,
    /// Members that there were when it began.
    pub of: u64,
}

/// Deletes a key of any type and size: small ones at once, large ones in slices of 500 members with
/// pauses between them. `progress` hears of each slice. A key that is written to meanwhile may
/// survive with what was written.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, bigkey::unlink_slowly};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let done = unlink_slowly(&seawall, b"old-index", |slice| println!("{slice:?}")).await?;
/// assert_eq!(done.members, 0);
/// # seawall.shutdown().await; Ok(()) }
/// ```
///
/// # Errors
/// As [`Client::send`](seawall_client::Client::send): call again to go on.
pub async fn unlink_slowly(
    handle: &Handle,
    key: &[u8],
    mut progress: impl FnMut(Unlinked),
) -> Result<Unlinked> {
    let client = handle.client();
    let kind: String = client.query(key, cmd("TYPE").arg(key)).await?;
    let count = match kind.as_str() {
        "hash" => "HLEN",
        "set" => "SCARD",
        "zset" => "ZCARD",
        "list" => "LLEN",
        "stream" => "XLEN",
        _ => "EXISTS",
    };
    let of: u64 = client.query(key, cmd(count).arg(key)).await?;
    let mut done = Unlinked { members: 0, of };
    if of > MODERATE {
        for _ in 0..MAX_SLICES {
            let removed = slice(handle, key, &kind, of - done.members.min(of)).await?;
            done.members += removed;
            progress(done);
            if removed == 0 || done.members >= of {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    client.send(key, cmd("UNLINK").arg(key)).await?;
    done.members = done.members.max(of);
    progress(done);
    Ok(done)
}

/// Removes some members; how many, 0 when there is nothing to slice.
async fn slice(handle: &Handle, key: &[u8], kind: &str, left: u64) -> Result<u64> {
    let client = handle.client();
    let whole = SLICE as u64;
    match kind {
        "zset" => client.query(key, cmd("ZREMRANGEBYRANK").arg(key).arg(0).arg(SLICE - 1)).await,
        "list" => {
            client.send(key, cmd("LTRIM").arg(key).arg(SLICE).arg(-1)).await?;
            Ok(left.min(whole))
        }
        "stream" => {
            let keep = left.saturating_sub(whole);
            client.query(key, cmd("XTRIM").arg(key).arg("MAXLEN").arg(keep)).await
        }
        "hash" | "set" => client.eval(&PICK.on(&[key]).arg(kind).arg(SLICE)).await,
        "string" | "none" => Ok(0),
        other => Err(Error::unexpected(format!("a key of type {other}"))),
    }
}
