//! The buckets of a collection, and their names.
//!
//! | | |
//! | --- | --- |
//! | `KIND:{NAME}` | directory: which buckets there are |
//! | `KIND-bucket:{NAME:EPOCH:INDEX}` | bucket |
//! | … `:gate` | state of the bucket: `open`, `moving`, `gone` |
//! | … `:moving` | members that are moving to another bucket |
//!
//! KIND is `big-hash`, `big-set` or `big-zset`; the handle's prefix comes before it. A bucket and
//! its two companions share a slot; each bucket has its own slot. A member's bucket is its hash
//! modulo the number of buckets. That number only grows to multiples of itself, so all members of a
//! new bucket come from one old one.

use std::sync::Arc;

use seawall_client::{
    Handle,
    client::Script,
    error::{Error, Result},
};
use xxhash_rust::xxh3::xxh3_64;

use super::Kind;

static DIRECTORY: Script = Script::with_time(include_str!("script/directory.lua"));

/// One generation of buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation {
    pub(super) epoch: u64,
    pub(super) buckets: u64,
}

/// The buckets as they were last read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) current: Generation,
    /// The generation that members move to while the collection grows.
    pub(super) next: Option<Generation>,
    /// The only bucket of the current generation, if it is an existing key with another name.
    pub(super) plain: Option<Vec<u8>>,
}

/// The keys of one bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Bucket {
    pub(super) gate: Vec<u8>,
    pub(super) data: Vec<u8>,
    pub(super) moving: Vec<u8>,
}

impl Bucket {
    pub(super) fn keys(&self) -> [&[u8]; 3] {
        [&self.gate, &self.data, &self.moving]
    }
}

/// Builds names and reads the directory.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) handle: Handle,
    pub(super) kind: Kind,
    pub(super) name: Arc<str>,
    pub(super) directory: Arc<[u8]>,
}

impl Names {
    pub(super) fn new(handle: &Handle, kind: Kind, name: &str) -> Result<Self> {
        let directory = handle.key(kind.word(), name)?.into();
        Ok(Names { handle: handle.clone(), kind, name: name.into(), directory })
    }

    /// Returns a bucket of a generation by its index.
    pub(super) fn bucket(
        &self,
        layout: &Layout,
        generation: Generation,
        index: u64,
    ) -> Result<Bucket> {
        if generation == layout.current
            && let Some(plain) = &layout.plain
        {
            return beside(plain);
        }
        let kind = format!("{}-bucket", self.kind.word());
        let data = self.handle.key(&kind, &(&*self.name, generation.epoch, index))?;
        let with = |end: &[u8]| [data.as_slice(), end].concat();
        Ok(Bucket { gate: with(b":gate"), moving: with(b":moving"), data })
    }

    /// Reads the directory. Returns `None` if there is no collection.
    pub(super) async fn read(&self) -> Result<Option<Layout>> {
        self.change("read", &[], "").await
    }

    /// Creates the collection, unless it exists.
    pub(super) async fn create(&self, plain: &[u8], buckets: u64) -> Result<Layout> {
        let layout = self.change("create", plain, &buckets.to_string()).await?;
        layout.ok_or_else(|| Error::unexpected("a collection that is gone as soon as it is made"))
    }

    /// Records the buckets that it grows to, unless it is growing already.
    pub(super) async fn grow(&self, from: Generation, buckets: u64) -> Result<Option<Layout>> {
        self.change("grow", from.epoch.to_string().as_bytes(), &buckets.to_string()).await
    }

    /// Removes the old buckets from the directory.
    pub(super) async fn flip(&self, from: Generation, to: Generation) -> Result<Option<Layout>> {
        self.change("flip", from.epoch.to_string().as_bytes(), &to.epoch.to_string()).await
    }

    async fn change(&self, how: &str, one: &[u8], other: &str) -> Result<Option<Layout>> {
        let call = DIRECTORY.on(&[&*self.directory]).arg(how).arg(one).arg(other);
        let reply: Vec<Vec<u8>> = self.handle.client().eval(&call).await?;
        let [epoch, buckets, next_epoch, next_buckets, plain] = reply.as_slice() else {
            return Err(Error::unexpected("a directory of another shape"));
        };
        let number =
            |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
        let generation = |epoch: &[u8], buckets: &[u8]| {
            let (epoch, buckets) = (number(epoch)?, number(buckets)?);
            (buckets > 0).then_some(Generation { epoch, buckets })
        };
        Ok(generation(epoch, buckets).map(|current| Layout {
            current,
            next: generation(next_epoch, next_buckets),
            plain: (!plain.is_empty()).then(|| plain.clone()),
        }))
    }
}

/// Returns a bucket that is an existing key; its companions share its slot.
pub(super) fn beside(plain: &[u8]) -> Result<Bucket> {
    let tag = match plain.iter().position(|&byte| byte == b'{') {
        None => plain,
        Some(open) => match plain[open + 1..].iter().position(|&byte| byte == b'}') {
            Some(length @ 1..) => &plain[open + 1..open + 1 + length],
            _ => plain,
        },
    };
    if tag.contains(&b'}') {
        return Err(Error::Invalid(format!(
            "nothing can be put into the slot of {:?}: it has a }} and no hash tag",
            String::from_utf8_lossy(plain)
        )));
    }
    let with = |end: &[u8]| [b"{", tag, b"}:", plain, end].concat();
    Ok(Bucket { gate: with(b":gate"), data: plain.to_vec(), moving: with(b":moving") })
}

/// Returns the hash that decides a member's bucket.
pub(super) fn place(member: &[u8]) -> u64 {
    xxh3_64(member)
}
