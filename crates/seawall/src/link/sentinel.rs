//! Who the primary is, as the sentinels see it.
//!
//! A fail-over is followed in three ways, the quickest wins: a `+switch-master` message, a poll once
//! a second in case that message was lost, and the old primary's own refusal to write. An address
//! that a sentinel gives is believed only when the server there says itself that it is a primary:
//! sentinels that were cut off go on naming the old one.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt;
use redis::{Value, cmd};

use super::{
    dial::{Address, Dialer},
    node::Node,
    url::Host,
};
use crate::error::{Error, Result};

const POLL: Duration = Duration::from_secs(1);
const SWITCHED: &str = "+switch-master";

/// The sentinels of one primary.
pub(crate) struct Sentinels {
    hosts: Vec<Host>,
    master: String,
    /// Connects to sentinels, which have no databases and often no password.
    sentinel_dialer: Dialer,
    server_dialer: Arc<Dialer>,
    /// Index of the sentinel that answered last.
    last: AtomicUsize,
}

impl Sentinels {
    pub(crate) fn new(
        hosts: Vec<Host>,
        master: String,
        sentinel_dialer: Dialer,
        server_dialer: Arc<Dialer>,
    ) -> Self {
        Sentinels { hosts, master, sentinel_dialer, server_dialer, last: AtomicUsize::new(0) }
    }

    /// The primary's address, confirmed by itself.
    pub(crate) async fn primary(&self) -> Result<Host> {
        let mut reasons = Vec::new();
        for step in 0..self.hosts.len() {
            let index = (self.last.load(Ordering::Relaxed) + step) % self.hosts.len();
            match self.ask(&self.hosts[index]).await {
                Ok(primary) => {
                    self.last.store(index, Ordering::Relaxed);
                    return Ok(primary);
                }
                Err(error) => reasons.push(format!("{}: {error}", self.hosts[index])),
            }
        }
        Err(Error::Unavailable(
            format!(
                "no sentinel names a working primary of {:?} ({})",
                self.master,
                reasons.join("; ")
            )
            .into(),
        ))
    }

    async fn ask(&self, sentinel: &Host) -> Result<Host> {
        let named = self.named_by(sentinel).await?;
        let mut connection = self.server_dialer.shared(&Address::Tcp(named.clone())).await?;
        let failed = |error| Error::from_client(&error, self.server_dialer.response_timeout);
        match connection.send_packed_command(&cmd("ROLE")).await.map_err(failed)? {
            Value::Array(role) if is_text(role.first(), b"master") => Ok(named),
            _ => Err(Error::Unavailable(format!("{named} is not a primary").into())),
        }
    }

    async fn named_by(&self, sentinel: &Host) -> Result<Host> {
        let mut connection = self.sentinel_dialer.shared(&Address::Tcp(sentinel.clone())).await?;
        let mut question = cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(&self.master);
        let reply = connection
            .send_packed_command(&question)
            .await
            .map_err(|error| Error::from_client(&error, self.sentinel_dialer.response_timeout))?;
        match redis::from_redis_value::<Option<(String, u16)>>(reply)? {
            Some((name, port)) => Ok(Host { name, port }),
            None => Err(Error::Invalid(format!(
                "the sentinel knows no primary called {:?}",
                self.master
            ))),
        }
    }

    /// Follows fail-overs until the node is gone.
    pub(crate) async fn follow(self: Arc<Self>, node: Weak<Node>) {
        let mut turn = 0;
        loop {
            let sentinel = &self.hosts[turn % self.hosts.len()];
            turn += 1;
            let heard = self.listen(sentinel, &node).await;
            if node.strong_count() == 0 {
                return;
            }
            if let Err(error) = heard {
                tracing::debug!(%sentinel, %error, "a sentinel does not answer");
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Listens to one sentinel and polls it, until it fails or the node is gone.
    async fn listen(&self, sentinel: &Host, node: &Weak<Node>) -> Result<()> {
        let mut messages = self.sentinel_dialer.messages(&Address::Tcp(sentinel.clone())).await?;
        messages
            .subscribe(SWITCHED)
            .await
            .map_err(|error| Error::from_client(&error, self.sentinel_dialer.response_timeout))?;
        let mut messages = messages.into_on_message();
        loop {
            tokio::select! {
                message = messages.next() => match message {
                    None => return Err(Error::Unavailable("its connection ended".into())),
                    // name, old host, old port, new host, new port
                    Some(message) => tracing::info!(what = %String::from_utf8_lossy(message.get_payload_bytes()), "sentinels switched"),
                },
                () = tokio::time::sleep(POLL) => {}
            }
            let named = self.named_by(sentinel).await?;
            let Some(node) = node.upgrade() else { return Ok(()) };
            let address = Address::Tcp(named);
            if *node.address() != address {
                tracing::info!(?address, "following the primary");
                node.retarget(address);
            }
        }
    }
}

fn is_text(value: Option<&Value>, wanted: &[u8]) -> bool {
    matches!(value, Some(Value::BulkString(text)) if text == wanted)
}
