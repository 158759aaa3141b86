//! Finds a member's bucket, even while members move from one bucket to another.
//!
//! Callers need not know whether a collection grows: the script that reads or writes a bucket also
//! reports its state. A caller begins with the bucket of its cached layout. If that bucket is
//! moving and does not have the member, the member is in the bucket that it moves to, or nowhere,
//! and will never be in the old one again. If the bucket is gone, the caller reads the directory
//! again. A writer that finds a member in the middle of a move finishes the move before it writes,
//! so no process waits for one that died.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use redis::Value;
use seawall_client::{
    Handle, MAX_COMMAND_BYTES, MAX_COMMAND_MEMBERS,
    client::{Script, ScriptInvocation},
    error::{Error, Result},
};
use seawall_resilience::clock::millis;

use super::{
    Kind,
    layout::{Bucket, Generation, Layout, Names, place},
};

static APPLY: Script = Script::new(include_str!("script/apply.lua"));
static GATE: Script = Script::new(include_str!("script/gate.lua"));

/// How often a member is looked up again because it had moved.
const MAX_ROUNDS: u32 = 64;
/// Delay before a closed bucket is looked up again if the directory has no other.
const PAUSE: Duration = Duration::from_millis(5);
/// Largest member, or field.
pub(super) const MAX_MEMBER_BYTES: usize = 4096;
/// Largest value of a field, and element of a list.
pub(super) const MAX_VALUE_BYTES: usize = 64 << 10;
/// Most bytes of members and values in one command.
pub(super) const BATCH_BYTES: usize = MAX_COMMAND_BYTES / 2;
/// Most bytes of one call in flight to and from the servers.
const BYTES_IN_FLIGHT: usize = 4 << 20;
/// How long a closed gate is kept. After that time it no longer stops a process with an outdated
/// layout, but such a process reads the directory first.
pub(super) const TOMBSTONE: Duration = Duration::from_secs(24 * 3600);

/// Whether a command reads or writes.
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
    /// Number of its arguments, and which of them is the member, from 1.
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
    /// Number of buckets of a collection that is not created yet.
    pub(super) first_buckets: u64,
    layout: Arc<RwLock<Option<Arc<Layout>>>>,
}

/// A member whose command is not done yet.
struct Open {
    index: usize,
    args: Vec<Vec<u8>>,
    place: u64,
    /// The member is not in the bucket of the current generation.
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

    /// Caches the layout.
    pub(super) fn remember(&self, layout: Option<Layout>) -> Option<Arc<Layout>> {
        let layout = layout.map(Arc::new);
        (*self.layout.write().unwrap_or_else(PoisonError::into_inner)).clone_from(&layout);
        layout
    }

    /// Reads the current layout.
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

    /// Runs a command on one member.
    pub(super) async fn one(
        &self,
        operation: Operation,
        args: Vec<Vec<u8>>,
    ) -> Result<Option<Value>> {
        let mut replies = self.each(operation, vec![args]).await?;
        Ok(replies.pop().flatten())
    }

    /// Runs a command for each of these arguments and returns a reply for each; `None` if there is
    /// no collection to read.
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
                self.handle().client().network_clock().sleep(PAUSE).await;
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

    /// Sends one command to each bucket concerned; returns the members that are not done yet.
    async fn round(
        &self,
        layout: &Layout,
        operation: Operation,
        open: Vec<Open>,
        replies: &mut [Option<Value>],
    ) -> Result<Vec<Open>> {
        let mut groups: BTreeMap<(bool, u64), Vec<Open>> = BTreeMap::new();
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
                    // The byte limit was reached.
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

    /// Sends the commands of a round, with a limit on the bytes in flight so that a slow connection
    /// still answers in time.
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

    /// Opens a bucket that was not used yet, if it is still in the directory.
    async fn open_gate(&self, layout: &Layout, bucket: &Bucket) -> Result<()> {
        if self.look().await?.as_deref() == Some(layout) {
            let open = GATE.on(&[&bucket.gate]).arg("open").arg(0);
            self.handle().client().run(&open).await?;
        }
        Ok(())
    }

    /// Closes a bucket permanently.
    pub(super) async fn close_gate(&self, bucket: &Bucket) -> Result<()> {
        let close = GATE.on(&[&bucket.gate]).arg("gone").arg(millis(TOMBSTONE));
        self.handle().client().run(&close).await.map(drop)
    }
}

/// Splits members into batches that fit one command.
fn batches(items: Vec<Open>) -> Vec<Vec<Open>> {
    let mut all: Vec<Vec<Open>> = Vec::new();
    let mut left = 0;
    for item in items {
        let bytes: usize = item.args.iter().map(Vec::len).sum();
        match all.last_mut() {
            // Half of the limit, because a member may come with a value.
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
