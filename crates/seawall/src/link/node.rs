//! One server, and the one connection that everybody shares to talk to it.
//!
//! A node connects when first asked and again after a failure, one attempt at a time; while an
//! attempt has just failed the next callers are told so at once instead of queueing for another
//! (the pause between attempts doubles up to a second). A connection is given up when it breaks,
//! when the server says that it no longer takes writes, or when a reply did not come in time *and*
//! nothing else came meanwhile: a slow command alone does not cost everybody the connection, a
//! peer that fell silent does.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use redis::{Cmd, Pipeline, RedisError, Value, aio::MultiplexedConnection};
use tokio::sync::watch;

use super::{
    dial::{Address, Dialer},
    sentinel::Sentinels,
};
use crate::error::{Error, Result};

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One server.
pub(crate) struct Node {
    /// No two nodes of a process have the same; never 0.
    number: u64,
    dialer: Arc<Dialer>,
    address: ArcSwap<Address>,
    /// Asked for the address before each attempt, where sentinels know it.
    sentinels: Option<Arc<Sentinels>>,
    live: ArcSwapOption<Live>,
    opening: tokio::sync::Mutex<()>,
    attempts: Mutex<Attempts>,
    /// Counts the connections that were opened.
    opened: watch::Sender<u64>,
}

struct Live {
    connection: MultiplexedConnection,
    replies: AtomicU64,
}

/// What became of the last attempts to connect.
#[derive(Default)]
struct Attempts {
    not_before: Option<Instant>,
    pause: Duration,
    error: Option<Error>,
}

impl Node {
    pub(crate) fn new(
        dialer: Arc<Dialer>,
        address: Address,
        sentinels: Option<Arc<Sentinels>>,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Node {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            dialer,
            address: ArcSwap::from_pointee(address),
            sentinels,
            live: ArcSwapOption::empty(),
            opening: tokio::sync::Mutex::default(),
            attempts: Mutex::default(),
            opened: watch::Sender::new(0),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn address(&self) -> Arc<Address> {
        self.address.load_full()
    }

    /// The address after the sentinels, if there are any, were asked.
    pub(crate) async fn confirmed_address(&self) -> Result<Arc<Address>> {
        if self.sentinels.is_some() {
            self.live().await?;
        }
        Ok(self.address())
    }

    pub(crate) fn dialer(&self) -> &Arc<Dialer> {
        &self.dialer
    }

    /// Changes whenever a new connection was opened.
    pub(crate) fn opened(&self) -> watch::Receiver<u64> {
        self.opened.subscribe()
    }

    /// Sends one command.
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value> {
        let live = self.live().await?;
        let before = live.replies.load(Ordering::Relaxed);
        match live.connection.clone().send_packed_command(command).await {
            Ok(value) => {
                live.replies.fetch_add(1, Ordering::Relaxed);
                refused(value).inspect_err(|error| self.heed(error, &live))
            }
            Err(error) => Err(self.failed(&error, &live, before)),
        }
    }

    /// Sends several commands in one write; a reply for each, or one error for all.
    pub(crate) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Result<Value>>> {
        let live = self.live().await?;
        let before = live.replies.load(Ordering::Relaxed);
        match live.connection.clone().send_packed_commands(commands, 0, commands.len()).await {
            Ok(values) => {
                live.replies.fetch_add(1, Ordering::Relaxed);
                let check = |value| refused(value).inspect_err(|error| self.heed(error, &live));
                Ok(values.into_iter().map(check).collect())
            }
            Err(error) => Err(self.failed(&error, &live, before)),
        }
    }

    fn failed(&self, error: &RedisError, live: &Arc<Live>, before: u64) -> Error {
        let error_kind = Error::from_client(error, self.dialer.response_timeout);
        let silent = live.replies.load(Ordering::Relaxed) == before;
        match &error_kind {
            Error::Refused { .. } => {
                live.replies.fetch_add(1, Ordering::Relaxed);
                self.heed(&error_kind, live);
            }
            // Whatever it is, the stream of replies can no longer be trusted.
            _ if !error.is_timeout() || silent => self.retire(live),
            _ => {}
        }
        error_kind
    }

    /// A server that turned into a replica is left for its successor.
    fn heed(&self, error: &Error, live: &Arc<Live>) {
        if error.is_code("READONLY") || error.is_code("MASTERDOWN") {
            self.retire(live);
        }
    }

    fn retire(&self, live: &Arc<Live>) {
        let current = self.live.load();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, live)) {
            self.live.compare_and_swap(&current, None);
        }
    }

    /// Moves to another address; whatever runs on the old connection is not waited for.
    pub(crate) fn retarget(&self, address: Address) {
        self.address.store(Arc::new(address));
        self.live.store(None);
        *self.attempts.lock().unwrap_or_else(PoisonError::into_inner) = Attempts::default();
    }

    /// Forgets the connection, for good when the handle is shut down.
    pub(crate) fn close(&self) {
        self.live.store(None);
    }

    async fn live(&self) -> Result<Arc<Live>> {
        if let Some(live) = self.live.load_full() {
            return Ok(live);
        }
        let _one_at_a_time = self.opening.lock().await;
        if let Some(live) = self.live.load_full() {
            return Ok(live);
        }
        {
            let attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
            if let (Some(not_before), Some(error)) = (attempts.not_before, &attempts.error)
                && Instant::now() < not_before
            {
                return Err(error.clone());
            }
        }
        let opened = self.open().await;
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        match opened {
            Ok(connection) => {
                *attempts = Attempts::default();
                let live = Arc::new(Live { connection, replies: AtomicU64::new(0) });
                self.live.store(Some(Arc::clone(&live)));
                self.opened.send_modify(|count| *count += 1);
                Ok(live)
            }
            Err(error) => {
                attempts.pause = (attempts.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                attempts.not_before = Some(Instant::now() + attempts.pause);
                attempts.error = Some(error.clone());
                tracing::debug!(address = ?self.address, %error, "cannot connect");
                Err(error)
            }
        }
    }

    async fn open(&self) -> Result<MultiplexedConnection> {
        if let Some(sentinels) = &self.sentinels {
            let address = sentinels.primary().await?;
            self.address.store(Arc::new(Address::Tcp(address)));
        }
        self.dialer.shared(&self.address.load()).await
    }
}

/// A reply that is an error is an error.
pub(super) fn refused(value: Value) -> Result<Value> {
    match value {
        Value::ServerError(error) => Err(Error::Refused {
            code: error.code().into(),
            message: error.details().unwrap_or_default().into(),
        }),
        value => Ok(value),
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("address", &self.address.load()).finish_non_exhaustive()
    }
}
