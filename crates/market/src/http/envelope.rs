//! The shape of every response: `{"success", "code", "msg", "data", "total"?}` with a meaningful
//! HTTP status.

#![expect(unused_qualifications, reason = "the description's macros write paths in full")]

use std::borrow::Cow;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Serialize, Serializer};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Type, schema::Schema},
};

use super::Id;
use crate::error::Error;

/// `Retry-After` while a store is unavailable, in seconds.
const OUTAGE_RETRY_S: u64 = 1;

/// Return type of handlers.
pub(crate) type Answer<T> = Result<Envelope<T>, Failure>;

/// A successful response.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Envelope<T> {
    /// Always `true`.
    success: bool,
    /// Always `OK`.
    #[schema(value_type = String)]
    code: Cow<'static, str>,
    /// Always empty.
    #[schema(value_type = String)]
    msg: Cow<'static, str>,
    data: T,
    /// Number of items on all pages, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    total: Option<u64>,
}

impl<T> From<T> for Envelope<T> {
    fn from(data: T) -> Self {
        Envelope { success: true, code: "OK".into(), msg: "".into(), data, total: None }
    }
}

/// Data of a response without data: `null`.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Serialize for Nothing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl ToSchema for Nothing {
    fn name() -> Cow<'static, str> {
        "Nothing".into()
    }
}

impl PartialSchema for Nothing {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Null).into()
    }
}

impl<T> Envelope<T> {
    /// Creates a page of a list with `total` items.
    pub(crate) fn page(data: T, total: u64) -> Self {
        Envelope { total: Some(total), ..data.into() }
    }
}

impl<T: Serialize> IntoResponse for Envelope<T> {
    fn into_response(self) -> Response {
        Json(self).into_response()
    }
}

/// An error response.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Refusal<'a> {
    /// Always `false`.
    success: bool,
    /// Stable upper-case code.
    #[schema(example = "NOT_FOUND")]
    code: &'a str,
    /// Message for people.
    msg: &'a str,
    /// Id of the conflicting object, or of the object that may have been created, where that helps.
    data: Option<Id>,
}

/// Cause of an error response: a business rule, or HTTP itself.
#[derive(Debug)]
pub(crate) enum Failure {
    Rule(Error),
    /// Status, code and message.
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
            Failure::Http(status, code, msg) => {
                let response = refusal(status, code, &msg, None);
                // An unavailable service says when to retry.
                match status {
                    StatusCode::SERVICE_UNAVAILABLE => retry(response, OUTAGE_RETRY_S),
                    _ => response,
                }
            }
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
        Error::Forbidden { msg } => refusal(StatusCode::FORBIDDEN, "FORBIDDEN", msg, None),
        Error::NotFound { code, msg } => refusal(StatusCode::NOT_FOUND, code, msg, None),
        Error::Conflict { code, msg, data } => {
            refusal(StatusCode::CONFLICT, code, msg, data.map(Id))
        }
        Error::Limited { msg, retry_after } => {
            // Rounded up: a client that retries at that time must not be early.
            let seconds = retry_after.as_millis().div_ceil(1000).max(1);
            let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
            retry(refusal(StatusCode::TOO_MANY_REQUESTS, "LIMITED", msg, None), seconds)
        }
        Error::Undecided { code, msg, data, cause } => {
            tracing::warn!(code, data, cause, "it is not known what became of a request");
            retry(refusal(StatusCode::ACCEPTED, code, msg, Some(Id(*data))), OUTAGE_RETRY_S)
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
    (status, Json(Refusal { success: false, code, msg, data })).into_response()
}

fn retry(mut response: Response, seconds: u64) -> Response {
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}
