//! What can go wrong between the toolkit and Redis, sorted by what the caller can do about it.
//!
//! The distinction that matters most is between *not sent* and *unknown*: a command that never left
//! may be tried again without thinking, one whose reply was lost may have been carried out. Whoever
//! retries an [`Error::Indeterminate`] must be idempotent; everything in this crate that retries is.

use std::{io, sync::Arc, time::Duration};

use redis::RedisError;
use seawall_resilience::InvalidSettings;

/// The engine's code for a change that is in memory and not in its log.
const UNLOGGED: &str = "UNLOGGED";

/// A failed conversation with Redis.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A URL, an option or an argument makes no sense; the text names it and says what is allowed.
    #[error("{0}")]
    Invalid(String),
    /// There was no connection: nothing was sent.
    #[error("Redis cannot be reached, nothing was sent: {0}")]
    Unavailable(Arc<str>),
    /// The command was sent, and no reply says what became of it: it may or may not have been carried
    /// out. Also when the embedded engine carried it out and could not write it to its log
    /// (`UNLOGGED`): a restart then shows whether it is kept.
    #[error("the command may have been carried out, after {waited:?}: {cause}")]
    Indeterminate {
        /// How long it was waited for.
        waited: Duration,
        /// What the client saw.
        cause: Arc<str>,
    },
    /// The server answered with an error: it is alive and refused.
    #[error("Redis refused: {code} {message}")]
    Refused {
        /// First word of the error, such as `WRONGTYPE` or `OOM`.
        code: Arc<str>,
        /// The rest of it.
        message: Arc<str>,
    },
    /// A reply was not of the shape that the command has: another version, or a key that is not ours.
    #[error("unexpected reply from Redis: {0}")]
    Unexpected(Arc<str>),
    /// The source behind a structure in Redis (a loader of the caller's) failed; what it said.
    #[error("the source failed: {0}")]
    Source(Arc<str>),
    /// The handle was shut down.
    #[error("the connection was shut down")]
    Closed,
}

/// What most operations return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// True when Redis did not answer, whatever the reason: what a breaker counts.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Error::Unavailable(_) | Error::Indeterminate { .. } => true,
            // A server that is loading, out of reach of its quorum or demoted is as good as away.
            Error::Refused { code, .. } => matches!(
                &**code,
                "LOADING"
                    | "CLUSTERDOWN"
                    | "MASTERDOWN"
                    | "READONLY"
                    | "TRYAGAIN"
                    | "BUSY"
                    | "MISCONF"
                    | "NOREPLICAS"
            ),
            Error::Invalid(_) | Error::Unexpected(_) | Error::Source(_) | Error::Closed => false,
        }
    }

    /// True when there is no use in asking Redis now: an outage, or it answers and takes nothing (its
    /// memory is full) or does not let us in (any more). What has another place to go to goes there.
    #[must_use]
    pub fn is_away(&self) -> bool {
        let denies = |code: &str| matches!(code, "OOM" | "NOAUTH" | "WRONGPASS" | "NOPERM");
        self.is_outage() || matches!(self, Error::Refused { code, .. } if denies(code))
    }

    /// True when the command may have been carried out although no reply came.
    #[must_use]
    pub fn is_indeterminate(&self) -> bool {
        matches!(self, Error::Indeterminate { .. })
    }

    /// True when the server answered with this error code.
    #[must_use]
    pub fn is_code(&self, wanted: &str) -> bool {
        matches!(self, Error::Refused { code, .. } if &**code == wanted)
    }

    /// A reply that makes no sense.
    pub fn unexpected(what: impl AsRef<str>) -> Self {
        Error::Unexpected(what.as_ref().into())
    }

    /// Sorts an error that a server answered with.
    pub fn replied(code: &str, message: &str) -> Self {
        if code == UNLOGGED {
            let cause = format!("{code} {message}").into();
            return Error::Indeterminate { waited: Duration::ZERO, cause };
        }
        Error::Refused { code: code.into(), message: message.into() }
    }

    /// Sorts an error of the client. `waited` is the time-out that was in force.
    pub fn from_client(error: &RedisError, waited: Duration) -> Self {
        if let Some(code) = error.code() {
            let message = error.detail().unwrap_or_default();
            return Error::replied(code, message);
        }
        let cause: Arc<str> = error.to_string().into();
        if error.is_connection_refusal() {
            Error::Unavailable(cause)
        } else if error.is_timeout() || error.is_io_error() || error.is_connection_dropped() {
            Error::Indeterminate { waited, cause }
        } else if error.is_cluster_error() {
            Error::Unavailable(cause)
        } else {
            Error::Unexpected(cause)
        }
    }
}

impl From<redis::ParsingError> for Error {
    fn from(error: redis::ParsingError) -> Self {
        Error::Unexpected(error.to_string().into())
    }
}

impl From<InvalidSettings> for Error {
    fn from(error: InvalidSettings) -> Self {
        Error::Invalid(error.to_string())
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Unavailable(error.to_string().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_not_in_the_log_may_be_kept_or_not() {
        let text = "in memory, not in the log";
        let error = Error::replied(UNLOGGED, text);
        assert!(error.is_indeterminate() && error.is_outage(), "{error:?}");
        assert!(error.to_string().contains(text), "{error}");
    }

    #[test]
    fn a_server_that_takes_nothing_is_away_and_no_outage() {
        let refused = |code: &str| Error::Refused { code: code.into(), message: "".into() };
        for denied in ["OOM", "NOAUTH", "WRONGPASS", "NOPERM"] {
            assert!(refused(denied).is_away() && !refused(denied).is_outage(), "{denied}");
        }
        for outage in ["LOADING", "READONLY", "NOREPLICAS"] {
            assert!(refused(outage).is_away() && refused(outage).is_outage(), "{outage}");
        }
        for mistake in ["WRONGTYPE", "ERR", "NOSCRIPT"] {
            assert!(!refused(mistake).is_away(), "{mistake}");
        }
    }
}
