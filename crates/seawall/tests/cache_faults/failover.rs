//! Primaries change and slots move while the oracle watches.
//!
//! A Cluster hands over without losing anything, so every read must be right throughout. A Sentinel
//! set may lose what was acknowledged while it hands over: there only the end is checked.

use seawall_testkit::slot_of;

use crate::{
    campaign::{Plan, run},
    faults::Ground,
};

const READS: u64 = 15_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn primaries_of_a_cluster_hand_over() {
    let plan = Plan { breaks: false, ..Plan::new(READS, false) };
    run("cluster-failover", &Ground::cluster(), &plan, async |ground| {
        let Ground::Cluster(cluster) = ground else { return };
        tokio::task::block_in_place(|| {
            let primary = cluster.primaries().expect("they answer")[0];
            cluster.failover(primary).expect("it hands over");
        });
    })
    .await
    .assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_of_a_cluster_move() {
    let plan = Plan { breaks: false, ..Plan::new(READS, false) };
    run("cluster-slots", &Ground::cluster(), &plan, async |ground| {
        let Ground::Cluster(cluster) = ground else { return };
        tokio::task::block_in_place(|| {
            let primaries = cluster.primaries().expect("they answer");
            for (at, primary) in primaries.iter().enumerate() {
                let mut client = primary.connect().expect("it answers");
                let keys = client.call(&["KEYS", "*oracle:*"]).expect("keys");
                let target = primaries[(at + 1) % primaries.len()];
                for key in keys.items().iter().take(4) {
                    let slot = slot_of(key.text().as_bytes());
                    cluster.move_slot(slot, target).expect("it moves");
                }
            }
        });
    })
    .await
    .assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_set_hands_over() {
    let plan = Plan { breaks: false, strict: false, ..Plan::new(READS, true) };
    run("sentinel-failover", &Ground::sentinel(), &plan, async |ground| {
        let Ground::Sentinel(set) = ground else { return };
        tokio::task::block_in_place(|| set.failover().map(drop)).expect("it hands over");
    })
    .await
    .assert_clean();
}
