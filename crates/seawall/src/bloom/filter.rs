//! Adding and querying keys.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use redis::Value;
use seawall_client::{
    Handle, KeyPart,
    client::{Script, ScriptInvocation},
    error::{Error, Result},
};

use super::{
    control::{Control, Generation, Place},
    shape::Shape,
};

/// Keys in one script: each sets or reads up to 32 bits.
const KEYS_AT_ONCE: usize = 100;
/// Scripts in one pipeline: few enough for a server to finish quickly.
const CALLS_AT_ONCE: usize = 8;
/// How often the cached generations may turn out to be outdated in one call.
const ROUNDS: usize = 8;

static SET: Script = Script::new(include_str!("script/set.lua"));
static GET: Script = Script::new(include_str!("script/get.lua"));

impl<K: KeyPart> Bloom<K> {
    /// Returns a builder for a Bloom filter for `expected` keys.
    ///
    /// Processes that use the same name may pass different numbers: the number is used only when a
    /// generation is created.
    #[must_use]
    pub fn builder(handle: &Handle, name: impl Into<String>, expected: u64) -> BloomBuilder<K> {
        BloomBuilder {
            handle: handle.clone(),
            name: name.into(),
            expected,
            false_positives: 0.01,
            key: PhantomData,
        }
    }
}

/// Settings of a [`Bloom`] filter.
#[derive(Debug, Clone)]
pub struct BloomBuilder<K> {
    handle: Handle,
    name: String,
    expected: u64,
    false_positives: f64,
    key: PhantomData<fn(&K)>,
}

impl<K: KeyPart> BloomBuilder<K> {
    /// Sets the share of absent keys that may be reported as possible. Default: 0.01 (1.2 bytes per
    /// key).
    #[must_use]
    pub fn false_positives(mut self, part: f64) -> Self {
        self.false_positives = part;
        self
    }

    /// Builds the handle; nothing is sent.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that is out of range.
    pub fn build(self) -> Result<Bloom<K>> {
        let shape = Shape::new(self.expected, self.false_positives)?;
        let over_full =
            metrics::counter!("seawall_bloom_over_full_total", "filter" => self.name.clone());
        Ok(Bloom {
            inner: Arc::new(Inner {
                place: Place::new(&self.handle, self.name)?,
                shape,
                false_positives: self.false_positives,
                warned: AtomicU64::new(0),
                over_full,
            }),
            key: PhantomData,
        })
    }
}

/// A Bloom filter in Redis; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use seawall::{Seawall, bloom::{Answer, BloomSink}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let shops = seawall.bloom::<u64>("shop", 10_000).build()?;
/// assert_eq!(shops.contains(&7).await?, Answer::Possible, "never built, so it denies nothing");
///
/// let _ = shops.rebuild(10_000, |sink: BloomSink<u64>| async move {
///     // In production: page through the primary keys of a table.
///     sink.add_many(&(1..=100).collect::<Vec<_>>()).await
/// }).await?;
/// assert_eq!(shops.contains(&7).await?, Answer::Possible);
/// assert_eq!(shops.contains(&4_000_000).await?, Answer::Absent);
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct Bloom<K> {
    pub(super) inner: Arc<Inner>,
    key: PhantomData<fn(&K)>,
}

pub(super) struct Inner {
    pub(super) place: Place,
    pub(super) shape: Shape,
    pub(super) false_positives: f64,
    /// The last generation for which a warning said that it is too full.
    warned: AtomicU64,
    over_full: metrics::Counter,
}

/// Outcome of [`Bloom::contains`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// The key was never added.
    Absent,
    /// The key may have been added, or there is no filter that could tell.
    Possible,
}

/// Outcome of [`Bloom::add`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a filter that was never built takes no keys"]
pub enum Insert {
    /// The key was not in the filter.
    New,
    /// The key was in the filter, or other keys together had set all of its bits.
    Known,
    /// There is no filter: it was never built, or Redis has lost it.
    Unbuilt,
}

impl<K: KeyPart> Bloom<K> {
    /// Adds a key; write the source first.
    ///
    /// It takes one round trip, and sometimes two during a rebuild. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer: the key may have been added to some generations.
    pub async fn add(&self, key: &K) -> Result<Insert> {
        let mut inserted = self.add_bytes(&[key.to_key()?]).await?;
        inserted.pop().ok_or_else(|| Error::unexpected("no answer for a key"))
    }

    /// Adds many keys in pipelines, and returns an outcome for each, in order. Safe to retry.
    ///
    /// # Errors
    /// As [`Bloom::add`], for some of them.
    pub async fn add_many(&self, keys: &[K]) -> Result<Vec<Insert>> {
        let mut inserted = Vec::with_capacity(keys.len());
        for slice in keys.chunks(KEYS_AT_ONCE * CALLS_AT_ONCE) {
            let slice: Vec<_> = slice.iter().map(KeyPart::to_key).collect::<Result<_>>()?;
            inserted.extend(self.add_bytes(&slice).await?);
        }
        Ok(inserted)
    }

    /// Queries a key in one round trip.
    ///
    /// # Errors
    /// If Redis does not answer: the caller should treat the key as possible.
    pub async fn contains(&self, key: &K) -> Result<Answer> {
        let answers = self.contains_bytes(&[key.to_key()?]).await?;
        answers.first().copied().ok_or_else(|| Error::unexpected("no answer for a key"))
    }

    /// Queries many keys in pipelines, and returns an answer for each, in order.
    ///
    /// # Errors
    /// As [`Bloom::contains`].
    pub async fn contains_many(&self, keys: &[K]) -> Result<Vec<Answer>> {
        let mut answers = Vec::with_capacity(keys.len());
        for slice in keys.chunks(KEYS_AT_ONCE * CALLS_AT_ONCE) {
            let slice: Vec<_> = slice.iter().map(KeyPart::to_key).collect::<Result<_>>()?;
            answers.extend(self.contains_bytes(&slice).await?);
        }
        Ok(answers)
    }

    async fn contains_bytes(&self, keys: &[Vec<u8>]) -> Result<Vec<Answer>> {
        let place = &self.inner.place;
        let mut control = place.control().await?;
        for _ in 0..ROUNDS {
            let Some(current) = control.current else { break };
            let mut answers = vec![Answer::Possible; keys.len()];
            let mut gone = false;
            for (reply, places) in self.inner.run(&GET, current, keys).await? {
                match redis::from_redis_value::<Option<Vec<u8>>>(reply)? {
                    None => gone = true,
                    Some(bits) => {
                        for (place, bit) in places.into_iter().zip(bits) {
                            if bit == 0 {
                                answers[place] = Answer::Absent;
                            }
                        }
                    }
                }
            }
            if !gone {
                return Ok(answers);
            }
            control = place.refresh().await?;
            if control.current.is_some_and(|now| now.number == current.number) {
                tracing::warn!(filter = place.name, "a part of a filter is missing: rebuild it");
                return Ok(answers);
            }
        }
        Ok(vec![Answer::Possible; keys.len()])
    }

    async fn add_bytes(&self, keys: &[Vec<u8>]) -> Result<Vec<Insert>> {
        let place = &self.inner.place;
        let mut control = place.control().await?;
        let mut done: BTreeMap<u64, Vec<Insert>> = BTreeMap::new();
        for _ in 0..ROUNDS {
            let wanted: Vec<Generation> =
                control.all().filter(|generation| !done.contains_key(&generation.number)).collect();
            if wanted.is_empty() {
                break;
            }
            // The current generation comes last: a key that is there is in the other generations,
            // too.
            let mut stale = false;
            for generation in wanted.into_iter().rev() {
                let set = self.inner.set(generation, keys).await?;
                done.insert(generation.number, set.inserted);
                stale |= is_current(&control, generation) && !set.complete;
                stale |= set.marks.iter().any(|mark| !done.contains_key(mark));
            }
            if !stale {
                break;
            }
            control = place.refresh().await?;
        }
        let judge = control.current.or(control.next);
        let inserted = judge.and_then(|judge| done.remove(&judge.number));
        Ok(inserted.unwrap_or_else(|| vec![Insert::Unbuilt; keys.len()]))
    }
}

/// Outcome of adding keys to one generation.
pub(super) struct Set {
    inserted: Vec<Insert>,
    /// The next generations that its parts name.
    marks: BTreeSet<u64>,
    /// Whether all parts existed.
    pub(super) complete: bool,
}

fn is_current(control: &Control, generation: Generation) -> bool {
    control.current.is_some_and(|current| current.number == generation.number)
}

impl Inner {
    /// Adds keys to one generation.
    pub(super) async fn set(&self, generation: Generation, keys: &[Vec<u8>]) -> Result<Set> {
        let inserted = vec![Insert::Unbuilt; keys.len()];
        let mut set = Set { inserted, marks: BTreeSet::new(), complete: true };
        for (reply, places) in self.run(&SET, generation, keys).await? {
            type Reply = Option<(u64, u64, Vec<u8>)>;
            let Some((mark, count, fresh)) = redis::from_redis_value::<Reply>(reply)? else {
                set.complete = false;
                continue;
            };
            if mark != 0 {
                set.marks.insert(mark);
            }
            self.watch_growth(generation, count);
            for (place, fresh) in places.into_iter().zip(fresh) {
                set.inserted[place] = if fresh == 1 { Insert::New } else { Insert::Known };
            }
        }
        Ok(set)
    }

    /// Runs a script on the parts of these keys; returns each reply with the indexes of its keys.
    async fn run(
        &self,
        script: &'static Script,
        generation: Generation,
        keys: &[Vec<u8>],
    ) -> Result<Vec<(Value, Vec<usize>)>> {
        let mut by_part: BTreeMap<u32, Vec<(usize, u32, u32)>> = BTreeMap::new();
        for (place, key) in keys.iter().enumerate() {
            let spot = generation.shape.spot(key);
            by_part.entry(spot.part).or_default().push((place, spot.start, spot.step));
        }
        let mut calls: Vec<(ScriptInvocation, Vec<usize>)> = Vec::new();
        for (part, spots) in by_part {
            let key = self.place.part(generation, part)?;
            for slice in spots.chunks(KEYS_AT_ONCE) {
                let call = script.on(&[&key]).arg(generation.shape.bits);
                let mut call = call.arg(generation.shape.hashes);
                for (_, start, step) in slice {
                    call = call.arg(*start).arg(*step);
                }
                calls.push((call, slice.iter().map(|(place, ..)| *place).collect()));
            }
        }
        let mut replies = Vec::with_capacity(calls.len());
        for slice in calls.chunks_mut(CALLS_AT_ONCE) {
            let sent: Vec<ScriptInvocation> = slice.iter().map(|(call, _)| call.clone()).collect();
            let answered = self.place.client().run_all(&sent).await;
            for (reply, (_, places)) in answered.into_iter().zip(slice) {
                replies.push((reply?, std::mem::take(places)));
            }
        }
        Ok(replies)
    }

    /// Warns once per generation if it holds more keys than it was sized for.
    fn watch_growth(&self, generation: Generation, count: u64) {
        // Some slack: the hash does not spread keys quite evenly over the parts.
        let most = generation.shape.expected_in_part();
        if count > most + most / 20 + 64
            && self.warned.fetch_max(generation.number, Ordering::Relaxed) < generation.number
        {
            self.over_full.increment(1);
            tracing::warn!(
                filter = self.place.name,
                generation = generation.number,
                expected = generation.shape.expected,
                "a filter holds more keys than it was made for: rebuild it for more"
            );
        }
    }
}

impl<K> Clone for Bloom<K> {
    fn clone(&self) -> Self {
        Bloom { inner: Arc::clone(&self.inner), key: PhantomData }
    }
}

impl<K> fmt::Debug for Bloom<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bloom")
            .field("name", &self.inner.place.name)
            .field("shape", &self.inner.shape)
            .finish_non_exhaustive()
    }
}
