//! A feed that is scrolled while it grows: `cargo run -p seawall --example inbox`.

use seawall::{
    Seawall,
    social::{InboxOf, Page, Post, Scroll},
};

fn show(page: &Page<u64>) {
    let posts = page.posts.iter().map(|post| format!("{}@{}", post.item, post.time));
    say(&format!("  {}", posts.collect::<Vec<_>>().join("  ")));
}

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    let feed = seawall.inbox::<u64>("feed").max_kept(1_000)?;
    let fans: Vec<u64> = (100..400).collect();

    // Author 1 has 300 fans: each gets every post. Four of them share a millisecond.
    for (item, time) in [(10, 1_000), (11, 2_000), (12, 2_000), (13, 2_000), (14, 2_000)] {
        let done = feed.push(&Post { author: 1, item, time }, &fans).await?;
        // Whoever could not be reached goes to a queue, and is pushed to again.
        assert!(done.missed.is_empty(), "{done:?}");
    }
    // Author 2 has a million: its own list is pulled when a page is read.
    let lists = seawall.inbox::<u64>("outbox");
    for (item, time) in [(20, 1_500), (21, 2_500)] {
        let _ = lists.push(&Post { author: 2, item, time }, &[2]).await?;
    }
    let pulled: [InboxOf<u64>; 1] = [lists.of(&2)?];

    let mine = feed.of(&100)?;
    let first = mine.page_with(&pulled, None, 3).await?;
    show(&first);
    // While one reads, posts arrive, one of them at the very millisecond of the last one seen.
    for (item, time) in [(15, 2_000), (16, 3_000)] {
        let _ = feed.push(&Post { author: 1, item, time }, &fans).await?;
    }
    say(&format!("  ({} new since 2,500)", mine.count_since(2_500).await?));
    let mut next = first.next;
    while let Some(cursor) = next {
        // The client has it as text.
        let page = mine.page_with(&pulled, Some(&cursor.to_string().parse()?), 3).await?;
        show(&page);
        next = page.next;
    }

    // The form with score and offset, for clients that know no cursor.
    let page = mine.scroll(Scroll { max: 2_000, offset: 0 }, 3).await?;
    let Scroll { max, offset } = page.next;
    say(&format!("minTime {max}, offset {offset}"));

    // Unfollowed.
    say(&format!("{} posts taken out", mine.remove_author(&1).await?));
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
