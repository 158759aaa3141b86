//! The servers one by one: for work that looks at each of them, such as a survey of their keys.

use std::sync::Arc;

use super::{Client, DedicatedConnection, Node, Route, dial::Address, monitored::Monitored};
use crate::error::Result;

impl Client {
    /// The addresses of the primaries, as they are known now.
    pub async fn primaries(&self) -> Result<Vec<Address>> {
        self.admit()?;
        match &self.inner.route {
            Route::Single(node) => Ok(vec![Address::clone(&*node.confirmed_address().await?)]),
            Route::Cluster(cluster) => {
                cluster.read_map().await?;
                Ok(cluster.nodes().iter().map(|node| Address::clone(&node.address())).collect())
            }
        }
    }

    /// Opens a connection of one's own to this server, with the login and the database of the handle.
    pub async fn dedicated_at(&self, address: Address) -> Result<DedicatedConnection> {
        self.admit()?;
        DedicatedConnection::open(Arc::new(Node::new(self.inner.route.dialer(), address, None)))
            .await
    }

    /// A connection to this server that tells every command it gets.
    pub async fn monitor_at(&self, address: &Address) -> Result<Monitored> {
        self.admit()?;
        self.inner.route.dialer().monitor(address).await
    }
}
