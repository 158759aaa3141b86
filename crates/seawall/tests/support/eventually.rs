//! Waiting for what cannot be awaited: asked again and again, with a generous deadline.

use std::time::{Duration, Instant};

/// Long enough for anything that should happen, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again and again until it is so.
pub(crate) async fn eventually(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so().await {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
