//! Stock over shards: receipts, holds, sales, an audit, a rebuild: `cargo run -p seawall --example inventory`.

use std::time::Duration;

use seawall::{
    Seawall, cmd,
    stock::{Held, Movement},
};

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    let stock = seawall.inventory(&("sku", 4711)).shards(3).open().await?;
    // In ten rounds over all shards; the second time it is there already.
    say(&format!("{:?}", stock.receive("delivery-1", 300).await?));
    say(&format!("{:?}", stock.receive("delivery-1", 300).await?));

    // A checkout holds, a payment sells. The reference goes into the order's row.
    let mut ledger = vec![Movement::Received { receipt: "delivery-1".into(), units: 300 }];
    for order in 0..3 {
        let name = format!("order-{order}");
        let (reference, held) = stock.hold_anywhere(&name, 2, Duration::from_secs(900)).await?;
        if let Held::Held(hold) = held {
            say(&format!("{reference}: {:?}", hold.parts));
            say(&format!(
                "{:?}, and again {:?}",
                stock.sell(&reference).await?,
                stock.sell(&reference).await?
            ));
            ledger.push(Movement::Sold { reference, units: 2 });
        }
    }
    // More than any shard has: gathered from several.
    let (reference, held) = stock.hold_anywhere("large", 200, Duration::from_secs(900)).await?;
    if let Held::Held(hold) = held {
        say(&format!("{reference}: {:?}", hold.parts));
        say(&format!("{:?}", stock.release(&reference).await?));
    }
    let audit = stock.audit().await?;
    say(&format!("{:?}, conserved: {}", audit.total(), audit.is_conserved()));

    // A shard is lost: the others go on, and the ledger brings it back.
    for key in stock.shard_keys(1).unwrap_or_default() {
        seawall.client().send(key, cmd("DEL").arg(key)).await?;
    }
    say(&format!("shard 1: {:?}", stock.audit().await?.shards[1]));
    stock.rebuild_shard(1, &ledger).await?;
    say(&format!("rebuilt: {:?}", stock.audit().await?.total()));
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
