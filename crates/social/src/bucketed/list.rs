//! A list in chunks.
//!
//! The order of a list must be decided in one place. So all chunks of one list are in one slot, and
//! each operation is one script: exact, and as fast as on a plain list. The size of each key and
//! each command is bounded: a node can move, copy and delete the list chunk by chunk. The memory is
//! not spread over nodes; split data that is too large for a node into several lists, by day or by
//! user.
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

/// Elements of a chunk. Every process must use the same number.
const CHUNK: i64 = 128;
/// How often an operation is tried again because other clients changed the ends.
const MAX_TRIES: u32 = 256;

/// The ends of the list, as cached by this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Ends {
    head: i64,
    tail: i64,
    length: i64,
    /// Elements in the first chunk.
    first: i64,
}

/// A list that can grow while each of its keys stays small; cheap to clone.
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
    /// Creates a handle for a list in chunks.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name cannot be a key.
    pub fn new(handle: &Handle, name: &str) -> Result<Self> {
        let directory = handle.key("big-list", name)?.into();
        Ok(BucketedList {
            handle: handle.clone(),
            directory,
            ends: Arc::default(),
            shape: PhantomData,
        })
    }

    /// Appends an element and returns the new length.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`Error::Invalid`] if the element is too
    /// long. After [`Error::Indeterminate`] it is unknown whether it was appended.
    pub async fn push_back(&self, value: &V) -> Result<u64> {
        self.push("push_back", value).await
    }

    /// Prepends an element and returns the new length.
    ///
    /// # Errors
    /// As [`BucketedList::push_back`].
    pub async fn push_front(&self, value: &V) -> Result<u64> {
        self.push("push_front", value).await
    }

    /// Removes and returns the last element.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send). After [`Error::Indeterminate`] the
    /// element may be lost.
    pub async fn pop_back(&self) -> Result<Option<V>> {
        self.call("pop_back", &[]).await?.elements.pop().map(element).transpose()
    }

    /// Removes and returns the first element.
    ///
    /// # Errors
    /// As [`BucketedList::pop_back`].
    pub async fn pop_front(&self) -> Result<Option<V>> {
        self.call("pop_front", &[]).await?.elements.pop().map(element).transpose()
    }

    /// Returns the number of elements.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn len(&self) -> Result<u64> {
        Ok(self.look().await?.length.unsigned_abs())
    }

    /// Returns `true` if there are no elements.
    ///
    /// # Errors
    /// As [`BucketedList::len`].
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Returns elements from an index on, at most 1,000 and fewer if they are long; continue after
    /// the last one.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`Error::Invalid`] if `count` is too
    /// large.
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

    /// Removes everything, chunk by chunk, and returns how many elements were removed.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send): call again to continue.
    pub async fn remove_all(&self) -> Result<u64> {
        let ends = self.look().await?;
        let mut removed = 0;
        // All chunks come before the directory: after a failure the next call still finds the rest
        // by it.
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

/// Outcome of an operation.
struct Done {
    /// New length of the list, as the script returned it, not as this process has cached it.
    length: i64,
    elements: Vec<Vec<u8>>,
}

/// Returns the chunk of an index, and the position in that chunk.
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
