//! Access to individual servers, for work that inspects each of them, such as a survey of their
//! keys.

use std::sync::Arc;

use super::{Client, DedicatedConnection, Node, Route, dial::Address, monitored::Monitored};
use crate::error::Result;

impl Client {
    /// Returns the addresses of the primaries as currently known.
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

    /// Opens a dedicated connection to this server, with the credentials and database of the
    /// handle.
    pub async fn dedicated_at(&self, address: Address) -> Result<DedicatedConnection> {
        self.admit()?;
        DedicatedConnection::open(Arc::new(Node::new(self.inner.route.dialer(), address, None)))
            .await
    }

    /// Opens a connection on which this server reports every command that it receives.
    pub async fn monitor_at(&self, address: &Address) -> Result<Monitored> {
        self.admit()?;
        self.inner.route.dialer().monitor(address).await
    }
}
