//! Adds buckets while clients go on reading and writing.
//!
//! Each old bucket is moved separately, in slices of at most 200 members:
//!
//! 1. *Seal*: members of the old bucket are marked as moving. They can be read there, but not
//!    written.
//! 2. *Copy*: each new bucket concerned takes its share of the slice, once: it remembers the number
//!    of the last slice, so that a second copy by a slow process does not bring deleted members
//!    back.
//! 3. *Unseal*: the slice is removed from the old bucket; from now on its members are looked up in
//!    the new one.
//!
//! When an old bucket is empty it is closed permanently, and when all are, they are removed from
//! the directory. Any step can be done twice and by any process: if a process dies, the next call,
//! or a writer that finds the slice, finishes its work. A member is always in at least one bucket,
//! and a member that is in two (between 2 and 3) cannot be changed.

use std::collections::BTreeMap;

use redis::Value;
use seawall_client::{
    client::{Script, ScriptInvocation},
    error::{Error, Result},
};
use seawall_resilience::clock::millis;

use super::{
    core::{BATCH_BYTES, Core, TOMBSTONE},
    layout::{Bucket, Generation, Layout, place},
};

static SEAL: Script = Script::new(include_str!("script/seal.lua"));
static COPY: Script = Script::new(include_str!("script/copy.lua"));
static UNSEAL: Script = Script::new(include_str!("script/unseal.lua"));

/// Most members of a slice.
const SLICE: usize = 200;
/// How often growing restarts because another process was growing the collection, too.
const MAX_TURNS: u32 = 64;
/// Most slices of one bucket; with the bytes of a slice far more than a bucket can hold.
const MAX_SLICES: u64 = 1 << 32;

/// Progress of growing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Growth {
    /// Number of buckets, once growing is complete.
    pub buckets: u64,
    /// Old buckets that are empty so far.
    pub emptied: u64,
    /// Number of old buckets.
    pub of: u64,
    /// Members that this call moved.
    pub moved: u64,
}

enum Slice {
    Gone,
    None,
    Members(u64, Vec<(Vec<u8>, Vec<u8>)>),
}

impl Core {
    /// Ensures that there are at least this many buckets, and that nothing is left in older ones.
    pub(super) async fn grow(
        &self,
        buckets: u64,
        mut progress: impl FnMut(Growth),
    ) -> Result<Growth> {
        super::check_buckets(buckets)?;
        let mut growth = Growth::default();
        for _ in 0..MAX_TURNS {
            let layout = match self.look().await? {
                Some(layout) => layout,
                None => {
                    let made = self.names.create(b"", buckets).await?;
                    self.remember(Some(made)).ok_or(Error::Closed)?
                }
            };
            let Some(next) = layout.next else {
                let current = layout.current;
                if current.buckets >= buckets && layout.plain.is_none() {
                    return Ok(Growth { buckets: current.buckets, ..growth });
                }
                let wanted = buckets.div_ceil(current.buckets) * current.buckets;
                self.names.grow(current, wanted).await?;
                continue;
            };
            growth = Growth { buckets: next.buckets, of: layout.current.buckets, ..growth };
            for index in 0..layout.current.buckets {
                self.empty(&layout, next, index, &mut growth, &mut progress).await?;
                growth.emptied = index + 1;
                progress(growth);
            }
            self.names.flip(layout.current, next).await?;
            self.forget(&layout).await?;
        }
        Err(Error::Unavailable("somebody else keeps growing it".into()))
    }

    async fn empty(
        &self,
        layout: &Layout,
        next: Generation,
        index: u64,
        growth: &mut Growth,
        progress: &mut impl FnMut(Growth),
    ) -> Result<()> {
        let bucket = self.names.bucket(layout, layout.current, index)?;
        for _ in 0..MAX_SLICES {
            match self.slice(&bucket, "begin").await? {
                Slice::Gone | Slice::None => return Ok(()),
                Slice::Members(number, members) => {
                    growth.moved += self.carry(layout, next, &bucket, number, members).await?;
                    progress(*growth);
                }
            }
        }
        Ok(())
    }

    /// Finishes the move of the slice that is leaving this bucket.
    pub(super) async fn help(&self, layout: &Layout, bucket: &Bucket) -> Result<()> {
        let seen = match layout.next {
            Some(_) => None,
            None => self.look().await?,
        };
        let layout = seen.as_deref().unwrap_or(layout);
        let Some(next) = layout.next else { return Ok(()) };
        if let Slice::Members(number, members) = self.slice(bucket, "help").await? {
            self.carry(layout, next, bucket, number, members).await?;
        }
        Ok(())
    }

    async fn slice(&self, bucket: &Bucket, purpose: &str) -> Result<Slice> {
        let call = SEAL
            .on(&bucket.keys())
            .arg(self.kind().type_word())
            .arg(SLICE)
            .arg(BATCH_BYTES)
            .arg(millis(TOMBSTONE))
            .arg(purpose);
        let mut reply = self.handle().client().eval::<Vec<Value>>(&call).await?.into_iter();
        match (reply.next(), reply.next()) {
            (Some(Value::BulkString(word)), None) if word == b"gone" => Ok(Slice::Gone),
            (Some(Value::BulkString(word)), None) if word == b"none" => Ok(Slice::None),
            (Some(Value::BulkString(_)), Some(Value::Int(number))) => {
                let mut members = Vec::new();
                while let (Some(member), Some(value)) = (reply.next(), reply.next()) {
                    members
                        .push((redis::from_redis_value(member)?, redis::from_redis_value(value)?));
                }
                Ok(Slice::Members(number.unsigned_abs(), members))
            }
            other => Err(Error::unexpected(format!("a slice that says {other:?}"))),
        }
    }

    /// Copies a slice to its new buckets, then removes it from the old one. Returns how many
    /// members left.
    async fn carry(
        &self,
        layout: &Layout,
        next: Generation,
        from: &Bucket,
        number: u64,
        members: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Result<u64> {
        let mut shares: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for (member, value) in members {
            shares.entry(place(&member) % next.buckets).or_default().push((member, value));
        }
        let calls: Result<Vec<(ScriptInvocation, i64)>> = shares
            .into_iter()
            .map(|(index, share)| {
                let to = self.names.bucket(layout, next, index)?;
                let mut call =
                    COPY.on(&[&to.gate, &to.data]).arg(self.kind().type_word()).arg(number);
                for (member, value) in &share {
                    call = call.arg(member).arg(value);
                }
                Ok((call, i64::try_from(share.len()).unwrap_or(i64::MAX)))
            })
            .collect();
        let (calls, counts): (Vec<ScriptInvocation>, Vec<i64>) = calls?.into_iter().unzip();
        for (reply, count) in self.handle().client().run_all(&calls).await.into_iter().zip(counts) {
            let there: i64 = redis::from_redis_value(reply?)?;
            // Verified before anything is removed from the old bucket.
            if there != -1 && there != count {
                return Err(Error::unexpected(format!(
                    "{there} of {count} members arrived in their new bucket"
                )));
            }
        }
        let unseal = UNSEAL.on(&from.keys()).arg(self.kind().type_word()).arg(number);
        self.handle().client().eval(&unseal).await
    }

    /// Removes the remains of old buckets. Their closed gates stay for a while and expire.
    async fn forget(&self, layout: &Layout) -> Result<()> {
        for index in 0..layout.current.buckets {
            let bucket = self.names.bucket(layout, layout.current, index)?;
            self.close_gate(&bucket).await?;
        }
        Ok(())
    }
}
