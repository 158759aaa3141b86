//! Waiting until several servers are of one mind.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two looks at the servers.
pub(crate) const POLL_PAUSE: Duration = Duration::from_millis(20);

/// Asks again and again until there is no doubt left; `TimedOut` with the last one otherwise. A
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
