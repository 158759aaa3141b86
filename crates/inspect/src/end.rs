//! How a survey ends: complete, stopped, or failed.

use seawall_client::error::{Error, Result};

/// How a survey ended.
#[derive(Debug, Clone)]
#[must_use]
pub enum End {
    /// Every key was examined.
    Complete,
    /// The caller stopped it: the report has what was found until then.
    Interrupted,
    /// A server did not answer: the report has what was found until then.
    Failed(Error),
}

/// Runs the work until it is done, has failed or is stopped.
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
