//! Operations over all buckets: counting, scanning, removing.
//!
//! A scan goes through the collection part by part; a part is what was one bucket when the scan
//! began. If that bucket moves meanwhile, the scan finishes the old one and then continues in the
//! buckets that it moves to: a member that exists during the whole scan is in one of them when it
//! is read.

use redis::Value;
use seawall_client::unlink_slowly;
use seawall_client::{
    client::{Script, ScriptInvocation},
    error::{Error, Result},
};

use super::{
    core::{BATCH_BYTES, Core},
    layout::{Bucket, Generation, Layout},
};

static COUNT: Script = Script::new(include_str!("script/count.lua"));
static PAGE: Script = Script::new(include_str!("script/page.lua"));

/// How often a count restarts because members were moving.
const MAX_COUNTS: u32 = 64;
/// Members that a page asks for.
const PAGE_MEMBERS: usize = 100;

/// Position of a scan. Start with [`Cursor::start`]; a finished scan returns none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Number of buckets when the scan began, and which of those parts it is in.
    parts: u64,
    part: u64,
    /// The bucket that is being read.
    generation: Option<(u64, u64)>,
    index: u64,
    inner: Vec<u8>,
    /// A bucket of this part has moved: the next generation must be read, too.
    moved: bool,
}

impl Cursor {
    /// Returns the start of a scan.
    #[must_use]
    pub fn start() -> Self {
        Cursor { parts: 0, part: 0, generation: None, index: 0, inner: b"0".to_vec(), moved: false }
    }
}

impl Default for Cursor {
    fn default() -> Self {
        Cursor::start()
    }
}

/// A page of raw members, and of values where the kind has them.
pub(super) struct Page {
    pub(super) items: Vec<Vec<u8>>,
    /// The values of a hash were too large to be included.
    pub(super) fields_only: bool,
    pub(super) next: Option<Cursor>,
}

impl Core {
    /// Returns the number of members.
    pub(super) async fn count(&self) -> Result<u64> {
        'again: for _ in 0..MAX_COUNTS {
            let Some(layout) = self.look().await? else { return Ok(0) };
            let mut total = 0;
            let generations = std::iter::once(layout.current).chain(layout.next);
            for generation in generations {
                let buckets: Result<Vec<Bucket>> = (0..generation.buckets)
                    .map(|index| self.names.bucket(&layout, generation, index))
                    .collect();
                let buckets = buckets?;
                let calls: Vec<ScriptInvocation> = buckets
                    .iter()
                    .map(|bucket| COUNT.on(&bucket.keys()).arg(self.kind().count()))
                    .collect();
                let replies = self.handle().client().run_all(&calls).await;
                for (bucket, reply) in buckets.iter().zip(replies) {
                    let (state, count, sealed): (String, u64, u64) =
                        redis::from_redis_value(reply?)?;
                    if sealed > 0 {
                        // They would be counted twice.
                        self.help(&layout, bucket).await?;
                        continue 'again;
                    }
                    if state == "gone" && layout.next.is_none() {
                        continue 'again;
                    }
                    total += count;
                }
            }
            return Ok(total);
        }
        Err(Error::Unavailable("the buckets keep moving".into()))
    }

    /// Returns a page of members, and the cursor to continue with.
    pub(super) async fn page(&self, cursor: &Cursor) -> Result<Page> {
        let mut cursor = cursor.clone();
        let Some(layout) = self.look().await? else {
            return Ok(Page { items: Vec::new(), fields_only: false, next: None });
        };
        if cursor.parts == 0 {
            cursor.parts = layout.current.buckets;
            cursor.index = cursor.part;
        }
        let generation = self.cursor_generation(&layout, &mut cursor)?;
        let bucket = self.names.bucket(&layout, generation, cursor.index)?;
        let call = PAGE
            .on(&[&bucket.gate, &bucket.data])
            .arg(self.kind().scan())
            .arg(&cursor.inner)
            .arg(PAGE_MEMBERS)
            .arg(BATCH_BYTES);
        let reply: (String, Vec<u8>, String, Vec<Vec<u8>>) =
            self.handle().client().eval(&call).await?;
        let (state, inner, shape, items) = reply;
        cursor.moved |= matches!(state.as_str(), "moving" | "gone");
        cursor.inner = inner;
        let next = if cursor.inner == b"0" {
            self.step(&layout, generation, cursor)
        } else {
            Some(cursor)
        };
        Ok(Page { items, fields_only: shape == "fields", next })
    }

    /// Returns the generation that a cursor reads: the one it began with, while that exists.
    fn cursor_generation(&self, layout: &Layout, cursor: &mut Cursor) -> Result<Generation> {
        let known = std::iter::once(layout.current).chain(layout.next);
        let wanted = cursor.generation;
        let found = known.into_iter().find(|known| Some((known.epoch, known.buckets)) == wanted);
        let generation = found.unwrap_or_else(|| {
            // Its buckets are gone, and so is the position in them: this part begins again.
            (cursor.index, cursor.inner, cursor.moved) = (cursor.part, b"0".to_vec(), false);
            layout.current
        });
        if generation.buckets % cursor.parts.max(1) != 0 {
            return Err(Error::Invalid("a cursor of another collection".into()));
        }
        cursor.generation = Some((generation.epoch, generation.buckets));
        Ok(generation)
    }

    /// Advances to the next bucket, generation or part.
    fn step(&self, layout: &Layout, generation: Generation, mut cursor: Cursor) -> Option<Cursor> {
        cursor.index += cursor.parts;
        if cursor.index < generation.buckets {
            return Some(cursor);
        }
        if cursor.moved {
            let next = layout.next.filter(|_| generation == layout.current);
            cursor.moved = false;
            cursor.index = cursor.part;
            // If no next generation is known, it has been added meanwhile: the next page finds it.
            cursor.generation = next.map(|next| (next.epoch, next.buckets));
            if next.is_some() || generation == layout.current {
                return Some(cursor);
            }
        }
        cursor.part += 1;
        cursor.index = cursor.part;
        cursor.generation = None;
        cursor.moved = false;
        (cursor.part < cursor.parts).then_some(cursor)
    }

    /// Removes everything: buckets in slices, the directory last.
    pub(super) async fn remove(&self) -> Result<u64> {
        let Some(layout) = self.look().await? else { return Ok(0) };
        let mut removed = 0;
        for generation in std::iter::once(layout.current).chain(layout.next) {
            for index in 0..generation.buckets {
                let bucket = self.names.bucket(&layout, generation, index)?;
                self.close_gate(&bucket).await?;
                removed += unlink_slowly(self.handle(), &bucket.data, |_| {}).await?.members;
                let mut unlink = redis::cmd("UNLINK");
                unlink.arg(&bucket.moving);
                self.handle().client().send(&bucket.moving, &unlink).await?;
            }
        }
        let mut unlink = redis::cmd("UNLINK");
        unlink.arg(&*self.names.directory);
        self.handle().client().send(&self.names.directory, &unlink).await?;
        self.remember(None);
        Ok(removed)
    }
}

/// Groups values in pairs, for replies that list pairs.
pub(super) fn pairs(items: Vec<Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut items = items.into_iter();
    let mut pairs = Vec::new();
    while let (Some(one), Some(other)) = (items.next(), items.next()) {
        pairs.push((one, other));
    }
    pairs
}

/// Parses a reply as a number; 0 if there is none.
pub(super) fn number(reply: Option<Value>) -> Result<i64> {
    reply.map_or(Ok(0), |reply| Ok(redis::from_redis_value(reply)?))
}
