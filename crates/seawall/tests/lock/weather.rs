//! What comes between the handles and their servers during a campaign, and goes again.

use std::{collections::BTreeMap, time::Duration};

use seawall::{Seawall, cmd};
use seawall_testkit::{
    FaultProxy,
    proxy::{Direction, On},
};

use crate::chance::Chance;

/// How often each fault came.
pub(crate) type Faults = BTreeMap<&'static str, u64>;

/// Longest time that a fault stays.
const LONGEST_MS: u64 = 400;

/// Lets one fault come, stay for a moment and go.
pub(crate) async fn strike(proxies: &[&FaultProxy], chance: &mut Chance, faults: &mut Faults) {
    let Some(proxy) =
        proxies.get(usize::try_from(chance.below(proxies.len() as u64)).expect("few"))
    else {
        return;
    };
    let direction = if chance.below(2) == 0 { Direction::Requests } else { Direction::Replies };
    let often = 0.05 + chance.below(50) as f64 / 100.0;
    let stay = Duration::from_millis(chance.below(LONGEST_MS));
    let what = match chance.below(9) {
        0 => {
            proxy.drop_reply(On::any().probability(often / 2.0));
            "lost replies"
        }
        1 => {
            proxy.drop_reply(On::command("EVALSHA").probability(often));
            "lost replies to scripts"
        }
        2 => {
            proxy.drop_request(On::command("EVALSHA").probability(often));
            "lost requests"
        }
        3 => {
            tokio::task::block_in_place(|| proxy.cut_all());
            "cuts"
        }
        4 => {
            proxy.delay(direction, stay / 8);
            "delays"
        }
        5 => {
            proxy.stall(direction);
            "stalls"
        }
        6 => {
            proxy.cut_one_way(direction);
            "half open"
        }
        7 => {
            proxy.drop_pushes(1.0);
            "lost messages"
        }
        _ => {
            tokio::task::block_in_place(|| proxy.down());
            "outages"
        }
    };
    *faults.entry(what).or_insert(0) += 1;
    tokio::time::sleep(stay).await;
    tokio::task::block_in_place(|| proxy.heal());
}

/// Ends connections at a server that has no proxy.
pub(crate) async fn kill_connections(server: &Seawall, chance: &mut Chance, faults: &mut Faults) {
    let (which, what) =
        if chance.below(2) == 0 { ("normal", "cuts") } else { ("pubsub", "lost subscriptions") };
    let mut kill = cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg(which);
    // It may have cut itself off.
    if server.client().send(b"", &kill).await.is_ok() {
        *faults.entry(what).or_insert(0) += 1;
    }
    tokio::time::sleep(Duration::from_millis(chance.below(LONGEST_MS))).await;
}
