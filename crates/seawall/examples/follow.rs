//! Who follows whom, with a database behind it: `cargo run -p seawall --example follow`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use seawall::{Seawall, social::Follow};

/// A table `follow(user_id, follow_user_id)`.
type Table = Arc<Mutex<BTreeMap<u64, Vec<u64>>>>;

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    let table: Table = Arc::default();
    {
        let mut rows = table.lock().expect("not poisoned");
        rows.insert(1, vec![10, 11, 12]);
        rows.insert(2, vec![11, 12, 13]);
        rows.insert(11, vec![12, 14]);
    }
    let source = Arc::clone(&table);
    let follows = seawall
        .follows::<u64>("user")
        .max_follows(2_000)
        .source(move |user| {
            let rows = source.lock().expect("not poisoned").get(&user).cloned();
            async move {
                say(&format!("  (the database was asked for {user})"));
                Ok::<_, std::io::Error>(rows.unwrap_or_default())
            }
        })
        .build()?;

    let (ann, ben) = (follows.of(&1)?, follows.of(&2)?);
    say(&format!("Ann follows {}", ann.count().await?));
    say(&format!("Ann and Ben both follow {:?}", ann.common(&ben, 10).await?));
    say(&format!("of 10, 13: {:?}", ann.following(&[10, 13]).await?));

    // The database first, then the set.
    table.lock().expect("not poisoned").entry(1).or_default().push(13);
    for whom in [13, 13, 1] {
        let outcome = ann.follow(&whom).await?;
        let text = match outcome {
            Follow::Followed | Follow::Already => "fine",
            Follow::Oneself => "a user cannot follow themselves",
            Follow::Full => "too many",
        };
        say(&format!("Ann follows {whom}: {outcome:?}, {text}"));
    }
    // Only from what is at hand in Redis: 11's follows are loaded by somebody looking at them.
    follows.of(&11)?.count().await?;
    say(&format!("perhaps also {:?}", ann.suggested(3).await?));
    // Redis may forget: it is read again, by one process.
    ann.forget().await?;
    say(&format!("Ann follows {}", ann.count().await?));
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
