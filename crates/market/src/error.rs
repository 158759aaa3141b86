//! Errors of the market's business rules.
//!
//! Grouped by what the caller can do about them. Each has a stable upper-case code and a message
//! for people. Only [`http`](crate::http) maps them to a status. Causes from below (Redis, the
//! database) are kept for the log and never shown.

use std::time::Duration;

use seawall::cache::{CacheError, WriteError};

/// Reason why a request was not executed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input is invalid.
    #[error("{code}: {msg}")]
    BadInput {
        /// Stable code.
        code: &'static str,
        /// Message for people.
        msg: String,
    },
    /// The request has no valid session.
    #[error("not logged in")]
    NotLoggedIn,
    /// The user may not do this.
    #[error("{msg}")]
    Forbidden {
        /// Message for people.
        msg: &'static str,
    },
    /// The object does not exist or belongs to another user.
    #[error("{code}: {msg}")]
    NotFound {
        /// Stable code.
        code: &'static str,
        /// Message for people.
        msg: &'static str,
    },
    /// Not possible in this state.
    #[error("{code}: {msg}")]
    Conflict {
        /// Stable code.
        code: &'static str,
        /// Message for people.
        msg: &'static str,
        /// Id of the conflicting object, where that helps.
        data: Option<u64>,
    },
    /// Rate limited; retry later.
    #[error("{msg}")]
    Limited {
        /// Message for people.
        msg: &'static str,
        /// Time after which a retry is allowed.
        retry_after: Duration,
    },
    /// It may have been executed; the result is not known yet.
    #[error("{code}: {msg} ({cause})")]
    Undecided {
        /// Stable code.
        code: &'static str,
        /// Message for people.
        msg: &'static str,
        /// Id of the object that may have been created.
        data: u64,
        /// Cause, for the log.
        cause: String,
    },
    /// A required store is away or too slow.
    #[error("{what} is not available: {cause}")]
    Unavailable {
        /// Name of the store.
        what: &'static str,
        /// Cause, for the log.
        cause: String,
    },
    /// A bug or damaged data; the cause is for the log.
    #[error("{0}")]
    Internal(String),
}

/// Result of the business rules.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn bad(code: &'static str, msg: impl Into<String>) -> Self {
        Error::BadInput { code, msg: msg.into() }
    }

    pub(crate) fn not_found(code: &'static str, msg: &'static str) -> Self {
        Error::NotFound { code, msg }
    }

    pub(crate) fn conflict(code: &'static str, msg: &'static str) -> Self {
        Error::Conflict { code, msg, data: None }
    }
}

impl From<seawall::Error> for Error {
    fn from(error: seawall::Error) -> Self {
        match error {
            seawall::Error::Invalid(_) | seawall::Error::Unexpected(_) => {
                Error::Internal(error.to_string())
            }
            // For the caller, a server that refuses (out of memory, read-only) is the same as an
            // unavailable one.
            _ => Error::Unavailable { what: "Redis", cause: error.to_string() },
        }
    }
}

impl From<WriteError<Error>> for Error {
    fn from(error: WriteError<Error>) -> Self {
        match error {
            WriteError::Work(error) => error,
            WriteError::NotRun(error) | WriteError::NotInvalidated(error) => error.into(),
            error => Error::Internal(error.to_string()),
        }
    }
}

impl From<CacheError> for Error {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::Redis(error) => error.into(),
            error => Error::Unavailable { what: "the source of a cache", cause: error.to_string() },
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        let cause = error.to_string();
        match error {
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
            | sqlx::Error::TypeNotFound { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::Encode(_) => Error::Internal(cause),
            // A row that violates the schema does so on a retry as well.
            sqlx::Error::Database(error)
                if !matches!(error.kind(), sqlx::error::ErrorKind::Other) =>
            {
                Error::Internal(cause)
            }
            _ => Error::Unavailable { what: "the database", cause },
        }
    }
}
