//! A seed determines what a handle draws.

use std::collections::BTreeMap;

use seawall::{Seawall, guard::random::Randomness, session::Sessions};

/// Opens a session and returns its token.
async fn token(randomness: Randomness) -> String {
    let seawall =
        Seawall::builder("embedded:").randomness(randomness).connect().await.expect("open");
    let sessions: Sessions<u64> = seawall.sessions("login").build().expect("valid");
    let token = sessions.open(&7, &BTreeMap::new()).await.expect("opened");
    seawall.shutdown().await;
    token.reveal().to_owned()
}

#[tokio::test]
async fn tokens_follow_from_a_seed_and_from_nothing_else() {
    let seeded = [7, 7, 8].map(Randomness::seeded);
    let [one, same, other] = seeded.map(token);
    let (one, same, other) = (one.await, same.await, other.await);
    assert_eq!(one, same);
    assert_ne!(one, other);
    assert_ne!(token(Randomness::system()).await, token(Randomness::system()).await);
}
