//! Finding a member's bucket, also while members move from one to another.
//!
//! Nobody needs to know whether a collection grows: each bucket says so by itself, in the same script
//! that reads or writes it. A reader or writer begins with the bucket that it believes in. When that
//! one is moving and does not have the member, the member is in the bucket that it moves to, or
//! nowhere, and will never be in the old one again. When it is gone, the directory is read again. A
//! writer who meets a member on its way finishes its journey before it writes, so nobody waits for
//! somebody who died.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use redis::Value;
use seawall_client::{
    Handle, MAX_COMMAND_BYTES, MAX_COMMAND_MEMBERS,
    client::{Script, ScriptInvocation},
    error::{Error, Result},
};

use super::{
    Kind,
    layout::{Bucket, Generation, Layout, Names, place},
};

static APPLY: Script = Script::new(include_str!("script/apply.lua"));
static GATE: Script = Script::new(include_str!("script/gate.lua"));

/// How often a member is looked for again because it had moved.
const MAX_ROUNDS: u32 = 64;
/// Pause before a bucket that is gone is looked for again, when the directory knows no other.
const PAUSE: Duration = Duration::from_millis(5);
/// Largest member, or field.
pub(super) const MAX_MEMBER_BYTES: usize = 4096;
/// Largest value of a field, and element of a list.
pub(super) const MAX_VALUE_BYTES: usize = 64 << 10;
/// What members and values of one command may add up to.
pub(super) const BATCH_BYTES: usize = MAX_COMMAND_BYTES / 2;
/// What one call may have on its way to and from the servers.
const BYTES_IN_FLIGHT: usize = 4 << 20;
/// How long a closed gate is remembered: whoever comes later than this with an old idea of the
/// buckets is not stopped by it any more, but reads the directory first.
pub(super) const TOMBSTONE: Duration = Duration::from_secs(24 * 3600);

/// Whether a command changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// A command on one member.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    pub(super) command: &'static str,
    pub(super) access: Access,
    /// How many arguments it takes, and which of them is the member, from 1.
    pub(super) width: usize,
    pub(super) member_at: usize,
}

impl Operation {
    pub(super) const fn read(command: &'static str) -> Self {
        Operation { command, access: Access::Read, width: 1, member_at: 1 }
    }

    pub(super) const fn write(command: &'static str, width: usize, member_at: usize) -> Self {
        Operation { command, access: Access::Write, width, member_at }
    }
}

/// A collection in buckets, untyped.
#[derive(Clone)]
pub(super) struct Core {
    pub(super) names: Names,
    /// Buckets of a collection that is yet to be made.
    pub(super) first_buckets: u64,
    layout: Arc<RwLock<Option<Arc<Layout>>>>,
}

/// What is still to be done for one member.
struct Open {
    index: usize,
    args: Vec<Vec<u8>>,
    place: u64,
    /// It is not in the current generation's bucket.
    moved: bool,
}

impl Core {
    pub(super) fn new(handle: &Handle, kind: Kind, name: &str, buckets: u64) -> Result<Self> {
        super::check_buckets(buckets)?;
        Ok(Core {
            names: Names::new(handle, kind, name)?,
            first_buckets: buckets,
            layout: Arc::default(),
        })
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.names.handle
    }

    pub(super) fn kind(&self) -> Kind {
        self.names.kind
    }

    /// The buckets as they were last seen.
    pub(super) fn remember(&self, layout: Option<Layout>) -> Option<Arc<Layout>> {
        let layout = layout.map(Arc::new);
        (*self.layout.write().unwrap_or_else(PoisonError::into_inner)).clone_from(&layout);
        layout
    }

    /// The buckets as they are now.
    pub(super) async fn look(&self) -> Result<Option<Arc<Layout>>> {
        Ok(self.remember(self.names.read().await?))
    }

    async fn believed(&self) -> Result<Option<Arc<Layout>>> {
        let layout = self.layout.read().unwrap_or_else(PoisonError::into_inner).clone();
        match layout {
            Some(layout) => Ok(Some(layout)),
            None => self.look().await,
        }
    }

    /// Carries a command out for one member.
    pub(super) async fn one(
        &self,
        operation: Operation,
        args: Vec<Vec<u8>>,
    ) -> Result<Option<Value>> {
        let mut replies = self.each(operation, vec![args]).await?;
        Ok(replies.pop().flatten())
    }

    /// Carries a command out for each of these arguments; a reply for each, `None` where there is no
    /// collection to read.
    pub(super) async fn each(
        &self,
        operation: Operation,
        all: Vec<Vec<Vec<u8>>>,
    ) -> Result<Vec<Option<Value>>> {
        let mut replies = vec![None; all.len()];
        let mut open = Vec::with_capacity(all.len());
        for (index, args) in all.into_iter().enumerate() {
            let member = &args[operation.member_at - 1];
            check(member, "member", MAX_MEMBER_BYTES)?;
            for arg in &args {
                check(arg, "value", MAX_VALUE_BYTES)?;
            }
            open.push(Open { index, place: place(member), args, moved: false });
        }
        for round in 0..MAX_ROUNDS {
            if open.is_empty() {
                return Ok(replies);
            }
            let layout = match (self.believed().await?, operation.access) {
                (Some(layout), _) => layout,
                (None, Access::Read) => return Ok(replies),
                (None, Access::Write) => {
                    let made = self.names.create(b"", self.first_buckets).await?;
                    self.remember(Some(made)).ok_or(Error::Closed)?
                }
            };
            let before = open.len();
            open = self.round(&layout, operation, open, &mut replies).await?;
            if open.len() == before && round > 0 {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Err(Error::Unavailable(
            format!(
                "the buckets of {:?} keep moving, or it is being removed; nothing was done for {} members",
                self.names.name,
                open.len()
            )
            .into(),
        ))
    }

    /// One command to each bucket concerned; gives back what is still open.
    async fn round(
        &self,
        layout: &Layout,
        operation: Operation,
        open: Vec<Open>,
        replies: &mut [Option<Value>],
    ) -> Result<Vec<Open>> {
        let mut groups: HashMap<(bool, u64), Vec<Open>> = HashMap::new();
        let mut again = Vec::new();
        for mut item in open {
            let generation = self.generation(layout, item.moved);
            item.moved = generation != layout.current;
            let index = item.place % generation.buckets;
            groups.entry((item.moved, index)).or_default().push(item);
        }
        let mut calls: Vec<(Bucket, bool, Vec<Open>)> = Vec::new();
        for ((moved, index), items) in groups {
            let bucket = self.names.bucket(layout, self.generation(layout, moved), index)?;
            for items in batches(items) {
                calls.push((bucket.clone(), moved, items));
            }
        }
        let answers = self.send(operation, &calls).await;
        let mut stale = false;
        for ((bucket, moved, items), answer) in calls.into_iter().zip(answers) {
            let mut answer = redis::from_redis_value::<Vec<Value>>(answer?)?.into_iter();
            let word: Vec<u8> = match answer.next() {
                Some(Value::BulkString(word)) => word,
                other => return Err(Error::unexpected(format!("a bucket that says {other:?}"))),
            };
            match word.as_slice() {
                b"here" => {}
                b"absent" => {
                    self.open_gate(layout, &bucket).await?;
                    again.extend(items);
                    continue;
                }
                _ => {
                    stale |= moved || layout.next.is_none();
                    again.extend(items.into_iter().map(|item| Open { moved: !moved, ..item }));
                    continue;
                }
            }
            let mut sealed = false;
            for mut item in items {
                match answer.next() {
                    Some(Value::Array(found)) => match found.as_slice() {
                        [Value::Int(0), reply] => replies[item.index] = Some(reply.clone()),
                        [Value::Int(1)] => {
                            stale |= layout.next.is_none();
                            item.moved = true;
                            again.push(item);
                        }
                        _ => {
                            sealed = true;
                            again.push(item);
                        }
                    },
                    // The bytes did not suffice.
                    _ => again.push(item),
                }
            }
            if sealed {
                self.help(layout, &bucket).await?;
            }
        }
        if stale {
            let now = self.look().await?;
            if now.as_deref() != Some(layout) {
                again.iter_mut().for_each(|item| item.moved = false);
            }
        }
        Ok(again)
    }

    /// Sends the commands of a round, with so many on the way that a slow connection still answers
    /// in time.
    async fn send(
        &self,
        operation: Operation,
        calls: &[(Bucket, bool, Vec<Open>)],
    ) -> Vec<Result<Value>> {
        let mut answers = Vec::with_capacity(calls.len());
        let (mut window, mut bytes) = (Vec::new(), 0);
        for (bucket, _, items) in calls {
            bytes += match operation.command {
                "HGET" => (items.len() * MAX_VALUE_BYTES).min(BATCH_BYTES),
                _ => items.iter().flat_map(|item| &item.args).map(Vec::len).sum(),
            };
            window.push(self.apply(bucket, operation, items));
            if bytes > BYTES_IN_FLIGHT {
                answers.extend(self.handle().client().run_all(&window).await);
                window.clear();
                bytes = 0;
            }
        }
        answers.extend(self.handle().client().run_all(&window).await);
        answers
    }

    fn generation(&self, layout: &Layout, moved: bool) -> Generation {
        layout.next.filter(|_| moved).unwrap_or(layout.current)
    }

    fn apply(&self, bucket: &Bucket, operation: Operation, items: &[Open]) -> ScriptInvocation {
        let mut call = APPLY
            .on(&bucket.keys())
            .arg(self.kind().exists())
            .arg(match operation.access {
                Access::Read => "read",
                Access::Write => "write",
            })
            .arg(operation.command)
            .arg(operation.width)
            .arg(operation.member_at)
            .arg(BATCH_BYTES);
        for item in items {
            call = call.arg(&item.args);
        }
        call
    }

    /// Opens a bucket that nobody used yet; only one that the directory still knows.
    async fn open_gate(&self, layout: &Layout, bucket: &Bucket) -> Result<()> {
        if self.look().await?.as_deref() == Some(layout) {
            let open = GATE.on(&[&bucket.gate]).arg("open").arg(0);
            self.handle().client().run(&open).await?;
        }
        Ok(())
    }

    /// Closes a bucket for good.
    pub(super) async fn close_gate(&self, bucket: &Bucket) -> Result<()> {
        let millis = u64::try_from(TOMBSTONE.as_millis()).unwrap_or(u64::MAX >> 12);
        let close = GATE.on(&[&bucket.gate]).arg("gone").arg(millis);
        self.handle().client().run(&close).await.map(drop)
    }
}

/// Cuts members into batches that one command may move.
fn batches(items: Vec<Open>) -> Vec<Vec<Open>> {
    let mut all: Vec<Vec<Open>> = Vec::new();
    let mut left = 0;
    for item in items {
        let bytes: usize = item.args.iter().map(Vec::len).sum();
        match all.last_mut() {
            // Half of what is allowed, because a member may come with a value.
            Some(batch) if bytes <= left && batch.len() < MAX_COMMAND_MEMBERS / 2 => {
                left -= bytes;
                batch.push(item);
            }
            _ => {
                left = BATCH_BYTES.saturating_sub(bytes);
                all.push(vec![item]);
            }
        }
    }
    all
}

pub(super) fn check(bytes: &[u8], what: &str, most: usize) -> Result<()> {
    if bytes.len() > most {
        return Err(Error::Invalid(format!(
            "a {what} of {} bytes is longer than the {most} that are allowed; keep it under a key of its own",
            bytes.len()
        )));
    }
    Ok(())
}
