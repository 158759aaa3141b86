//! Errors between the toolkit and Redis, classified by what the caller can do about them.
//!
//! The most important distinction is between *not sent* and *unknown*. A command that was never
//! sent can be retried without risk; a command whose reply was lost may have been executed. A
//! caller that retries after [`Error::Indeterminate`] must therefore be idempotent; all code in
//! this crate that retries is.

use std::{io, sync::Arc, time::Duration};

use redis::RedisError;
use seawall_resilience::InvalidSettings;

/// Error code of Seawall's engine for a change that is in memory but not in its log.
const UNLOGGED: &str = "UNLOGGED";

/// Error of an operation on Redis.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A URL, an option or an argument is invalid. The text names it and states what is allowed.
    #[error("{0}")]
    Invalid(String),
    /// There was no connection: nothing was sent.
    #[error("Redis cannot be reached, nothing was sent: {0}")]
    Unavailable(Arc<str>),
    /// The command was sent but no reply arrived, so it may or may not have been executed.
    ///
    /// Also returned if the embedded engine executed the command but could not write it to its log
    /// (`UNLOGGED`): only a restart shows whether the change persists.
    #[error("the command may have been carried out, after {waited:?}: {cause}")]
    Indeterminate {
        /// How long the caller waited for the reply.
        waited: Duration,
        /// The error that the client saw.
        cause: Arc<str>,
    },
    /// The server replied with an error: it is alive and refused the command.
    #[error("Redis refused: {code} {message}")]
    Refused {
        /// First word of the error, such as `WRONGTYPE` or `OOM`.
        code: Arc<str>,
        /// The rest of the error text.
        message: Arc<str>,
    },
    /// The reply does not have the shape that the command should return: another server version, or
    /// a key that another program wrote.
    #[error("unexpected reply from Redis: {0}")]
    Unexpected(Arc<str>),
    /// The source behind a structure in Redis (a loader supplied by the caller) failed; contains
    /// its error text.
    #[error("the source failed: {0}")]
    Source(Arc<str>),
    /// The handle was shut down.
    #[error("the connection was shut down")]
    Closed,
}

/// Result type of most operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns a name for this kind of error, as the attribute `error.type` of spans has it: the code of
    /// a refusal (`WRONGTYPE`), else a word. It contains nothing of keys or values.
    #[must_use]
    pub fn error_type(&self) -> &str {
        match self {
            Error::Invalid(_) => "invalid",
            Error::Unavailable(_) => "unavailable",
            Error::Indeterminate { .. } => "indeterminate",
            Error::Refused { code, .. } => code,
            Error::Unexpected(_) => "unexpected",
            Error::Source(_) => "source",
            Error::Closed => "closed",
        }
    }

    /// Returns `true` if Redis gave no usable answer, for whatever reason.
    ///
    /// A circuit breaker counts these errors.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Error::Unavailable(_) | Error::Indeterminate { .. } => true,
            // A server that is loading, has lost its quorum or was demoted is as good as
            // unreachable.
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

    /// Returns `true` if requests to Redis are pointless at the moment: during an outage, or while
    /// Redis answers but accepts no writes (out of memory) or denies access.
    ///
    /// Callers with an alternative use it.
    #[must_use]
    pub fn is_away(&self) -> bool {
        let denies = |code: &str| matches!(code, "OOM" | "NOAUTH" | "WRONGPASS" | "NOPERM");
        self.is_outage() || matches!(self, Error::Refused { code, .. } if denies(code))
    }

    /// Returns `true` if the command may have been executed although no reply arrived.
    #[must_use]
    pub fn is_indeterminate(&self) -> bool {
        matches!(self, Error::Indeterminate { .. })
    }

    /// Returns `true` if the server replied with this error code.
    #[must_use]
    pub fn is_code(&self, wanted: &str) -> bool {
        matches!(self, Error::Refused { code, .. } if &**code == wanted)
    }

    /// Creates an [`Error::Unexpected`].
    pub fn unexpected(what: impl AsRef<str>) -> Self {
        Error::Unexpected(what.as_ref().into())
    }

    /// Classifies an error that a server replied with.
    pub fn replied(code: &str, message: &str) -> Self {
        if code == UNLOGGED {
            let cause = format!("{code} {message}").into();
            return Error::Indeterminate { waited: Duration::ZERO, cause };
        }
        Error::Refused { code: code.into(), message: message.into() }
    }

    /// Classifies an error of the client library. `waited` is the time-out that applied.
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
