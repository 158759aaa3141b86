//! A hash that grew too big, taken over and spread while it is used: `cargo run -p seawall --example bucketed`.

use seawall::{
    Seawall,
    bigkey::{Cursor, Order, Place},
    cmd,
};

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;

    // A plain hash, as another program left it.
    let mut old = cmd("HSET");
    old.arg("carts-of-old");
    (0..1000).for_each(|user| _ = old.arg(user).arg(format!("cart of {user}")));
    seawall.client().send(b"carts-of-old", &old).await?;

    let carts = seawall.bucketed_hash::<u64, String>("carts", 1)?;
    carts.adopt(b"carts-of-old").await?;
    let writer = carts.clone();
    let writing = tokio::spawn(async move {
        for user in 1000..1100 {
            writer.set(&user, &format!("cart of {user}")).await?;
        }
        writer.remove(&[13]).await
    });
    let growth = carts.grow(8, |_| {}).await?;
    writing.await.map_err(std::io::Error::other)??;
    say(&format!(
        "{} carts in {} buckets, {} moved",
        carts.len().await?,
        growth.buckets,
        growth.moved
    ));

    let (mut seen, mut cursor) = (0, Some(Cursor::start()));
    while let Some(at) = cursor {
        let (page, next) = carts.scan(&at).await?;
        seen += page.len();
        cursor = next;
    }
    say(&format!("a scan saw {seen}"));

    // A ranking over buckets: pages go on from a place.
    let ranking = seawall.bucketed_sorted_set::<u64>("ranking", 4)?;
    let places: Vec<_> =
        (0..100).map(|n| Place { score: f64::from(n % 10), member: n as u64 }).collect();
    ranking.add(&places).await?;
    let first = ranking.first(Order::Falling, 3).await?;
    let second = ranking.after(Order::Falling, &first[2], 3).await?;
    say(&format!("{first:?}, then {second:?}"));

    let log = seawall.bucketed_list::<String>("log")?;
    for line in 0..300 {
        log.push_back(&format!("line {line}")).await?;
    }
    say(&format!("{:?} of {}", log.range(298, 5).await?, log.len().await?));

    carts.remove_all().await?;
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
