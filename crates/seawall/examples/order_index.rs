//! The newest orders from Redis, older ones from the database: `cargo run -p seawall --example order_index`.

use std::{
    io,
    sync::{Arc, Mutex},
};

use seawall::{
    Seawall,
    social::{Add, Order},
};

/// A table of one user's orders.
#[derive(Clone, Default)]
struct Table(Arc<Mutex<Vec<Order>>>);

impl Table {
    /// `WHERE … older than before ORDER BY time, id % 1000, id as text, all descending LIMIT count`.
    async fn read(self, before: Option<Order>, count: usize) -> io::Result<Vec<Order>> {
        let place = |order: &Order| (order.time, order.id % 1_000, order.id.to_string());
        let mut rows = self.0.lock().expect("not poisoned").clone();
        rows.sort_by_key(place);
        let older =
            rows.into_iter().rev().filter(|row| before.is_none_or(|b| place(row) < place(&b)));
        Ok(older.take(count).collect())
    }
}

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    let table = Table::default();
    let source = table.clone();
    let index = seawall
        .order_index("order", move |_user: u64, before, count| source.clone().read(before, count))
        .max_kept(10)
        .hand_over(|user, order: Order| async move {
            // In real life: a stream whose worker calls `add` again.
            say(&format!("order {} of {user} goes to the repair queue", order.id));
            Ok::<_, io::Error>(())
        })
        .build()?;
    let orders = index.of(&7)?;
    say(&format!("{} orders", orders.page(None, 5).await?.orders.len()));

    for number in 0..14_u64 {
        let order = Order { id: 9_000 + number, time: 1_794_787_200_000 + number as i64 / 2 };
        // The database first.
        table.0.lock().expect("not poisoned").push(order);
        match orders.add(order).await? {
            Add::Added | Add::Already | Add::NotLoaded | Add::HandedOver => {}
        }
    }
    let mut after = None;
    loop {
        let page = orders.page(after.as_ref(), 6).await?;
        let ids: Vec<u64> = page.orders.iter().map(|order| order.id).collect();
        say(&format!("{ids:?}, {} of them from the database", page.from_source));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    // Now and then: is the list what the database says?
    say(&format!("{:?}", orders.audit().await?));
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
