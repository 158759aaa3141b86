//! Waits until several servers agree.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two checks of the servers.
pub(crate) const POLL_PAUSE: Duration = Duration::from_millis(20);

/// Repeats a check until it reports no doubt; otherwise returns `TimedOut` with the last doubt. A
/// server that does not answer is a doubt too.
pub(crate) fn settle(
    what: &str,
    limit: Duration,
    mut doubt: impl FnMut() -> io::Result<Option<String>>,
) -> io::Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        let doubt = match doubt() {
            Ok(None) => return Ok(()),
            Ok(Some(doubt)) => doubt,
            Err(error) => error.to_string(),
        };
        if Instant::now() > deadline {
            let message = format!("{what} is not settled after {limit:?}: {doubt}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        thread::sleep(POLL_PAUSE);
    }
}
