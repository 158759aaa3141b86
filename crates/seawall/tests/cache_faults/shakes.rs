//! What breaks in a random campaign: what `faults` has, and servers that forget or run out of memory.

use std::time::Duration;

use seawall_testkit::proxy::{Direction, On};

use crate::{chance::Chance, faults::Ground, ledger::Ledger};

/// Less than any server needs: it evicts whatever it may, and refuses writes.
const TIGHT: &str = "1";
/// Any key goes, as it may when memory is short: entries, counters, generations.
const EVICT: &str = "local key = redis.call('RANDOMKEY') return key and redis.call('DEL', key)";

/// Breaks one thing and mends it. What it was.
pub(crate) async fn shake(
    ground: &mut Ground,
    ledger: &Ledger,
    chance: &mut Chance,
) -> &'static str {
    let moment = Duration::from_millis(30 + chance.below(300));
    match chance.below(18) {
        0 => {
            ground.command(&["SCRIPT", "FLUSH"]).await;
            "scripts flushed"
        }
        1 => {
            ground.command(&["FLUSHALL"]).await;
            "data flushed"
        }
        2 => {
            ground.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
            "subscribers killed"
        }
        3 | 4 => {
            let policy = if chance.below(2) == 0 { "allkeys-random" } else { "noeviction" };
            ground.command(&["CONFIG", "SET", "maxmemory-policy", policy]).await;
            ground.command(&["CONFIG", "SET", "maxmemory", TIGHT]).await;
            tokio::time::sleep(moment).await;
            ground.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
            "memory full"
        }
        14 | 15 => {
            for _ in 0..4 + chance.below(20) {
                ground.command(&["EVAL", EVICT, "0"]).await;
            }
            "keys evicted"
        }
        16 => {
            ground.command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
            "clients killed"
        }
        17 => {
            let millis = moment.as_millis().to_string();
            ground.command(&["CLIENT", "PAUSE", &millis, "ALL"]).await;
            tokio::time::sleep(moment).await;
            "server silent"
        }
        5 => forget(ground, ledger, moment).await,
        6 => hand_over(ground, ledger, chance).await,
        7 => {
            ground.pause_server(chance, moment * 2).await;
            "server paused"
        }
        _ => strain(ground, chance, moment).await,
    }
}

/// Something between the processes and a server.
async fn strain(ground: &Ground, chance: &mut Chance, moment: Duration) -> &'static str {
    let proxies = ground.proxies();
    if proxies.is_empty() {
        tokio::time::sleep(moment).await;
        return "nothing";
    }
    let proxy = proxies[usize::try_from(chance.below(proxies.len() as u64)).expect("a proxy")];
    let (what, direction) = match chance.below(2) {
        0 => ("late replies", Direction::Replies),
        _ => ("late requests", Direction::Requests),
    };
    match chance.below(10) {
        0 => {
            proxy.cut_all();
            "cut"
        }
        1 => {
            proxy.drop_reply(On::command("EVALSHA").probability(0.2).times(1 + chance.below(3)));
            "lost replies"
        }
        2 => {
            proxy.drop_request(On::command("EVALSHA").probability(0.2).times(2));
            "lost requests"
        }
        3 => {
            proxy.delay(direction, Duration::from_millis(chance.below(80)));
            tokio::time::sleep(moment).await;
            proxy.delay(direction, Duration::ZERO);
            what
        }
        4 => {
            proxy.stall(direction);
            tokio::time::sleep(moment * 2).await;
            proxy.heal();
            "stall"
        }
        5 | 8 | 9 => {
            proxies.iter().for_each(|proxy| proxy.drop_pushes(0.5));
            tokio::time::sleep(moment * 2).await;
            proxies.iter().for_each(|proxy| proxy.drop_pushes(0.0));
            "lost messages"
        }
        6 => {
            proxy.down();
            tokio::time::sleep(moment * 2).await;
            proxy.heal();
            "server gone"
        }
        _ => {
            proxy.black_hole();
            tokio::time::sleep(moment * 2).await;
            proxy.heal();
            "black hole"
        }
    }
}

/// A server comes back with what it had a moment ago.
async fn forget(ground: &mut Ground, ledger: &Ledger, moment: Duration) -> &'static str {
    if !remember(ground) {
        tokio::time::sleep(moment).await;
        return "nothing";
    }
    tokio::time::sleep(moment).await;
    come_back_older(ground, ledger);
    "older data"
}

/// Keeps what a server has at this moment, if that can be had again.
pub(crate) fn remember(ground: &Ground) -> bool {
    let Ground::Redis(server, _) = ground else { return false };
    server.connect().and_then(|mut client| client.call(&["SAVE"])).is_ok()
}

/// The server is killed, and starts with what was kept.
pub(crate) fn come_back_older(ground: &mut Ground, ledger: &Ledger) {
    let Ground::Redis(server, _) = ground else { return };
    ledger.may_forget();
    tokio::task::block_in_place(|| {
        server.kill().expect("it runs");
        server.restart().expect("it starts");
    });
    ledger.forgot();
}

/// A primary of a Cluster hands over, or is replaced while it does not answer.
async fn hand_over(ground: &Ground, ledger: &Ledger, chance: &mut Chance) -> &'static str {
    let Ground::Cluster(cluster) = ground else { return "nothing" };
    let planned = chance.below(3) > 0;
    tokio::task::block_in_place(|| {
        let Ok(primaries) = cluster.primaries() else { return };
        let primary =
            primaries[usize::try_from(chance.below(primaries.len() as u64)).expect("one")];
        if planned {
            // Refused while a replica is still behind.
            let _ = cluster.failover(primary);
            return;
        }
        ledger.may_forget();
        let slot = (0..seawall_testkit::SLOTS).find(|slot| {
            cluster.primary_of_slot(*slot).is_ok_and(|owner| owner.id() == primary.id())
        });
        primary.pause().expect("it runs");
        if let Some(slot) = slot {
            let _ = cluster.await_failover(primary, slot);
        }
        primary.resume().expect("it is stopped");
        ledger.forgot();
    });
    if planned { "planned fail-over" } else { "fail-over" }
}
