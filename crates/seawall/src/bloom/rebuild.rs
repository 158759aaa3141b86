//! Creates a filter, and rebuilds it while it is in use; the module docs explain why no key is
//! lost.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use redis::{Cmd, cmd};
use seawall_client::{
    KeyPart,
    client::{Script, ScriptInvocation},
    error::{Error, Result},
};
use seawall_resilience::clock::{Moment, millis};
use tokio::sync::Mutex;

use super::{
    Bloom,
    control::{Control, Generation},
    filter::Inner,
    shape::Shape,
};

/// How long a build may go without extending its lease before another may begin.
const LEASE: Duration = Duration::from_secs(60);
/// Commands over parts in one pipeline.
const PARTS_AT_ONCE: usize = 64;
/// Keys of a sink's call that are sent together.
const KEYS_AT_ONCE: usize = 5000;

static BEGIN: Script = Script::with_time(include_str!("script/begin.lua"));
static TURN: Script = Script::with_time(include_str!("script/turn.lua"));
static CREATE: Script = Script::new(include_str!("script/create.lua"));
static MARK: Script = Script::new(include_str!("script/mark.lua"));

/// Outcome of [`Bloom::rebuild`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "somebody else may be building"]
pub enum Rebuild {
    /// The new generation is in use.
    Done {
        /// Number of the generation.
        generation: u64,
    },
    /// Another build is in progress.
    Busy {
        /// Time after which that build's lease expires, if it is not extended.
        retry_after: Duration,
    },
    /// The lease expired because no key was added for too long, or Redis lost a part. The old
    /// generation stays in use.
    Lost,
}

/// Outcome of [`Bloom::create`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "somebody else may be building"]
pub enum Created {
    /// The filter exists and is empty.
    Created,
    /// A filter already existed.
    Already,
    /// Another build is in progress.
    Busy,
}

impl<K: KeyPart> Bloom<K> {
    /// Creates an empty filter if there is none: correct if the source has no keys yet.
    ///
    /// If the source has keys, use [`Bloom::rebuild`].
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn create(&self) -> Result<Created> {
        let none = |_: BloomSink<K>| async { Ok::<_, Error>(()) };
        match self.generation("create", self.inner.shape, none).await? {
            None => Ok(Created::Already),
            Some(Rebuild::Done { .. }) => Ok(Created::Created),
            Some(Rebuild::Busy { .. } | Rebuild::Lost) => Ok(Created::Busy),
        }
    }

    /// Rebuilds the filter for `expected` keys, from a closure that streams all of them.
    ///
    /// The old filter answers meanwhile.
    ///
    /// # Errors
    /// If Redis does not answer, or [`Error::Source`] with the error of `stream`: the old filter
    /// stays in use.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the old filter in use; another build can begin a minute later.
    pub async fn rebuild<F, Fut, E>(&self, expected: u64, stream: F) -> Result<Rebuild>
    where
        F: FnOnce(BloomSink<K>) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        let shape = Shape::new(expected, self.inner.false_positives)?;
        let built = self.generation("rebuild", shape, stream).await?;
        built.ok_or_else(|| Error::unexpected("a rebuild was answered as a creation"))
    }

    async fn generation<F, Fut, E>(
        &self,
        mode: &str,
        shape: Shape,
        stream: F,
    ) -> Result<Option<Rebuild>>
    where
        F: FnOnce(BloomSink<K>) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        let inner = &self.inner;
        let token = format!("{:032x}", inner.place.client().randomness().u128());
        let call = BEGIN.on(&[&inner.place.key]).arg(&token).arg(millis(LEASE));
        let call = call.arg(shape.to_string()).arg(mode);
        let (answer, number, before): (u8, u64, std::collections::BTreeMap<String, String>) =
            inner.place.client().eval(&call).await?;
        match answer {
            0 => {
                return Ok(Some(Rebuild::Busy { retry_after: Duration::from_millis(number) }));
            }
            2 => return Ok(None),
            _ => {}
        }
        let build = Build { inner, token, generation: Generation { number, shape } };
        let built = build.run(&Control::read(&before)?, stream).await;
        if !matches!(built, Ok(Rebuild::Done { .. })) {
            // Best effort: the next build removes what remains. If this build cannot be abandoned,
            // the switch may have happened although its reply was lost: then these parts are in
            // use.
            if let Ok(true) = build.turn("abandon").await {
                let _ = inner.unlink(build.generation).await;
            }
        }
        inner.place.refresh().await?;
        built.map(Some)
    }
}

/// A build in progress.
struct Build<'a> {
    inner: &'a Arc<Inner>,
    token: String,
    generation: Generation,
}

impl Build<'_> {
    async fn run<K, F, Fut, E>(&self, before: &Control, stream: F) -> Result<Rebuild>
    where
        K: KeyPart,
        F: FnOnce(BloomSink<K>) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        // Parts that failed builds have left.
        for stale in [before.next, before.old].into_iter().flatten() {
            self.inner.unlink(stale).await?;
        }
        if let Some(old) = before.old {
            self.forget(old).await?;
        }
        let (create, bits) = (&CREATE, self.generation.shape.bits);
        self.inner.each_part(self.generation, |key| create.on(&[key]).arg(bits)).await?;
        if let Some(current) = before.current {
            let (mark, number) = (&MARK, self.generation.number);
            self.inner.each_part(current, |key| mark.on(&[key]).arg(number)).await?;
        }
        let sink = BloomSink::new(self);
        stream(sink).await.map_err(|error| Error::Source(error.to_string().into()))?;
        if !self.inner.is_whole(self.generation).await? || !self.turn("flip").await? {
            return Ok(Rebuild::Lost);
        }
        if let Some(old) = before.current {
            self.inner.unlink(old).await?;
            self.forget(old).await?;
        }
        Ok(Rebuild::Done { generation: self.generation.number })
    }

    async fn turn(&self, what: &str) -> Result<bool> {
        turn(self.inner, &self.token, what).await
    }

    async fn forget(&self, old: Generation) -> Result<()> {
        turn(self.inner, &old.number.to_string(), "forget").await.map(drop)
    }
}

async fn turn(inner: &Inner, token: &str, what: &str) -> Result<bool> {
    let call = TURN.on(&[&inner.place.key]).arg(token).arg(what);
    let done: u8 = inner.place.client().eval(&call.arg(millis(LEASE))).await?;
    Ok(done == 1)
}

impl Inner {
    async fn each_part(
        &self,
        generation: Generation,
        call: impl Fn(&Vec<u8>) -> ScriptInvocation,
    ) -> Result<()> {
        for slice in self.place.parts(generation)?.chunks(PARTS_AT_ONCE) {
            let calls: Vec<ScriptInvocation> = slice.iter().map(&call).collect();
            for reply in self.place.client().run_all(&calls).await {
                reply?;
            }
        }
        Ok(())
    }

    async fn unlink(&self, generation: Generation) -> Result<()> {
        self.command_each("UNLINK", generation).await.map(drop)
    }

    async fn is_whole(&self, generation: Generation) -> Result<bool> {
        let there = self.command_each("EXISTS", generation).await?;
        Ok(there.into_iter().all(|there| there == 1))
    }

    async fn command_each(&self, name: &str, generation: Generation) -> Result<Vec<u64>> {
        let mut counts = Vec::new();
        for slice in self.place.parts(generation)?.chunks(PARTS_AT_ONCE) {
            let command = |key: &Vec<u8>| -> (Vec<u8>, Cmd) {
                let mut command = cmd(name);
                command.arg(key);
                (key.clone(), command)
            };
            for reply in self.place.client().send_all(slice.iter().map(command).collect()).await {
                counts.push(redis::from_redis_value(reply?)?);
            }
        }
        Ok(counts)
    }
}

/// Receives the source's keys while a filter is built; cheap to clone.
pub struct BloomSink<K> {
    inner: Arc<Inner>,
    token: Arc<str>,
    generation: Generation,
    /// When the lease was last extended.
    extended: Arc<Mutex<Moment>>,
    key: PhantomData<fn(&K)>,
}

impl<K: KeyPart> BloomSink<K> {
    fn new(build: &Build<'_>) -> Self {
        let now = build.inner.place.client().clock().now();
        BloomSink {
            inner: Arc::clone(build.inner),
            token: build.token.as_str().into(),
            generation: build.generation,
            extended: Arc::new(Mutex::new(now)),
            key: PhantomData,
        }
    }

    /// Adds keys that exist; pass a few thousand at a time.
    ///
    /// # Errors
    /// If Redis does not answer, or another build has taken over.
    pub async fn add_many(&self, keys: &[K]) -> Result<()> {
        for slice in keys.chunks(KEYS_AT_ONCE) {
            let slice: Vec<_> = slice.iter().map(KeyPart::to_key).collect::<Result<_>>()?;
            if !self.inner.set(self.generation, &slice).await?.complete {
                return Err(lost());
            }
            let mut extended = self.extended.lock().await;
            let now = self.inner.place.client().clock().now();
            if now.since(*extended) > LEASE / 4 {
                if !turn(&self.inner, &self.token, "extend").await? {
                    return Err(lost());
                }
                *extended = now;
            }
        }
        Ok(())
    }
}

fn lost() -> Error {
    Error::Source("the build of a filter was lost to another one".into())
}

impl<K> Clone for BloomSink<K> {
    fn clone(&self) -> Self {
        BloomSink {
            inner: Arc::clone(&self.inner),
            token: Arc::clone(&self.token),
            generation: self.generation,
            extended: Arc::clone(&self.extended),
            key: PhantomData,
        }
    }
}

impl<K> fmt::Debug for BloomSink<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BloomSink").field("generation", &self.generation).finish_non_exhaustive()
    }
}
