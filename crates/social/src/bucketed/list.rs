//! A list in chunks.
//!
//! A list has an order, and an order has one place where it is decided. So all chunks of one list lie
//! in one slot, and each operation is one script: exact, and as fast as on a plain list. What is
//! bounded is the size of each key and each command: a node can move, copy and delete it chunk by
//! chunk. What is not spread is the memory; cut what is too large for a node into lists of its own,
//! by day or by user.
//!
//! | | |
//! | --- | --- |
//! | `big-list:{NAME}` | directory: first and last chunk, length |
//! | `big-list:{NAME}:NUMBER` | chunk, at most 128 elements |

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex, PoisonError},
};

use redis::Value;
use seawall_client::unlink_slowly;
use seawall_client::{
    Handle, MAX_COMMAND_MEMBERS,
    client::Script,
    error::{Error, Result},
};

use super::{
    Element,
    core::{BATCH_BYTES, MAX_VALUE_BYTES, check},
    element,
};

static LIST: Script = Script::new(include_str!("script/list.lua"));

/// Elements of a chunk. Every process must mean the same.
const CHUNK: i64 = 128;
/// How often an operation is tried again because others changed the ends.
const MAX_TRIES: u32 = 256;

/// What this process believes of the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Ends {
    head: i64,
    tail: i64,
    length: i64,
    /// Elements in the first chunk.
    first: i64,
}

/// A list that can grow without any key of it growing; a cheap clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::Seawall;
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let log = seawall.bucketed_list::<String>("log")?;
/// for n in 0..1000 {
///     log.push_back(&format!("line {n}")).await?;
/// }
/// assert_eq!(log.range(998, 10).await?, ["line 998", "line 999"]);
/// assert_eq!(log.pop_front().await?.as_deref(), Some("line 0"));
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct BucketedList<V> {
    handle: Handle,
    directory: Arc<[u8]>,
    ends: Arc<Mutex<Ends>>,
    shape: PhantomData<fn() -> V>,
}

impl<V: Element> BucketedList<V> {
    /// A list in chunks.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that makes no key.
    pub fn new(handle: &Handle, name: &str) -> Result<Self> {
        let directory = handle.key("big-list", name)?.into();
        Ok(BucketedList {
            handle: handle.clone(),
            directory,
            ends: Arc::default(),
            shape: PhantomData,
        })
    }

    /// Appends an element; how many there are then.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`Error::Invalid`] for an element that is too long. After
    /// [`Error::Indeterminate`] nobody knows whether it was appended.
    pub async fn push_back(&self, value: &V) -> Result<u64> {
        self.push("push_back", value).await
    }

    /// Puts an element in front; how many there are then.
    ///
    /// # Errors
    /// As [`BucketedList::push_back`].
    pub async fn push_front(&self, value: &V) -> Result<u64> {
        self.push("push_front", value).await
    }

    /// Takes the last element.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send). After [`Error::Indeterminate`] it may be gone.
    pub async fn pop_back(&self) -> Result<Option<V>> {
        self.call("pop_back", &[]).await?.elements.pop().map(element).transpose()
    }

    /// Takes the first element.
    ///
    /// # Errors
    /// As [`BucketedList::pop_back`].
    pub async fn pop_front(&self) -> Result<Option<V>> {
        self.call("pop_front", &[]).await?.elements.pop().map(element).transpose()
    }

    /// How many elements there are.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn len(&self) -> Result<u64> {
        Ok(self.look().await?.length.unsigned_abs())
    }

    /// Whether there are none.
    ///
    /// # Errors
    /// As [`BucketedList::len`].
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Elements from an index on, at most 1,000 and fewer when they are long: go on behind the last.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`Error::Invalid`] for too many at once.
    pub async fn range(&self, start: u64, count: usize) -> Result<Vec<V>> {
        if count > MAX_COMMAND_MEMBERS {
            return Err(Error::Invalid(format!(
                "{count} elements at once, the most is {MAX_COMMAND_MEMBERS}"
            )));
        }
        let start = i64::try_from(start).unwrap_or(i64::MAX);
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let mut ends = self.look().await?;
        for _ in 0..MAX_TRIES {
            if start >= ends.length || count == 0 {
                return Ok(Vec::new());
            }
            let last = start.saturating_add(count).min(ends.length) - 1;
            let (from, offset) = chunk_of(&ends, start);
            let (to, _) = chunk_of(&ends, last);
            let args = [ends.first, offset, last - start + 1, BATCH_BYTES as i64];
            let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_string().into_bytes()).collect();
            match self.once(ends, "range", from..=to, &args).await? {
                Answer::Done(done) => return done.elements.into_iter().map(element).collect(),
                Answer::Moved(_) => ends = self.look().await?,
            }
        }
        Err(changes_too_fast())
    }

    /// Removes everything, chunk by chunk. How many elements were removed.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send): call again to go on.
    pub async fn remove_all(&self) -> Result<u64> {
        let ends = self.look().await?;
        let mut removed = 0;
        // The chunks in the middle first: the ends are what others see, and go with the directory.
        for number in ends.head..=ends.tail {
            removed += unlink_slowly(&self.handle, &self.chunk(number), |_| {}).await?.members;
        }
        let mut unlink = redis::cmd("UNLINK");
        unlink.arg(&*self.directory);
        self.handle.client().send(&self.directory, &unlink).await?;
        Ok(removed)
    }

    async fn push(&self, what: &str, value: &V) -> Result<u64> {
        let value = value.to_bytes();
        check(&value, "element", MAX_VALUE_BYTES)?;
        Ok(self.call(what, &[value.into_owned()]).await?.length.unsigned_abs())
    }

    async fn call(&self, what: &str, args: &[Vec<u8>]) -> Result<Done> {
        let mut ends = self.believed();
        for _ in 0..MAX_TRIES {
            #[expect(clippy::reversed_empty_ranges, reason = "no chunks besides the ends")]
            match self.once(ends, what, 1..=0, args).await? {
                Answer::Done(done) => return Ok(done),
                Answer::Moved(now) => ends = now,
            }
        }
        Err(changes_too_fast())
    }

    async fn look(&self) -> Result<Ends> {
        let mut ends = self.believed();
        for _ in 0..MAX_TRIES {
            #[expect(clippy::reversed_empty_ranges, reason = "no chunks besides the ends")]
            if let Answer::Moved(now) = self.once(ends, "look", 1..=0, &[]).await? {
                if (now.head, now.tail) == (ends.head, ends.tail) {
                    return Ok(now);
                }
                ends = now;
            }
        }
        Err(changes_too_fast())
    }

    async fn once(
        &self,
        ends: Ends,
        what: &str,
        chunks: std::ops::RangeInclusive<i64>,
        args: &[Vec<u8>],
    ) -> Result<Answer> {
        let Ends { head, tail, .. } = ends;
        let mut keys = vec![self.directory.to_vec()];
        keys.extend([head, tail, head - 1, tail + 1].map(|number| self.chunk(number)));
        keys.extend(chunks.map(|number| self.chunk(number)));
        let call = LIST.on(&keys).arg(head).arg(tail).arg(CHUNK).arg(what).arg(args);
        let mut reply = self.handle.client().eval::<Vec<Value>>(&call).await?.into_iter();
        let word: String = redis::from_redis_value(reply.next().unwrap_or(Value::Nil))?;
        if word == "moved" {
            let numbers: Result<Vec<i64>> =
                reply.map(|value| Ok(redis::from_redis_value(value)?)).collect();
            let &[head, tail, length, first] = numbers?.as_slice() else {
                return Err(Error::unexpected("a list of another shape"));
            };
            let now = Ends { head, tail, length, first };
            self.believe(now);
            return Ok(Answer::Moved(now));
        }
        let length = redis::from_redis_value(reply.next().unwrap_or(Value::Nil))?;
        self.believe(Ends { length, ..ends });
        let elements: Result<Vec<Vec<u8>>> =
            reply.map(|value| Ok(redis::from_redis_value(value)?)).collect();
        Ok(Answer::Done(Done { length, elements: elements? }))
    }

    fn chunk(&self, number: i64) -> Vec<u8> {
        [&*self.directory, b":", number.to_string().as_bytes()].concat()
    }

    fn believed(&self) -> Ends {
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn believe(&self, ends: Ends) {
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner) = ends;
    }
}

enum Answer {
    Done(Done),
    Moved(Ends),
}

/// What an operation did.
struct Done {
    /// Elements that there are then: the list's own word, not what this process believes by now.
    length: i64,
    elements: Vec<Vec<u8>>,
}

/// Which chunk an index is in, and where in it.
fn chunk_of(ends: &Ends, index: i64) -> (i64, i64) {
    if index < ends.first {
        return (ends.head, index);
    }
    let behind = index - ends.first;
    (ends.head + 1 + behind / CHUNK, behind % CHUNK)
}

fn changes_too_fast() -> Error {
    Error::Unavailable("the list's ends change faster than they can be read".into())
}

impl<V> Clone for BucketedList<V> {
    fn clone(&self) -> Self {
        BucketedList {
            handle: self.handle.clone(),
            directory: Arc::clone(&self.directory),
            ends: Arc::clone(&self.ends),
            shape: PhantomData,
        }
    }
}

impl<V> fmt::Debug for BucketedList<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(&self.directory);
        f.debug_struct("BucketedList").field("directory", &name).finish_non_exhaustive()
    }
}
