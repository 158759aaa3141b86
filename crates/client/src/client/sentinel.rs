//! Finds the primary by asking the sentinels.
//!
//! A fail-over is detected in three ways, whichever is fastest: a `+switch-master` message from any
//! sentinel, a poll once a second in case those messages are lost, and the old primary's refusal of
//! a write. All sentinels are asked at once, and the answer with the highest configuration epoch is
//! used: a sentinel that was partitioned still names the old primary, with an old epoch. An epoch
//! lower than one seen before is accepted only if a majority of the sentinels answered, which
//! happens when the sentinels were set up anew. In addition, an address is used only if the server
//! there itself reports that it is a primary.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use redis::{Value, cmd};
use tokio::sync::Notify;

use super::{
    dial::{Address, Dialer},
    node::{Node, refused},
    url::Host,
};
use crate::error::{Error, Result};

const POLL: Duration = Duration::from_secs(1);
/// How long to wait for the other sentinels after the first answer.
const STRAGGLERS: Duration = Duration::from_millis(200);
const SWITCHED: &str = "+switch-master";

/// The sentinels of one primary.
pub(crate) struct Sentinels {
    nodes: Vec<Arc<Node>>,
    master: String,
    /// Connects to the primary to verify its role.
    server_dialer: Arc<Dialer>,
    /// The highest configuration epoch accepted so far.
    epoch: AtomicU64,
}

impl Sentinels {
    /// `sentinel_dialer` connects to sentinels, which have no databases and often no password.
    pub(crate) fn new(
        hosts: Vec<Host>,
        master: String,
        sentinel_dialer: &Arc<Dialer>,
        server_dialer: Arc<Dialer>,
    ) -> Self {
        let node =
            |host| Arc::new(Node::new(Arc::clone(sentinel_dialer), Address::Tcp(host), None));
        let nodes = hosts.into_iter().map(node).collect();
        Sentinels { nodes, master, server_dialer, epoch: AtomicU64::new(0) }
    }

    /// Returns the primary's address, verified with `ROLE`.
    pub(crate) async fn primary(&self) -> Result<Host> {
        let named = self.named().await?;
        let connection = self.server_dialer.shared(&Address::Tcp(named.clone())).await?;
        let role = connection.send(&cmd("ROLE")).await;
        match role.and_then(refused).map(Value::from) {
            Ok(Value::Array(role)) if is_text(role.first(), b"master") => Ok(named),
            // This question is not a command of the caller: nothing of the caller's was sent.
            Err(error) => Err(Error::Unavailable(format!("{named}: {error}").into())),
            Ok(_) => Err(Error::Unavailable(format!("{named} is not a primary").into())),
        }
    }

    /// Returns the address that the sentinels name.
    async fn named(&self) -> Result<Host> {
        let mut asked: FuturesUnordered<_> =
            self.nodes.iter().map(|sentinel| self.named_by(sentinel)).collect();
        let mut best: Option<(u64, Host)> = None;
        let (clock, mut answers) = (&self.server_dialer.clock, 0);
        let mut reasons = Vec::new();
        loop {
            let next = match best {
                None => asked.next().await,
                Some(_) => clock.timeout(STRAGGLERS, asked.next()).await.flatten(),
            };
            match next {
                None => break,
                Some(Err(error)) => reasons.push(error),
                Some(Ok((epoch, host))) => {
                    answers += 1;
                    if best.as_ref().is_none_or(|(known, _)| epoch > *known) {
                        best = Some((epoch, host));
                    }
                }
            }
        }
        let Some((epoch, host)) = best else { return Err(self.nobody(&reasons)) };
        let lags = epoch < self.epoch.load(Ordering::Relaxed);
        if lags && answers * 2 <= self.nodes.len() {
            return Err(Error::Unavailable("only sentinels that lag behind answer".into()));
        }
        self.epoch.store(epoch, Ordering::Relaxed);
        Ok(host)
    }

    fn nobody(&self, reasons: &[Error]) -> Error {
        let unknown = |error: &Error| matches!(error, Error::Refused { message, .. } if message.contains("No such master"));
        if reasons.iter().any(unknown) {
            let master = &self.master;
            return Error::Invalid(format!("the sentinels know no primary called {master:?}"));
        }
        let hosts = self.nodes.iter().map(|node| format!("{:?}", node.address()));
        let hosts: Vec<_> = hosts.collect();
        let reason = reasons.first().map(ToString::to_string).unwrap_or_default();
        Error::Unavailable(format!("none of the sentinels {hosts:?} answers: {reason}").into())
    }

    async fn named_by(&self, sentinel: &Arc<Node>) -> Result<(u64, Host)> {
        let reply = sentinel.send(cmd("SENTINEL").arg("MASTER").arg(&self.master)).await?;
        let fields: Vec<String> = redis::from_redis_value(reply)?;
        let field = |name: &str| {
            fields.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| pair[1].as_str())
        };
        let number = |name| field(name).and_then(|text| text.parse::<u64>().ok());
        let port = number("port").and_then(|port| u16::try_from(port).ok());
        match (field("ip"), port) {
            (Some(ip), Some(port)) => {
                Ok((number("config-epoch").unwrap_or(0), Host { name: ip.to_owned(), port }))
            }
            _ => Err(Error::unexpected("SENTINEL MASTER names no address")),
        }
    }

    /// Follows fail-overs until the node is dropped.
    pub(crate) async fn follow(self: Arc<Self>, node: Weak<Node>) {
        let switched = Notify::new();
        let listeners = join_all(self.nodes.iter().map(|one| self.listen(one, &switched)));
        let follower = async {
            loop {
                // The poll also detects a switch that happened before the subscription.
                self.server_dialer.clock.timeout(POLL, switched.notified()).await;
                let Ok(named) = self.named().await else { continue };
                let Some(node) = node.upgrade() else { return };
                let address = Address::Tcp(named);
                if *node.address() != address {
                    tracing::info!(?address, "following the primary");
                    metrics::counter!("seawall_failovers_followed_total").increment(1);
                    node.retarget(address);
                }
            }
        };
        tokio::select! {
            biased;
            _ = listeners => {}
            () = follower => {}
        }
    }

    /// Listens to one sentinel, forever.
    async fn listen(&self, sentinel: &Node, switched: &Notify) {
        loop {
            if let Err(error) = Self::hear(sentinel, switched).await {
                tracing::debug!(?sentinel, %error, "a sentinel is not heard");
            }
            self.server_dialer.clock.sleep(POLL).await;
        }
    }

    async fn hear(sentinel: &Node, switched: &Notify) -> Result<()> {
        let mut messages = sentinel.dialer().messages(&sentinel.address()).await?;
        let failed = |error| Error::from_client(&error, sentinel.dialer().response_timeout);
        messages.subscribe(SWITCHED).await.map_err(failed)?;
        let mut messages = messages.into_on_message();
        while messages.next().await.is_some() {
            switched.notify_one();
        }
        Err(Error::Unavailable("its connection ended".into()))
    }
}

fn is_text(value: Option<&Value>, wanted: &[u8]) -> bool {
    matches!(value, Some(Value::BulkString(text)) if text == wanted)
}
