//! Deletes keys that are too large to delete in one step.
//!
//! UNLINK frees memory in the background, which is sufficient for keys of moderate size. A hash
//! with millions of fields, however, keeps that background thread and every replica busy for a long
//! time. Large collections are therefore emptied in slices with pauses in between, and the rest is
//! unlinked.

use std::time::Duration;

use crate::{
    Handle, MAX_COMMAND_MEMBERS,
    client::Script,
    error::{Error, Result},
};
use redis::cmd;

static PICK: Script = Script::new(include_str!("script/slice.lua"));

/// Collections with at most this many members are unlinked in one step.
const MODERATE: u64 = 5000;
/// Members per slice.
const SLICE: usize = MAX_COMMAND_MEMBERS / 2;
/// Pause after each slice, in which the server handles other requests.
const PAUSE: Duration = Duration::from_millis(2);
/// Upper bound of the loop: more slices than any collection has.
const MAX_SLICES: u64 = 1 << 32;

/// Progress of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Unlinked {
    /// Members deleted so far; 1 for a string.
    pub members: u64,
    /// Members at the start of the deletion.
    pub of: u64,
}

/// Deletes a key of any type and size.
///
/// Collections of up to 5000 members are deleted at once, larger ones in slices of 500 members with
/// pauses in between. `progress` is called after each slice. If another client writes to the key
/// during the deletion, the key may survive with what was written.
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
/// As [`Client::send`](crate::Client::send). Call again to continue.
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
            client.network_clock().sleep(PAUSE).await;
        }
    }
    client.send(key, cmd("UNLINK").arg(key)).await?;
    done.members = done.members.max(of);
    progress(done);
    Ok(done)
}

/// Removes one slice and returns the number of members removed; 0 if there is nothing to slice.
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
