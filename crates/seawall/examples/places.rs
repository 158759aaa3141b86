//! What is near, the nearest first: `cargo run -p seawall --example places`.

use seawall::{Error, Seawall, social::Point};

/// A table of shops, from which one has vanished.
async fn names(ids: Vec<u64>) -> Result<Vec<Option<String>>, Error> {
    Ok(ids.into_iter().map(|id| (id != 3).then(|| format!("shop {id}"))).collect())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let seawall = Seawall::connect("embedded:").await?;
    let food = seawall.places::<u64>("shop").kind("food")?;
    let square = Point { longitude: 116.397904, latitude: 39.909005 };
    let shops: Vec<(u64, Point)> = (1..=12)
        .map(|id| (id, Point { longitude: square.longitude + 0.002 * id as f64, ..square }))
        .collect();
    food.add(&shops).await?;

    let mut dangling = Vec::new();
    for page in 0.. {
        let near = food.nearby(square, 2_000.0, page * 5..page * 5 + 5).await?;
        if near.places.is_empty() {
            say(&format!("page {page} is past the end"));
            break;
        }
        // The index may name what the database does not know any more.
        let resolved = near.resolve(names).await?;
        for (name, metres) in &resolved.found {
            say(&format!("  {name}, {metres:.0} m"));
        }
        dangling.extend(resolved.dangling);
    }
    // When nobody pages any more: what is taken out moves later pages up.
    food.remove(&dangling).await?;
    say(&format!("mended: {dangling:?}"));
    if let Some(metres) = food.distance([&1, &12]).await? {
        say(&format!("1 and 12 are {metres:.1} m apart"));
    }
    let nowhere = Point { longitude: 200.0, latitude: 0.0 };
    if let Err(Error::Invalid(why)) = food.nearby(nowhere, 10.0, 0..5).await {
        say(&why);
    }
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
