//! Read through the cache, write past it: `cargo run -p seawall --example cache`.

use std::{io, time::Duration};

use seawall::{
    Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seawall = Seawall::connect("embedded:").await?;
    let shops: Cache<u64, String> = seawall.cache("shop").ttl(Duration::from_secs(60)).build()?;

    for _ in 0..3 {
        let shop = shops.get_or_load(&42, || select("tea house")).await?;
        say(&format!("{:?} from {:?}, {:?} old", shop.value, shop.source, shop.age));
    }

    // The database first; the entry is invalidated when that is done.
    let ((), done) = shops.write(&42, update("coffee house")).await?;
    let Invalidation::Applied(version) = done else { return Err("Redis is away".into()) };
    let shop =
        shops.get_or_load_as(Freshness::After(version), &42, || select("coffee house")).await?;
    say(&format!("after the write: {:?} from {:?}", shop.value, shop.source));
    assert_eq!(shop.value.as_deref().map(String::as_str), Some("coffee house"));

    let many = shops.get_many(&[1, 2, 42], select_many).await;
    say(&format!("a batch of {}", many.into_iter().filter(Result::is_ok).count()));

    seawall.shutdown().await;
    Ok(())
}

async fn select(name: &str) -> Result<Loaded<String>, io::Error> {
    Ok(Loaded::Found(name.to_owned()))
}

async fn select_many(ids: Vec<u64>) -> io::Result<std::collections::HashMap<u64, String>> {
    Ok(ids.into_iter().map(|id| (id, format!("shop {id}"))).collect())
}

async fn update(_name: &str) -> io::Result<()> {
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
