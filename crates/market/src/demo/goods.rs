//! Demo goods: 30 SKUs with their stock and its history, a long list of orders for user 2, none for
//! user 4, and a cart for user 1.
//!
//! The stock log is complete: the units on hand are those received less those ordered. Redis
//! follows it like any other log.

use sqlx::AssertSqlSafe;

use super::{DAY_MS, MINUTE_MS};
use crate::{
    db::{WriteTx, marks},
    error::Result,
    inventory::movement::{Reason, reference},
};

/// Rows per statement.
const ROWS_AT_ONCE: usize = 50;

/// Names and prices, from SKU 1 on.
const NAMES: [(&str, i64); 30] = [
    ("Harbour tea, 100 g", 3_600),
    ("The last lantern", 128_000),
    ("Seaweed crackers", 900),
    ("Copper kettle", 22_900),
    ("Noodle bowl, blue glaze", 4_800),
    ("Pair of chopsticks, cherry wood", 1_500),
    ("Salt from the old pans", 750),
    ("Rain coat, yellow", 18_800),
    ("Notebook with tide tables", 2_400),
    ("Ink, night blue", 3_200),
    ("Map of the town", 1_200),
    ("Sour plum jam", 2_100),
    ("Swim cap", 1_900),
    ("Goggles", 5_900),
    ("Towel, striped", 7_900),
    ("Bar of soap, pine", 1_100),
    ("Candle, beeswax", 2_600),
    ("Rope, 20 m", 6_400),
    ("Brass bell", 15_900),
    ("Postcards, set of eight", 1_600),
    ("Umbrella, large", 9_900),
    ("Chili oil", 2_300),
    ("Rice, 5 kg", 6_900),
    ("Fishing float", 800),
    ("Pocket torch", 4_500),
    ("Wool socks", 3_900),
    ("Song book", 2_900),
    ("Microphone, small", 19_900),
    ("Karaoke evening for four", 39_800),
    ("Sea chest", 68_000),
];
/// SKUs that are off the shelf.
const OFF_SHELF: [i64; 4] = [7, 14, 21, 28];

/// User with a long order list, and its length.
const BUYER: i64 = 2;
const ORDERS: i64 = 60;

/// Value of a column.
enum Cell {
    Number(i64),
    Text(String),
    Null,
}

use Cell::{Null, Number, Text};

pub(super) async fn fill(tx: &mut WriteTx<'_>, now: i64) -> Result<()> {
    let mut stock = Stock::new(now);
    skus(tx, now).await?;
    orders(tx, &mut stock, now).await?;
    stock.write(tx).await?;
    cart(tx, now).await
}

/// Returns the units on hand: 300 over three shards are 100 each; of 2, one shard has none.
fn on_hand(sku: i64) -> i64 {
    match sku {
        1 => 300,
        2 => 2,
        sku => 20 + sku * 37 % 180,
    }
}

fn price(sku: i64) -> i64 {
    let index = usize::try_from(sku - 1).unwrap_or(0);
    NAMES.get(index).map_or(0, |(_, price)| *price)
}

async fn skus(tx: &mut WriteTx<'_>, now: i64) -> Result<()> {
    let mut rows = Vec::new();
    for (sku, (name, price)) in (1..).zip(NAMES) {
        let is_off = OFF_SHELF.contains(&sku);
        rows.push(vec![
            Number(sku),
            Text(name.to_owned()),
            Number(price),
            Number(price * 9 / 10),
            Text(format!("/pictures/goods/{sku}.svg")),
            Number(i64::from(!is_off)),
            Number(now),
            Number(now),
        ]);
    }
    let head = "sku (id, name, price, vip_price, image, status, create_time, update_time)";
    insert(tx, head, rows).await
}

/// Stock and its history under construction.
struct Stock {
    now: i64,
    /// Units by SKU; index 0 is unused.
    num: Vec<i64>,
    log: Vec<Vec<Cell>>,
}

impl Stock {
    /// Everything was received a hundred days ago, including what the orders will take.
    fn new(now: i64) -> Self {
        let mut stock = Stock { now, num: vec![0; NAMES.len() + 1], log: Vec::new() };
        let mut wanted: Vec<i64> = (0..).take(NAMES.len() + 1).map(on_hand).collect();
        for order in 1..=ORDERS {
            let (_, stays) = status(order);
            for (sku, count) in items(order) {
                if let (true, Some(units)) = (stays, index(sku).and_then(|at| wanted.get_mut(at))) {
                    *units += count;
                }
            }
        }
        for (sku, units) in (0..).zip(wanted).skip(1) {
            let receipt = format!("opening-{sku}");
            stock.move_units(sku, units, (Reason::Receipt, receipt), now - 100 * DAY_MS);
        }
        stock
    }

    fn move_units(&mut self, sku: i64, delta: i64, why: (Reason, String), time: i64) {
        let Some(num) = index(sku).and_then(|at| self.num.get_mut(at)) else { return };
        let before = *num;
        *num += delta;
        let id = i64::try_from(self.log.len() + 1).unwrap_or(i64::MAX);
        let (reason, reference) = why;
        self.log.push(vec![
            Number(id),
            Number(sku),
            Number(delta),
            Number(before),
            Number(before + delta),
            Text(reason.word().to_owned()),
            Text(reference),
            Number(0),
            Number(time),
            Number(time),
        ]);
    }

    async fn write(self, tx: &mut WriteTx<'_>) -> Result<()> {
        let now = self.now;
        let stock = (0..).zip(self.num).skip(1);
        let rows = stock.map(|(sku, num)| [sku, num, now, now].map(Number).into()).collect();
        insert(tx, "inventory (sku_id, num, create_time, update_time)", rows).await?;
        let head = "inventory_log (id, sku_id, delta, before_num, after_num, reason, ref, applied, \
                    create_time, update_time)";
        insert(tx, head, self.log).await
    }
}

fn index(sku: i64) -> Option<usize> {
    usize::try_from(sku).ok()
}

/// Returns the status of an order, and whether its units stay sold.
fn status(order: i64) -> (&'static str, bool) {
    match order % 10 {
        3 => ("CANCELLED", false),
        7 => ("REFUNDED", false),
        _ => ("PAID", true),
    }
}

/// Returns SKU and count of each item; the first two SKUs are left alone.
fn items(order: i64) -> Vec<(i64, i64)> {
    let first = 3 + order % 28;
    let mut items = vec![(first, 1 + order % 3)];
    if order % 4 == 0 {
        items.push((3 + (first + 6) % 28, 1));
    }
    items
}

async fn orders(tx: &mut WriteTx<'_>, stock: &mut Stock, now: i64) -> Result<()> {
    let (mut heads, mut bodies) = (Vec::new(), Vec::new());
    for order in 1..=ORDERS {
        // Pairs of orders share a time, so that only the id tells them apart.
        let time = now - 90 * DAY_MS + (order - order % 2) * DAY_MS;
        let (status, stays) = status(order);
        let mut total = 0;
        for (sku, count) in items(order) {
            total += price(sku) * count;
            let name = index(sku).and_then(|at| NAMES.get(at - 1)).map_or("", |(name, _)| name);
            let home = order % 3;
            bodies.push(vec![
                Number(order),
                Number(sku),
                Number(count),
                Number(price(sku)),
                Text(name.to_owned()),
                Number(home),
                Number(time),
                Number(time),
            ]);
            let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
            let reference = reference(unsigned(order), usize::try_from(home).unwrap_or(0));
            stock.move_units(sku, -count, (Reason::Sale, reference.clone()), time);
            if !stays {
                stock.move_units(sku, count, (Reason::Return, reference), time + MINUTE_MS);
            }
        }
        let paid = if status == "CANCELLED" { Null } else { Number(time + MINUTE_MS) };
        let refunded = if status == "REFUNDED" { Number(time + 2 * MINUTE_MS) } else { Null };
        heads.push(vec![
            Number(order),
            Number(BUYER),
            Text(status.to_owned()),
            Number(total),
            Text(format!("demo-{order}")),
            Null,
            paid,
            Number(0),
            refunded,
            Number(time),
            Number(time),
        ]);
    }
    let head = "orders (id, user_id, status, total, idempotency_key, pay_begun, pay_time, refund_due, \
                refund_time, create_time, update_time)";
    insert(tx, head, heads).await?;
    let head = "order_item (order_id, sku_id, count, price, name, home, create_time, update_time)";
    insert(tx, head, bodies).await
}

/// Inserts a cart whose prices have changed since; one item is off the shelf.
async fn cart(tx: &mut WriteTx<'_>, now: i64) -> Result<()> {
    let items = [(1, 2, 1), (5, 1, 1), (14, 1, 0), (9, 3, 0)];
    let rows = (1..).zip(items).map(|(hours, (sku, count, selected))| {
        let time = now - hours * 60 * MINUTE_MS;
        [1, sku, selected, count, price(sku) + 100, time * 1000, time, time].map(Number).into()
    });
    let head =
        "cart (user_id, sku_id, selected, count, add_price, version, create_time, update_time)";
    insert(tx, head, rows.collect()).await
}

async fn insert(tx: &mut WriteTx<'_>, head: &str, rows: Vec<Vec<Cell>>) -> Result<()> {
    for rows in rows.chunks(ROWS_AT_ONCE) {
        let row = format!("({})", marks(rows.first().map_or(0, Vec::len)));
        let text = format!("INSERT INTO {head} VALUES {}", vec![row; rows.len()].join(", "));
        let mut query = sqlx::query(AssertSqlSafe(text));
        for cell in rows.iter().flatten() {
            query = match cell {
                Number(number) => query.bind(*number),
                Text(text) => query.bind(text.clone()),
                Null => query.bind(None::<i64>),
            };
        }
        query.execute(tx.query()).await?;
    }
    Ok(())
}
