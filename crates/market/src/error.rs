//! What the market's rules answer when they do not do what was asked.
//!
//! Sorted by what the caller can do about it. Each carries a stable upper-case word and a sentence
//! for people; how that becomes a status is the business of [`http`](crate::http) alone. Causes from
//! below (Redis, the database) are kept for the log and never shown.

use std::time::Duration;

use seawall::cache::{CacheError, WriteError};

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input makes no sense.
    #[error("{code}: {msg}")]
    BadInput {
        /// Stable word.
        code: &'static str,
        /// For people.
        msg: String,
    },
    /// Nobody is logged in.
    #[error("not logged in")]
    NotLoggedIn,
    /// This user may not do that.
    #[error("{msg}")]
    Forbidden {
        /// For people.
        msg: &'static str,
    },
    /// There is no such thing, or it is somebody else's.
    #[error("{code}: {msg}")]
    NotFound {
        /// Stable word.
        code: &'static str,
        /// For people.
        msg: &'static str,
    },
    /// It cannot be done in this state.
    #[error("{code}: {msg}")]
    Conflict {
        /// Stable word.
        code: &'static str,
        /// For people.
        msg: &'static str,
        /// The id of what is in the way, where that helps.
        data: Option<u64>,
    },
    /// Too many of these; again after a while.
    #[error("{msg}")]
    Limited {
        /// For people.
        msg: &'static str,
        /// When it may be tried again.
        retry_after: Duration,
    },
    /// It may have been carried out: nobody knows yet.
    #[error("{code}: {msg} ({cause})")]
    Undecided {
        /// Stable word.
        code: &'static str,
        /// For people.
        msg: &'static str,
        /// The id of what may have been made.
        data: u64,
        /// For the log.
        cause: String,
    },
    /// A store that this needs is away or too slow.
    #[error("{what} is not available: {cause}")]
    Unavailable {
        /// Which store.
        what: &'static str,
        /// For the log.
        cause: String,
    },
    /// A bug or damaged data; the cause is for the log.
    #[error("{0}")]
    Internal(String),
}

/// What rules return.
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
            // A server that refuses (out of memory, read-only) is as good as away for the caller.
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
            // A row that breaks a rule of the schema breaks it the next time as well.
            sqlx::Error::Database(error)
                if !matches!(error.kind(), sqlx::error::ErrorKind::Other) =>
            {
                Error::Internal(cause)
            }
            _ => Error::Unavailable { what: "the database", cause },
        }
    }
}
