//! Two instances behind nginx, on a Cluster of three primaries and three replicas and one MariaDB: what
//! one of them does, the other knows.

use seawall_testkit::{Cluster, Nginx, TestDatabase};
use serde_json::json;

use crate::client::{Http, MarketProcess, data, eventually};

/// The servers and two instances on them.
struct Fleet {
    _cluster: Cluster,
    _database: TestDatabase,
    _folders: [tempfile::TempDir; 2],
    instances: [MarketProcess; 2],
    nginx: Nginx,
}

impl Fleet {
    fn start() -> Self {
        let cluster = Cluster::start().expect("a Cluster");
        let database = TestDatabase::create().expect("MariaDB");
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let instances = [0, 1].map(|number| {
            MarketProcess::start_with(
                folders[number].path(),
                &["--redis", &cluster.url(), "--sms", "echo", "--trusted-proxies", "127.0.0.1"],
                &[("SEAWALL_DATABASE", database.url())],
            )
        });
        let addresses: Vec<_> = instances.iter().map(|instance| instance.address).collect();
        let nginx = Nginx::start(&addresses).expect("nginx");
        Fleet { _cluster: cluster, _database: database, _folders: folders, instances, nginx }
    }

    /// Through nginx, which takes turns.
    fn client(&self) -> Http {
        Http::connect(self.nginx.address()).expect("nginx listens")
    }
}

#[test]
fn a_visit_to_the_market_goes_over_both_instances() {
    let fleet = Fleet::start();
    let mut client = fleet.client();

    // The code is asked for at one instance and used at the other; the session is everybody's.
    let ada = client.log_in("10000000001");
    for instance in &fleet.instances {
        let me = data(instance.client().get("/user/me", &ada));
        assert_eq!(me["nickName"], "Ada");
    }

    // A shop that was changed at one instance is not shown as it was by the other.
    let admin = client.log_in("10000000000");
    for instance in &fleet.instances {
        assert_eq!(data(instance.client().get("/shop/1", ""))["name"], "Harbour Noodles");
    }
    let mut shop = data(client.get("/shop/1", ""));
    shop["name"] = json!("Harbour Noodles & Sons");
    data(client.json("PUT", "/shop/1", &admin, &shop));
    for instance in &fleet.instances {
        let mut direct = instance.client();
        eventually("the new name", || {
            data(direct.get("/shop/1", ""))["name"] == "Harbour Noodles & Sons"
        });
    }

    // A flash sale: bought, written, paid.
    let order = data(client.post("/voucher-order/seckill/1", &ada));
    let order = order.as_str().expect("an id");
    assert_eq!(client.settled(order, &ada), "UNPAID");
    let again = client.post("/voucher-order/seckill/1", &ada).expect("an answer");
    assert_eq!((again.status, again.code()), (409, "DUPLICATE_ORDER"));
    data(client.post(&format!("/voucher-order/{order}/pay"), &ada));
    assert_eq!(data(client.get(&format!("/voucher-order/{order}"), &ada))["status"], "PAID");

    // A cart, filled by turns at both, becomes an order once.
    let bo = client.log_in("10000000003");
    for (sku, count) in [("1", 2), ("3", 1), ("1", 1)] {
        data(client.json("POST", "/cart", &bo, &json!({ "skuId": sku, "count": count })));
    }
    let quote = data(client.json("POST", "/cart/checkout", &bo, &json!({})));
    let body = json!({ "checkoutId": quote["checkoutId"] });
    let made = data(client.json_with("POST", "/order", &bo, &body, &[("idempotency-key", "k-1")]));
    let once = data(client.json_with("POST", "/order", &bo, &body, &[("idempotency-key", "k-1")]));
    assert_eq!(made, once, "the same key, the same order");
    let path = format!("/order/{}", made.as_str().expect("an id"));
    assert_eq!(data(client.get(&path, &bo))["status"], "UNPAID");
    data(client.post(&format!("{path}/pay"), &bo));
    for instance in &fleet.instances {
        assert_eq!(data(instance.client().get(&path, &bo))["status"], "PAID");
    }

    // A note reaches the feed of who follows its author.
    let chen = client.log_in("10000000006");
    data(client.json("PUT", "/follow/6/true", &ada, &json!({})));
    let note =
        json!({ "shopId": "1", "title": "From afar", "content": "It was good.", "images": [] });
    let id = data(client.json("POST", "/blog", &chen, &note));
    eventually("the note in the feed", || {
        let feed = data(client.get("/blog/of/follow", &ada));
        feed["list"].as_array().is_some_and(|list| list.iter().any(|item| item["id"] == id))
    });

    let Fleet { instances, .. } = fleet;
    for instance in instances {
        assert_eq!(instance.terminate(), Some(0));
    }
}
