//! Selects the servers that a survey asks: for each primary its most advanced replica, or itself.
//!
//! The primary's own `INFO replication` names the replicas. That works the same on a single server,
//! behind sentinels and in a Cluster, and shows which replicas are online now. A replica is used if
//! it confirms that it is a replica and that it is connected. A survey of a replica changes no idle
//! times on the primary and does not block writers.

use std::{sync::Arc, time::Duration};

use redis::{Value, cmd};
use seawall_client::{
    client::{Address, Client, DedicatedConnection, Host, Topology},
    error::{Error, Result},
};

/// Time limit for any one command of a survey.
pub(super) const COMMAND_LIMIT: Duration = Duration::from_secs(30);
/// Replicas that are tried for one primary.
const MAX_REPLICAS: usize = 16;

/// Which servers a survey asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// A replica where there is one, else the primary.
    #[default]
    PreferReplica,
    /// Only replicas; without one the survey fails.
    Replica,
    /// Only primaries.
    Primary,
}

/// Role of a server in replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It accepts writes.
    Primary,
    /// It follows a primary.
    Replica,
}

impl Role {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Role::Primary => "primary",
            Role::Replica => "replica",
        }
    }
}

/// One server that is asked for the keys of a primary.
pub(super) struct Place {
    pub(super) name: Arc<str>,
    /// The primary whose keys these are.
    pub(super) primary: Address,
    pub(super) role: Role,
    pub(super) connection: DedicatedConnection,
    /// Keys in its database.
    pub(super) keys: u64,
    /// Why it differs from what was requested.
    pub(super) note: Option<String>,
}

/// Returns one place for each primary.
pub(super) async fn places(client: &Client, source: Source) -> Result<Vec<Place>> {
    let mut places = Vec::new();
    for primary in client.primaries().await? {
        places.push(place(client, &primary, source).await?);
    }
    Ok(places)
}

async fn place(client: &Client, primary: &Address, source: Source) -> Result<Place> {
    let mut connection = client.dedicated_at(primary.clone()).await?;
    let mut tried = Vec::new();
    if source != Source::Primary {
        for address in replicas(&mut connection).await? {
            match replica(client, address.clone()).await {
                Ok(mut connection) => {
                    let keys = connection.send(&cmd("DBSIZE"), COMMAND_LIMIT).await?;
                    let name = address.to_string().into();
                    let (primary, role) = (primary.clone(), Role::Replica);
                    return Ok(Place { name, primary, role, connection, keys, note: None });
                }
                Err(error) => tried.push(format!("the replica {address} is passed over: {error}")),
            }
        }
        if source == Source::Replica {
            let why = tried.first().cloned().unwrap_or_else(|| "it has none".into());
            return Err(Error::Unavailable(format!("{primary}: no replica, {why}").into()));
        }
    }
    let keys = connection.send(&cmd("DBSIZE"), COMMAND_LIMIT).await?;
    Ok(Place {
        name: primary.to_string().into(),
        role: Role::Primary,
        primary: primary.clone(),
        connection,
        keys,
        note: tried.into_iter().next(),
    })
}

/// Returns the replicas that are online, most advanced first.
async fn replicas(connection: &mut DedicatedConnection) -> Result<Vec<Address>> {
    let info: String = connection.send(cmd("INFO").arg("replication"), COMMAND_LIMIT).await?;
    let mut found: Vec<(u64, Host)> = info.lines().filter_map(parse_replica).collect();
    found.sort_by(|a, b| b.cmp(a));
    found.truncate(MAX_REPLICAS);
    Ok(found.into_iter().map(|(_, host)| Address::Tcp(host)).collect())
}

/// Parses `slave0:ip=127.0.0.1,port=7001,state=online,offset=42,lag=0`.
fn parse_replica(line: &str) -> Option<(u64, Host)> {
    let (name, fields) = line.trim().split_once(':')?;
    let number = name.strip_prefix("slave").or_else(|| name.strip_prefix("replica"))?;
    number.parse::<u32>().ok()?;
    let field = |wanted: &str| {
        fields.split(',').find_map(|field| field.strip_prefix(wanted)?.strip_prefix('='))
    };
    if field("state")? != "online" {
        return None;
    }
    let host = Host { name: field("ip")?.to_owned(), port: field("port")?.parse().ok()? };
    Some((field("offset").and_then(|text| text.parse().ok()).unwrap_or(0), host))
}

async fn replica(client: &Client, address: Address) -> Result<DedicatedConnection> {
    let mut connection = client.dedicated_at(address).await?;
    let role: Vec<Value> = connection.send(&cmd("ROLE"), COMMAND_LIMIT).await?;
    let word = |index: usize| -> String {
        role.get(index).and_then(|word| redis::from_redis_value_ref(word).ok()).unwrap_or_default()
    };
    if word(0) != "slave" || word(3) != "connected" {
        return Err(Error::Unavailable(format!("it is {} {}", word(0), word(3)).into()));
    }
    if client.topology() == Topology::Cluster {
        connection.send::<Value>(&cmd("READONLY"), COMMAND_LIMIT).await?;
    }
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_read_from_info() {
        let line = "slave0:ip=10.0.0.7,port=7001,state=online,offset=42,lag=0\r";
        assert_eq!(parse_replica(line), Some((42, Host { name: "10.0.0.7".into(), port: 7001 })));
        assert_eq!(parse_replica("slave1:ip=::1,port=7001,state=wait_bgsave,offset=0,lag=0"), None);
        for line in
            ["connected_slaves:1", "slave_read_repl_offset:1", "slave0:", "slave0:ip=,port=x"]
        {
            assert_eq!(parse_replica(line), None, "{line}");
        }
    }
}
