//! One like a member, and who was first: `cargo run -p seawall --example likes`.

use seawall::{
    Seawall,
    social::{Change, LikesOf, Toggle},
};

/// What `PUT /blog/like/{id}` would do; the answer says whether the row's counter has to follow.
async fn click(note: &LikesOf<u64>, user: u64) -> Result<String, seawall::Error> {
    Ok(match note.toggle(&user).await? {
        Toggle::On => format!("{user} likes it: INSERT INTO blog_like"),
        Toggle::Off => format!("{user} does not any more: DELETE FROM blog_like"),
    })
}

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    let likes = seawall.likes::<u64>("note");
    let note = likes.of(&501)?;

    for user in [3, 1, 2] {
        say(&click(&note, user).await?);
    }
    say(&click(&note, 1).await?);

    // Where the client says what it wants, a double click is nothing special.
    for _ in 0..2 {
        let change = note.like(&4).await?;
        say(&format!("4 likes it: {}", if change == Change::Changed { "new" } else { "known" }));
    }
    // Where it names its click, a repeated request is answered as the first one.
    let once = note.toggle_once(&5, "click-8f3a").await?;
    let again = note.toggle_once(&5, "click-8f3a").await?;
    say(&format!("5: {once:?}, and again {again:?}"));

    say(&format!("{} likes, first of all {:?}", note.count().await?, note.first(5).await?));
    say(&format!("of 1, 2, 3: {:?}", note.among(&[1, 2, 3]).await?));
    say(&format!("3 on a page of notes: {:?}", likes.liked_by(&3, &[500, 501, 502]).await?));

    // A note with millions of likes: 64 keys on all primaries of a Cluster, the same calls.
    let famous = seawall.likes::<u64>("famous").shards(64)?.of(&1)?;
    for user in 0..1_000 {
        let _ = famous.like(&user).await?;
    }
    say(&format!("{} likes over 64 keys", famous.count().await?));
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
