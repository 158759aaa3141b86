//! The Sentinel set: it forms, fails over by order and by itself, and takes the old primary back.

use std::time::{Duration, Instant};

use seawall_testkit::{Reply, Role, SentinelSet};

#[test]
fn a_set_forms_with_one_primary_and_two_followers() {
    let set = SentinelSet::start().unwrap();
    assert!(set.url().starts_with("redis-sentinel://127.0.0.1:"), "{}", set.url());
    assert!(set.url().ends_with(&format!("/{}/0", set.master_name())), "{}", set.url());
    let primary = set.primary().unwrap();
    assert_eq!(primary.role().unwrap(), Role::Primary);
    assert_eq!(set.replicas().unwrap().len(), 2);
    let mut client = primary.connect().unwrap();
    client.call(&["SET", "k", "v"]).unwrap();
    assert_eq!(client.call(&["WAIT", "2", "5000"]).unwrap(), Reply::Int(2));
    let quorum = ["SENTINEL", "CKQUORUM", set.master_name()];
    let answer = set.sentinels()[0].connect().unwrap().call(&quorum).unwrap().text();
    assert!(answer.starts_with("OK"), "{answer}");
}

#[test]
fn an_ordered_fail_over_keeps_the_data() {
    let set = SentinelSet::start().unwrap();
    let old = set.primary().unwrap();
    let mut client = old.connect().unwrap();
    client.call(&["SET", "k", "v"]).unwrap();
    client.call(&["WAIT", "2", "5000"]).unwrap();
    let new = set.failover().unwrap();
    assert_ne!(new.port(), old.port());
    assert_eq!(new.connect().unwrap().call(&["GET", "k"]).unwrap().text(), "v");
    assert_eq!(old.role().unwrap(), Role::Replica);
}

#[test]
fn a_killed_primary_is_replaced_and_comes_back_as_a_replica() {
    let set = SentinelSet::start().unwrap();
    let old = set.kill_primary().unwrap();
    let new = set.await_failover(old).unwrap();
    assert_eq!(new.role().unwrap(), Role::Primary);
    old.restart().unwrap();
    set.settle(Duration::from_secs(20)).unwrap();
    assert_eq!(old.role().unwrap(), Role::Replica);
}

#[test]
fn a_paused_primary_is_replaced_and_gives_in_when_it_wakes() {
    let set = SentinelSet::start().unwrap();
    let old = set.pause_primary().unwrap();
    let new = set.await_failover(old).unwrap();
    assert_eq!(new.role().unwrap(), Role::Primary);
    old.resume().unwrap();
    set.settle(Duration::from_secs(20)).unwrap();
    assert_eq!(old.role().unwrap(), Role::Replica);
}

#[test]
fn a_partitioned_primary_is_replaced_while_it_is_well() {
    let set = SentinelSet::proxied().unwrap();
    let old = set.primary().unwrap();
    let proxy = old.proxy().unwrap();
    let mut client = proxy.connect().unwrap();
    client.call(&["SET", "k", "v"]).unwrap();
    assert_eq!(client.call(&["WAIT", "2", "5000"]).unwrap(), Reply::Int(2));
    proxy.black_hole();
    let deadline = Instant::now() + Duration::from_secs(20);
    while set.primary().unwrap().port() == old.port() {
        assert!(Instant::now() < deadline, "nobody took over");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(old.role().unwrap(), Role::Primary, "it does not know");
    assert_eq!(old.connect().unwrap().call(&["SET", "k", "lost"]).unwrap().text(), "OK");
    proxy.heal();
    set.settle(Duration::from_secs(20)).unwrap();
    assert_eq!(old.role().unwrap(), Role::Replica);
    assert_eq!(old.connect().unwrap().call(&["GET", "k"]).unwrap().text(), "v");
}
