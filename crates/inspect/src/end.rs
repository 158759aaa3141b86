//! How surveys end: done, told to stop, or left by a server.

use seawall_client::error::{Error, Result};

/// How a survey came to its end.
#[derive(Debug, Clone)]
#[must_use]
pub enum End {
    /// Every key was looked at.
    Complete,
    /// It was told to stop: the report holds what was found until then.
    Interrupted,
    /// A server did not answer: the report holds what was found until then.
    Failed(Error),
}

/// Works until it is done, has failed or is told to stop.
pub(super) async fn ending(
    work: impl Future<Output = Result<()>>,
    stop: impl Future<Output = ()>,
) -> End {
    tokio::select! {
        biased;
        () = stop => End::Interrupted,
        done = work => done.map_or_else(End::Failed, |()| End::Complete),
    }
}
