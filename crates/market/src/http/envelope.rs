//! The shape of every answer: `{"success", "code", "msg", "data", "total"?}` with a real status.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Serialize, Serializer};

use crate::error::Error;

/// How long a client is asked to wait while a store is away, in seconds.
const OUTAGE_RETRY_S: u64 = 1;

/// What a handler returns.
pub(crate) type Answer<T> = Result<Envelope<T>, Failure>;

/// An answer that went well.
#[derive(Debug)]
pub(crate) struct Envelope<T>(T);

impl<T> From<T> for Envelope<T> {
    fn from(data: T) -> Self {
        Envelope(data)
    }
}

/// A 64-bit id, which JSON carries as text: numbers beyond 2^53 lose digits in browsers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id(pub(crate) u64);

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[derive(Debug, Serialize)]
struct Body<'a, T> {
    success: bool,
    code: &'a str,
    msg: &'a str,
    data: T,
}

impl<T: Serialize> IntoResponse for Envelope<T> {
    fn into_response(self) -> Response {
        Json(Body { success: true, code: "OK", msg: "", data: self.0 }).into_response()
    }
}

/// An answer that did not: a rule's refusal, or what HTTP itself does not allow.
#[derive(Debug)]
pub(crate) enum Failure {
    Rule(Error),
    /// Status, word and sentence.
    Http(StatusCode, &'static str, String),
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Rule(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Failure::Http(status, code, msg) => refusal(status, code, &msg, None),
            Failure::Rule(error) => rule(&error),
        }
    }
}

fn rule(error: &Error) -> Response {
    match error {
        Error::BadInput { code, msg } => refusal(StatusCode::BAD_REQUEST, code, msg, None),
        Error::NotLoggedIn => {
            refusal(StatusCode::UNAUTHORIZED, "NOT_LOGGED_IN", "log in first", None)
        }
        Error::NotFound { code, msg } => refusal(StatusCode::NOT_FOUND, code, msg, None),
        Error::Conflict { code, msg, data } => {
            refusal(StatusCode::CONFLICT, code, msg, data.map(Id))
        }
        Error::Limited { msg, retry_after } => {
            // Rounded up: a client that comes back at that time must not be early.
            let seconds = retry_after.as_millis().div_ceil(1000).max(1);
            let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
            retry(refusal(StatusCode::TOO_MANY_REQUESTS, "LIMITED", msg, None), seconds)
        }
        Error::Unavailable { what, cause } => {
            tracing::warn!(what, cause, "a request failed because a store is away");
            let msg = "not available at the moment; try again";
            retry(
                refusal(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", msg, None),
                OUTAGE_RETRY_S,
            )
        }
        Error::Internal(cause) => {
            tracing::error!(cause, "a request failed");
            let msg = "something went wrong here; it was noted";
            refusal(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", msg, None)
        }
    }
}

fn refusal(status: StatusCode, code: &str, msg: &str, data: Option<Id>) -> Response {
    (status, Json(Body { success: false, code, msg, data })).into_response()
}

fn retry(mut response: Response, seconds: u64) -> Response {
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}
