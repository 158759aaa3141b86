//! On a Cluster: shards on different primaries, found again by everybody after slots have moved.

use std::collections::HashSet;

use seawall::{
    Seawall,
    stock::{Held, Received},
};
use seawall_testkit::{Cluster, slot_of};

use crate::inventory::{lefts, total};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_lie_on_different_primaries_and_are_found_after_resharding() {
    let cluster = Cluster::with(3, 0).expect("it starts");
    let seawall = Seawall::connect(&cluster.url()).await.expect("it answers");
    for sku in 0..5 {
        let stock = seawall.inventory(&sku).shards(6).open().await.expect("opened");
        let owner = |shard: usize| {
            let key = &stock.shard_keys(shard).expect("a shard")[0];
            cluster.primary_of(key).expect("an owner").port()
        };
        assert_eq!((0..3).map(owner).collect::<HashSet<_>>().len(), 3);
        for shard in 0..3 {
            assert_eq!(owner(shard), owner(shard + 3), "primary i mod n");
        }
    }
    let stock = seawall.inventory(&0).open().await.expect("opened");
    assert_eq!(stock.receive("r", 60).await.expect("ok"), Received::Complete { added: 60 });
    let key = stock.shard_keys(0).expect("a shard")[0].clone();
    let from = cluster.primary_of(&key).expect("an owner").port();
    let to = cluster.primaries().expect("primaries");
    let to = to.into_iter().find(|node| node.port() != from).expect("another");
    cluster.move_slot(slot_of(&key), to).expect("moved");
    // The handle follows, and a new process finds the shard where it is now.
    assert_eq!(lefts(&stock).await, [10; 6]);
    let other = Seawall::connect(&cluster.url()).await.expect("it answers");
    let same = other.inventory(&0).shards(2).open().await.expect("opened");
    assert_eq!(lefts(&same).await, [10; 6]);
    let all = same.reference("all").expect("valid");
    assert_eq!(same.sell_now(&all, 60).await.expect("ok"), Held::Sold { units: 60 });
    assert_eq!(total(&stock).await.sold, 60);
    for handle in [other, seawall] {
        handle.shutdown().await;
    }
}
