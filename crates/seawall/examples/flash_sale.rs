//! A flash sale: one unit each, exactly as many as there are: `cargo run -p seawall --example flash_sale`.

use std::time::Duration;

use seawall::{
    Seawall,
    stock::{OrderFields, Reserved, SaleWindow},
};

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    // Sixteen groups: sixteen streams of orders, however many sales there are.
    let voucher = 35u64;
    let sale = seawall.flash_sale(&voucher).group(&(voucher % 16)).orders(50_000).build()?;
    let window = SaleWindow::from_now(Duration::ZERO, Duration::from_secs(3600))?;
    say(&format!("{:?}", sale.open("voucher-35", window, 100).await?));
    // Opening it again, as every process does at its start, does not fill it up.
    say(&format!("{:?}", sale.open("voucher-35", window, 100).await?));

    let buyers = (0..1_000u64).map(|user| {
        let sale = sale.clone();
        tokio::spawn(async move {
            // The reference is the order's id: whoever loses the reply asks again with it.
            let (order_id, order) = (10_000 + user, OrderFields::new().field("voucher", 35));
            sale.reserve(&user, &order_id, &order).await
        })
    });
    let (mut reserved, mut sold_out, mut others) = (0, 0, 0);
    for buyer in buyers.collect::<Vec<_>>() {
        match buyer.await {
            Ok(Ok(Reserved::Reserved(_))) => reserved += 1,
            Ok(Ok(Reserved::SoldOut)) => sold_out += 1,
            _ => others += 1,
        }
    }
    say(&format!("1,000 buyers: {reserved} reserved, {sold_out} too late, {others} otherwise"));

    // One did not pay: the unit is for sale again, once, however often it is given back.
    let first = (0..1_000u64).map(|user| 10_000 + user);
    let mut given_back = 0;
    for order in first {
        if sale.give_back(&order).await? == seawall::stock::CancelOutcome::Returned {
            given_back += 1;
            break;
        }
    }
    let again = sale.reserve(&5_000u64, &"order-x", &OrderFields::new()).await?;
    say(&format!("{given_back} given back, then {:?}", again.receipt().map(|r| r.sequence)));
    if let Some(status) = sale.status().await? {
        say(&format!("{status:?}, conserved: {}", status.is_conserved()));
    }
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
