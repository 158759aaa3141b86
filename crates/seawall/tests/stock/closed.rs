//! Shards that have lost their data, and shards that only do not answer: an audit tells them apart.

use seawall::{Seawall, cmd};
use seawall_testkit::{FaultProxy, ServerProcess, proxy::On};

use crate::{
    inventory::{MINUTE, total},
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    without sentinel:
    a_lost_shard_says_so
}

async fn a_lost_shard_says_so(setup: Setup) {
    let seawall = setup.connect().await;
    let stock = seawall.inventory("sku").sweep_interval(MINUTE * 60).open().await.expect("opened");
    let _ = stock.receive("r", 30).await.expect("ok");
    assert!(stock.audit().await.expect("ok").closed.is_empty());
    let keys = stock.shard_keys(1).expect("a shard");
    seawall
        .client()
        .send(&keys[0], cmd("HSET").arg(&keys[0]).arg("phase").arg("rebuilding"))
        .await
        .expect("ok");
    let audit = stock.audit().await.expect("ok");
    assert_eq!((audit.shards[1], audit.closed), (None, vec![1]), "left in the middle of a rebuild");
    for key in keys {
        seawall.client().send(key, cmd("DEL").arg(key)).await.expect("answered");
    }
    let audit = stock.audit().await.expect("ok");
    assert_eq!((audit.shards[1], audit.closed), (None, vec![1]), "lost");
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_does_not_answer_is_not_lost() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    let seawall = Seawall::connect(&proxy.url()).await.expect("it answers");
    let stock = seawall.inventory("sku").sweep_interval(MINUTE * 60).open().await.expect("opened");
    let _ = stock.receive("r", 30).await.expect("ok");
    let key = stock.shard_keys(1).expect("a shard")[0].clone();
    let away = proxy.fail_with(
        On::command("EVALSHA").key_prefix(key),
        "LOADING Redis is loading the dataset in memory",
    );
    let audit = stock.audit().await.expect("ok");
    assert_eq!((audit.shards[1], audit.closed.len()), (None, 0), "{audit:?}");
    proxy.remove(away);
    assert_eq!(total(&stock).await.left, 30);
    proxy.down();
    let audit = stock.audit().await.expect("ok");
    assert!(audit.shards.iter().all(Option::is_none) && audit.closed.is_empty(), "{audit:?}");
    seawall.shutdown().await;
}
