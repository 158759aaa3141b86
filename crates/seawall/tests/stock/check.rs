//! What must hold of a sale and of an inventory when everything has come to rest, as a list of what does
//! not; and proof, by bugs that are planted from outside, that the list is not always empty.

use std::time::{Duration, Instant};

use seawall::{
    Result, Script, cmd,
    stock::{FlashSale, Held, Inventory, OrderFields, Reference, Reserved, SaleWindow},
    testing::TestServer,
};

use crate::inventory::MINUTE;

/// How long the check repeats a question that a busy machine does not answer in time.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks until there is an answer. Every question here has a reference, so it may be repeated.
async fn answered<T>(mut ask: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Err(error) if error.is_outage() && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            answer => return answer,
        }
    }
}

/// What is wrong with an inventory whose customers have so many units, of so many received, and that
/// nothing is held at.
pub(crate) async fn wrong_with_inventory(
    stock: &Inventory,
    told: u64,
    received: u64,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let audit = match answered(async || stock.audit().await).await {
        Ok(audit) => audit,
        Err(error) => return vec![format!("no audit: {error}")],
    };
    let total = audit.total();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            wrong.push(format!("{what}: {told} told, {received} received, {audit:?}"));
        }
    };
    must(audit.is_complete(), "a shard is missing");
    must(audit.is_conserved(), "not conserved");
    must(total.received == received, "received");
    must(total.held == 0, "held by nobody");
    must(total.sold == told, "sold is not what customers were told");
    must(told <= received, "oversold");
    for unit in 0..total.left {
        let reference = stock.reference(&format!("rest-{unit}")).expect("valid");
        let sold = answered(async || stock.sell_now(&reference, 1).await).await;
        if !matches!(sold, Ok(Held::Sold { units: 1 })) {
            wrong.push(format!("unit {unit} of {} that are left: {sold:?}", total.left));
            return wrong;
        }
    }
    let reference = stock.reference("one more").expect("valid");
    let more = answered(async || stock.sell_now(&reference, 1).await).await;
    if !matches!(more, Ok(Held::SoldOut { left: 0 })) {
        wrong.push(format!("one more than there are: {more:?}"));
    }
    wrong
}

/// The same of a sale with so many buyers that have a unit.
pub(crate) async fn wrong_with_sale(sale: &FlashSale, told: u64, received: u64) -> Vec<String> {
    let status = match answered(async || sale.status().await).await {
        Ok(Some(status)) => status,
        other => return vec![format!("no status: {other:?}")],
    };
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            wrong.push(format!("{what}: {told} told, {received} received, {status:?}"));
        }
    };
    must(status.is_conserved(), "not conserved");
    must(status.received == received, "received");
    must(status.reserved + status.confirmed == told, "sold is not what buyers were told");
    must(told <= received, "oversold");
    for unit in 0..status.left {
        let name = format!("rest-{unit}");
        let fields = OrderFields::new();
        let sold =
            answered(async || sale.reserve(name.as_str(), name.as_str(), &fields).await).await;
        // Repeated under its own reference, it says so.
        if !matches!(sold, Ok(Reserved::Reserved(_) | Reserved::AlreadyYours(_))) {
            wrong.push(format!("unit {unit} of {} that are left: {sold:?}", status.left));
            return wrong;
        }
    }
    let fields = OrderFields::new();
    let more = answered(async || sale.reserve("one more", "one more", &fields).await).await;
    if !matches!(more, Ok(Reserved::SoldOut)) {
        wrong.push(format!("one more than there are: {more:?}"));
    }
    wrong
}

static HOLD: Script = Script::with_time(concat!(
    include_str!("../../../stock/src/script/shard.lua"),
    include_str!("../../../stock/src/script/hold.lua")
));
static RESERVE: Script = Script::with_time(concat!(
    include_str!("../../../stock/src/script/sale_history.lua"),
    include_str!("../../../stock/src/script/sale_reserve.lua")
));

/// A script with one thing changed, as a bug would.
fn changed(script: &str, from: &str, to: &str) -> String {
    assert_eq!(script.matches(from).count(), 1, "{from}");
    script.replace(from, to)
}

/// Two units at one shard; three customers buy through this script, and so many hear that they did.
async fn sold_by(test_server: &TestServer, script: &str) -> (Inventory, u64) {
    let builder = test_server.seawall().inventory("s").shards(1).sweep_interval(MINUTE * 60);
    let stock = builder.open().await.expect("opened");
    let _ = stock.receive("r", 2).await.expect("ok");
    let keys = stock.shard_keys(0).expect("a shard");
    let client = test_server.seawall().client();
    let epoch: String =
        client.query(&keys[0], cmd("HGET").arg(&keys[0]).arg("epoch")).await.expect("ok");
    let mut told = 0;
    for name in ["a", "b", "c"] {
        let mut eval = cmd("EVAL");
        eval.arg(script).arg(keys.len()).arg(keys).arg(&epoch).arg(60_000);
        eval.arg(Reference::new(name).expect("valid").as_str()).arg(1).arg(1000).arg("S");
        let answer: Vec<String> = client.query(&keys[0], &eval).await.expect("answered");
        told += u64::from(answer[0] == "NEW");
    }
    (stock, told)
}

#[tokio::test]
async fn the_checker_sees_an_inventory_that_is_oversold() {
    for (from, to, is_wrong) in [
        ("-- Atomic, because checking", "-- Atomic, because checking", false),
        // The last unit but one is the last: one too many is sold.
        ("+ (r and r.s == 'G' and r.units or 0) < units", "+ 1 < units", true),
        // One too few: the last unit cannot be had.
        ("+ (r and r.s == 'G' and r.units or 0) < units", "<= units", true),
        // Sold, and still for sale.
        ("  move('left', 'sold', units)", "  redis.call('HINCRBY', shard, 'sold', units)", true),
    ] {
        let test_server = TestServer::start().await.expect("a test_server");
        let (stock, told) = sold_by(&test_server, &changed(HOLD.text(), from, to)).await;
        let wrong = wrong_with_inventory(&stock, told, 2).await;
        let refused = told < 2;
        assert_eq!(!wrong.is_empty() || refused, is_wrong, "{to}: {told} told, {wrong:?}");
        test_server.shutdown().await;
    }
}

#[tokio::test]
async fn the_checker_sees_a_sale_that_is_oversold() {
    for (from, to, is_wrong) in [
        ("-- Atomic, because the checks", "-- Atomic, because the checks", false),
        ("if tonumber(sale[2]) < 1 then", "if tonumber(sale[2]) < 0 then", true),
        ("redis.call('HINCRBY', KEYS[1], 'left', -1)", "", true),
        ("if had then return {'DUPLICATE', had} end", "", true),
    ] {
        let test_server = TestServer::start().await.expect("a test_server");
        let sale = test_server.seawall().flash_sale("s").build().expect("valid");
        let window = SaleWindow::from_now(Duration::ZERO, MINUTE).expect("a window");
        let _ = sale.open("o", window, 2).await.expect("opened");
        let script = changed(RESERVE.text(), from, to);
        let key = |end: &str| format!("sale:{{s}}:s{end}");
        // Three users, of whom the first asks for a second unit.
        let mut told = std::collections::BTreeSet::new();
        for (user, reference) in [("1", "a"), ("1", "b"), ("2", "c"), ("3", "d")] {
            let mut eval = cmd("EVAL");
            eval.arg(&script).arg(4).arg(key("")).arg(key(":buyers")).arg(key(":receipts"));
            eval.arg("sale:{s}").arg(user).arg(reference).arg(0).arg(0);
            let answer: Vec<String> =
                test_server.seawall().client().query(b"", &eval).await.expect("answered");
            if answer[0] == "RESERVED" {
                told.insert(user);
            }
        }
        let wrong = wrong_with_sale(&sale, told.len() as u64, 2).await;
        assert_eq!(!wrong.is_empty(), is_wrong, "{to}: {told:?} told, {wrong:?}");
        test_server.shutdown().await;
    }
}
