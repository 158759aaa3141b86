//! Parses the replies of the remote tier's scripts.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use seawall_client::{
    client::Reply,
    error::{Error, Result},
};

use crate::tier::remote::{Lease, Stored};

pub(crate) fn bytes(reply: Reply) -> Result<Option<Bytes>> {
    match reply {
        Reply::Nil => Ok(None),
        Reply::String(bytes) => Ok(Some(bytes)),
        other => Err(Error::unexpected(format!("an entry that is {other:?}"))),
    }
}

pub(crate) fn parse_lease(reply: Value) -> Result<Lease> {
    let Value::Array(parts) = reply else {
        return Err(Error::unexpected("a lease that is no list"));
    };
    let mut parts = parts.into_iter();
    match (parts.next(), parts.next()) {
        (Some(Value::BulkString(word)), Some(Value::BulkString(entry))) if word == b"value" => {
            Ok(Lease::Value(entry))
        }
        (Some(Value::BulkString(word)), None) if word == b"granted" => Ok(Lease::Granted),
        (Some(Value::BulkString(word)), None) if word == b"changed" => Ok(Lease::Changed),
        (Some(Value::BulkString(word)), None) if word == b"newer" => Ok(Lease::Newer),
        (Some(Value::BulkString(word)), Some(Value::Int(left))) if word == b"busy" => {
            Ok(Lease::Busy(Duration::from_millis(left.unsigned_abs())))
        }
        other => Err(Error::unexpected(format!("a lease that says {other:?}"))),
    }
}

/// Parses what was stored, and the manifest of the parts that it replaced.
pub(crate) fn parse_stored(reply: Value) -> Result<(Option<Stored>, Option<Value>)> {
    let Value::Array(mut reply) = reply else {
        return Err(Error::unexpected("a fill that is no list"));
    };
    let replaced = if reply.len() == 4 { reply.pop() } else { None };
    match reply.as_slice() {
        [] | [_] => Ok((None, replaced)),
        [Value::Int(version), Value::Int(fresh_until), Value::Int(stale_until)] => {
            let stored = Stored {
                version: version.unsigned_abs(),
                fresh_until: fresh_until.unsigned_abs(),
                stale_until: stale_until.unsigned_abs(),
            };
            Ok((Some(stored), replaced))
        }
        other => Err(Error::unexpected(format!("a fill that says {other:?}"))),
    }
}
