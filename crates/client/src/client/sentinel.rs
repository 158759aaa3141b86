//! Who the primary is, as the sentinels see it.
//!
//! A fail-over is followed in three ways, the quickest wins: a `+switch-master` message from any
//! sentinel, a poll once a second in case those messages were lost, and the old primary's own
//! refusal to write. All sentinels are asked at once, and the answer with the highest configuration
//! epoch counts: a sentinel that was cut off goes on naming the old primary, with an old epoch. An
//! epoch lower than one seen before is believed only from a majority, which happens when the
//! sentinels were set up anew. And an address is used only when the server there says itself that it
//! is a primary.

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
/// How long the other sentinels are waited for after the first one answered.
const STRAGGLERS: Duration = Duration::from_millis(200);
const SWITCHED: &str = "+switch-master";

/// The sentinels of one primary.
pub(crate) struct Sentinels {
    nodes: Vec<Arc<Node>>,
    master: String,
    /// Connects to the primary, to ask what it is.
    server_dialer: Arc<Dialer>,
    /// The highest configuration epoch that was believed.
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

    /// The primary's address, confirmed by itself.
    pub(crate) async fn primary(&self) -> Result<Host> {
        let named = self.named().await?;
        let connection = self.server_dialer.shared(&Address::Tcp(named.clone())).await?;
        let role = connection.send(&cmd("ROLE")).await;
        match role.and_then(refused).map(Value::from) {
            Ok(Value::Array(role)) if is_text(role.first(), b"master") => Ok(named),
            // A question is no command of the caller's: nothing of that was sent.
            Err(error) => Err(Error::Unavailable(format!("{named}: {error}").into())),
            Ok(_) => Err(Error::Unavailable(format!("{named} is not a primary").into())),
        }
    }

    /// The address that the sentinels name.
    async fn named(&self) -> Result<Host> {
        let mut asked: FuturesUnordered<_> =
            self.nodes.iter().map(|sentinel| self.named_by(sentinel)).collect();
        let mut best: Option<(u64, Host)> = None;
        let mut answers = 0;
        let mut reasons = Vec::new();
        loop {
            let next = match best {
                None => asked.next().await,
                Some(_) => tokio::time::timeout(STRAGGLERS, asked.next()).await.ok().flatten(),
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

    /// Follows fail-overs until the node is gone.
    pub(crate) async fn follow(self: Arc<Self>, node: Weak<Node>) {
        let switched = Notify::new();
        let listeners = join_all(self.nodes.iter().map(|one| self.listen(one, &switched)));
        let follower = async {
            loop {
                // A poll also finds what was switched before anybody listened.
                let _ = tokio::time::timeout(POLL, switched.notified()).await;
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
            _ = listeners => {}
            () = follower => {}
        }
    }

    /// Listens to one sentinel for ever.
    async fn listen(&self, sentinel: &Node, switched: &Notify) {
        loop {
            if let Err(error) = Self::hear(sentinel, switched).await {
                tracing::debug!(?sentinel, %error, "a sentinel is not heard");
            }
            tokio::time::sleep(POLL).await;
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
