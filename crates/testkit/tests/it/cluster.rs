//! The Cluster: it forms, fails over by order and by itself, moves a slot, and can be held half-way.

use std::time::Duration;

use seawall_testkit::proxy::On;
use seawall_testkit::{Cluster, Reply, Role, slot_of};

#[test]
fn a_cluster_forms_and_every_slot_is_served() {
    let cluster = Cluster::start().unwrap();
    assert_eq!(cluster.nodes().len(), 6);
    assert_eq!(cluster.primaries().unwrap().len(), 3);
    assert_eq!(cluster.url().matches("127.0.0.1:").count(), 6);
    for n in 0..20 {
        let key = format!("key:{n}");
        let primary = cluster.primary_of(key.as_bytes()).unwrap();
        assert_eq!(primary.role().unwrap(), Role::Primary);
        let mut client = primary.connect().unwrap();
        assert_eq!(client.call(&["SET", &key, "v"]).unwrap().text(), "OK");
        let acknowledged = client.call(&["WAIT", "1", "5000"]).unwrap();
        assert_eq!(acknowledged, Reply::Int(1));
        let replicas = cluster.replicas_of(key.as_bytes()).unwrap();
        assert_eq!(replicas.len(), 1);
        assert_eq!(replicas[0].role().unwrap(), Role::Replica);
        let server = client.call(&["CLUSTER", "KEYSLOT", &key]).unwrap();
        assert_eq!(server, Reply::Int(i64::from(slot_of(key.as_bytes()))));
    }
}

#[test]
fn a_planned_fail_over_keeps_the_data() {
    let cluster = Cluster::start().unwrap();
    let old = cluster.primary_of(b"k").unwrap();
    old.connect().unwrap().call(&["SET", "k", "v"]).unwrap();
    let new = cluster.failover(old).unwrap();
    assert_ne!(new.id(), old.id());
    assert_eq!(cluster.primary_of(b"k").unwrap().id(), new.id());
    assert_eq!(new.connect().unwrap().call(&["GET", "k"]).unwrap().text(), "v");
    let moved = old.connect().unwrap().call(&["GET", "k"]).unwrap().text();
    assert!(moved.starts_with("MOVED"), "{moved}");
}

#[test]
fn a_killed_primary_is_replaced_and_comes_back_as_a_replica() {
    let cluster = Cluster::start().unwrap();
    let old = cluster.primary_of(b"k").unwrap();
    let mut client = old.connect().unwrap();
    client.call(&["SET", "k", "v"]).unwrap();
    client.call(&["WAIT", "1", "5000"]).unwrap();
    old.kill().unwrap();
    let new = cluster.await_failover(old, slot_of(b"k")).unwrap();
    assert_eq!(new.connect().unwrap().call(&["GET", "k"]).unwrap().text(), "v");
    old.restart().unwrap();
    cluster.settle(Duration::from_secs(20)).unwrap();
    assert_eq!(old.role().unwrap(), Role::Replica);
}

#[test]
fn a_paused_primary_is_replaced_and_gives_in_when_it_wakes() {
    let cluster = Cluster::start().unwrap();
    let old = cluster.primary_of(b"k").unwrap();
    old.pause().unwrap();
    let new = cluster.await_failover(old, slot_of(b"k")).unwrap();
    assert_eq!(new.role().unwrap(), Role::Primary);
    old.resume().unwrap();
    cluster.settle(Duration::from_secs(20)).unwrap();
    assert_eq!(old.role().unwrap(), Role::Replica);
}

#[test]
fn a_slot_moves_with_its_keys_and_can_be_held_half_way() {
    let cluster = Cluster::with(2, 0).unwrap();
    let slot = slot_of(b"{tag}");
    let from = cluster.primary_of_slot(slot).unwrap();
    let to = cluster.primaries().unwrap().into_iter().find(|node| node.id() != from.id()).unwrap();
    let mut client = from.connect().unwrap();
    for n in 0..250 {
        client.call(&["SET", &format!("{{tag}}:{n}"), "v"]).unwrap();
    }

    let moving = cluster.begin_move(slot, to).unwrap();
    moving.move_key(b"{tag}:7").unwrap();
    assert_eq!(client.call(&["GET", "{tag}:8"]).unwrap().text(), "v");
    let ask = client.call(&["GET", "{tag}:7"]).unwrap().text();
    assert_eq!(ask, format!("ASK {slot} 127.0.0.1:{}", to.port()));
    let both = client.call(&["MGET", "{tag}:7", "{tag}:8"]).unwrap().text();
    assert!(both.starts_with("TRYAGAIN"), "{both}");
    let mut target = to.connect().unwrap();
    assert!(target.call(&["GET", "{tag}:7"]).unwrap().text().starts_with("MOVED"));
    target.call(&["ASKING"]).unwrap();
    assert_eq!(target.call(&["GET", "{tag}:7"]).unwrap().text(), "v");

    moving.move_keys().unwrap();
    moving.finish().unwrap();
    assert_eq!(cluster.primary_of_slot(slot).unwrap().id(), to.id());
    let count = target.call(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]).unwrap();
    assert_eq!(count, Reply::Int(250));
    cluster.move_slot(slot, from).unwrap();
    assert_eq!(client.call(&["GET", "{tag}:249"]).unwrap().text(), "v");
}

#[test]
fn a_proxied_cluster_sends_its_clients_through_the_proxies() {
    let cluster = Cluster::builder().proxied().start().unwrap();
    let primary = cluster.primary_of(b"k").unwrap();
    let proxy = primary.proxy().unwrap();
    assert!(cluster.url().contains(&format!("127.0.0.1:{}", proxy.port())), "{}", cluster.url());
    let other = cluster.primaries().unwrap().into_iter().find(|n| n.id() != primary.id()).unwrap();
    let moved = other.connect().unwrap().call(&["GET", "k"]).unwrap().text();
    assert!(moved.ends_with(&format!("127.0.0.1:{}", proxy.port())), "{moved}");

    proxy.drop_reply(On::command("SET").once());
    assert!(proxy.connect().unwrap().call(&["SET", "k", "v"]).is_err());
    let mut client = proxy.connect().unwrap();
    assert_eq!(client.call(&["GET", "k"]).unwrap().text(), "v");
    assert_eq!(client.call(&["WAIT", "1", "5000"]).unwrap(), Reply::Int(1));
    let new = cluster.failover(primary).unwrap();
    assert_eq!(new.connect().unwrap().call(&["GET", "k"]).unwrap().text(), "v");
}
