//! Reads the message counters of all caches of a handle together.
//!
//! Every cache that is in use compares its counter five times a second. They do it at the same moments
//! (`subscriber.rs`), so the first one waits a moment for the others and asks for all of them: one
//! command on a single server, one pipeline for each server of a Cluster, however many caches there
//! are.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use redis::{Cmd, Value, cmd};
use seawall_client::{
    Handle, MAX_COMMAND_MEMBERS,
    client::{Client, Topology},
    error::{Error, Result},
};
use tokio::sync::oneshot;

/// How long the first one waits for others.
const GATHER: Duration = Duration::from_millis(2);

type Asked = (Vec<u8>, oneshot::Sender<Option<u64>>);

/// The counters of one handle.
pub(crate) struct Counters {
    client: Client,
    asked: Mutex<Vec<Asked>>,
}

impl Counters {
    /// Returns the reader of the message counters of a handle's caches.
    pub(crate) fn of(handle: &Handle) -> Arc<Self> {
        let new = || Counters { client: handle.client().clone(), asked: Mutex::default() };
        handle.slot(|| Arc::new(new()))
    }

    /// Returns the number of the last message that was sent, 0 when there was none yet; `None` when
    /// Redis does not say.
    pub(crate) async fn read(self: &Arc<Self>, counter: &[u8]) -> Option<u64> {
        let (answer, number) = oneshot::channel();
        let is_first = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.push((counter.to_vec(), answer));
            asked.len() == 1
        };
        if is_first {
            // It ends within the time-out for replies, and does not belong to a caller that may give up.
            tokio::spawn(Arc::clone(self).ask());
        }
        number.await.ok().flatten()
    }

    async fn ask(self: Arc<Self>) {
        self.client.network_clock().sleep(GATHER).await;
        let asked = std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner));
        let (keys, answers): (Vec<Vec<u8>>, Vec<_>) = asked.into_iter().unzip();
        for (answer, reply) in answers.into_iter().zip(self.fetch(keys).await) {
            let number: Option<Option<u64>> =
                reply.ok().and_then(|reply| redis::from_redis_value(reply).ok());
            // A receiver that is gone need not be told.
            let _ = answer.send(number.map(|number| number.unwrap_or(0)));
        }
    }

    async fn fetch(&self, keys: Vec<Vec<u8>>) -> Vec<Result<Value>> {
        if keys.len() == 1 || self.client.topology() == Topology::Cluster {
            let commands = keys.into_iter().map(|key| {
                let get = get(&key);
                (key, get)
            });
            return self.client.send_all(commands.collect()).await;
        }
        let mut replies = Vec::with_capacity(keys.len());
        for some in keys.chunks(MAX_COMMAND_MEMBERS) {
            let mut command = cmd("MGET");
            command.arg(some);
            match self.client.send(&some[0], &command).await {
                Ok(Value::Array(values)) if values.len() == some.len() => {
                    replies.extend(values.into_iter().map(Ok));
                }
                Ok(_) => {
                    let error = Error::unexpected("MGET without its counters");
                    replies.extend(some.iter().map(|_| Err(error.clone())));
                }
                Err(error) => replies.extend(some.iter().map(|_| Err(error.clone()))),
            }
        }
        replies
    }
}

fn get(key: &[u8]) -> Cmd {
    let mut get = cmd("GET");
    get.arg(key);
    get
}
