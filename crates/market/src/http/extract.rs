//! What handlers take from a request; everything that does not fit is refused in the envelope.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Deref,
};

use axum::{
    Form, Json,
    extract::{
        FromRequest, FromRequestParts, Path, Request,
        rejection::{FormRejection, JsonRejection},
    },
    http::{StatusCode, request::Parts},
};
use serde::de::DeserializeOwned;

use super::{Failure, filters::Visitor};
use crate::{
    accounts::{Token, User},
    error::Error,
};

/// The address a connection came from; put into each request by the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// A JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(body)) => Ok(JsonBody(body)),
            Err(JsonRejection::BytesRejection(error)) => Err(unread(error.status())),
            Err(error) => Err(Error::bad("BAD_BODY", error.body_text()).into()),
        }
    }
}

/// A form body.
pub(crate) struct FormBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for FormBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        match Form::<T>::from_request(request, state).await {
            Ok(Form(body)) => Ok(FormBody(body)),
            Err(FormRejection::BytesRejection(error)) => Err(unread(error.status())),
            Err(error) => Err(Error::bad("BAD_BODY", error.body_text()).into()),
        }
    }
}

fn unread(status: StatusCode) -> Failure {
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        return Failure::Http(status, "TOO_LARGE", "the body is too large".into());
    }
    Error::bad("BAD_BODY", "the body could not be read").into()
}

/// An id in the path.
pub(crate) struct PathId(pub(crate) u64);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let id = text.ok().and_then(|Path(text)| parse_id(&text));
        id.map(PathId).ok_or_else(|| Error::bad("BAD_ID", "an id is a whole number").into())
    }
}

/// Digits alone: `+1` and ` 1` are no ids. The highest bit of an id is clear.
fn parse_id(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let id: i64 = digits.then(|| text.parse().ok())??;
    u64::try_from(id).ok()
}

/// The user who is logged in; 401 when nobody is.
pub(crate) struct SignedIn(pub(crate) User);

impl Deref for SignedIn {
    type Target = User;

    fn deref(&self) -> &User {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SignedIn {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        match parts.extensions.get::<Visitor>() {
            Some(Visitor::User(user)) => Ok(SignedIn(user.clone())),
            // Nobody could say who this is: that is not the visitor's fault.
            Some(Visitor::Unknown) => Err(Error::Unavailable {
                what: "sessions",
                cause: "neither Redis nor the database answered".into(),
            }
            .into()),
            Some(Visitor::Guest) | None => Err(Error::NotLoggedIn.into()),
        }
    }
}

/// The token that was shown.
pub(crate) struct Shown(pub(crate) Token);

impl<S: Send + Sync> FromRequestParts<S> for Shown {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        super::filters::token(&parts.headers).map(Shown).ok_or_else(|| Error::NotLoggedIn.into())
    }
}

/// Where a request comes from: the other end of the connection. Headers that claim otherwise are
/// not believed.
pub(crate) struct ClientIp(pub(crate) IpAddr);

impl<S: Send + Sync> FromRequestParts<S> for ClientIp {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        // Only a test that calls the router without a connection has no peer.
        let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Ok(ClientIp(parts.extensions.get::<Peer>().map_or(unspecified, |peer| peer.0.ip())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_digits_of_63_bits() {
        assert_eq!(parse_id("0"), Some(0));
        assert_eq!(parse_id("9223372036854775807"), Some(i64::MAX.unsigned_abs()));
        for bad in ["", "-1", "+1", " 1", "1.0", "0x1", "9223372036854775808", "１"] {
            assert_eq!(parse_id(bad), None, "{bad}");
        }
    }
}
