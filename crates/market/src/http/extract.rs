//! Extractors of the handlers. Invalid input is refused with the standard response envelope.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Deref,
    time::Duration,
};

use axum::{
    Form, Json,
    body::Body,
    extract::{
        FromRequest, FromRequestParts, Path, Query, Request,
        rejection::{FormRejection, JsonRejection},
    },
    http::{Extensions, HeaderMap, StatusCode, request::Parts},
};
use futures_util::StreamExt as _;
use serde::{Deserialize, de::DeserializeOwned};
use utoipa::IntoParams;

use super::{
    Failure, Id,
    filters::{MAX_BODY_BYTES, Visitor},
};
use crate::{
    accounts::{Token, User},
    app::Shared,
    error::{Error, Result},
    submissions::IdempotencyKey,
};

/// Time limit for receiving a body; the same as for a response.
const BODY_LIMIT: Duration = Duration::from_secs(10);
/// Rows per page.
pub(crate) const PAGE_ROWS: u32 = 10;
/// Last page that can be requested.
const LAST_PAGE: u32 = 10_000;

/// Address of the client connection; added to each request by the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// A JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let request = gathered(request).await?;
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
        let request = gathered(request).await?;
        match Form::<T>::from_request(request, state).await {
            Ok(Form(body)) => Ok(FormBody(body)),
            Err(FormRejection::BytesRejection(error)) => Err(unread(error.status())),
            Err(error) => Err(Error::bad("BAD_BODY", error.body_text()).into()),
        }
    }
}

/// Collects the body of a request into one piece. A body may arrive as thousands of pieces that
/// each hold a buffer of the connection, and a body that never ends must time out.
async fn gathered(request: Request) -> Result<Request, Failure> {
    let (parts, body) = request.into_parts();
    let mut pieces = body.into_data_stream();
    let mut whole = Vec::new();
    let gather = async {
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| unread(StatusCode::BAD_REQUEST))?;
            if whole.len() + piece.len() > MAX_BODY_BYTES {
                return Err(unread(StatusCode::PAYLOAD_TOO_LARGE));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(())
    };
    match tokio::time::timeout(BODY_LIMIT, gather).await {
        Ok(read) => read?,
        Err(_) => {
            let msg = "the body took too long".to_owned();
            return Err(Failure::Http(StatusCode::REQUEST_TIMEOUT, "TIMEOUT", msg));
        }
    }
    Ok(Request::from_parts(parts, Body::from(whole)))
}

fn unread(status: StatusCode) -> Failure {
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        return Failure::Http(status, "TOO_LARGE", "the body is too large".into());
    }
    Error::bad("BAD_BODY", "the body could not be read").into()
}

/// Query parameters.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Params(params)),
            Err(error) => Err(Error::bad("BAD_QUERY", error.body_text()).into()),
        }
    }
}

/// Page of a list.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParam {
    /// Page number, from 1. Default: 1.
    #[param(minimum = 1, maximum = 10_000)]
    current: Option<u32>,
}

impl PageParam {
    /// Returns the page number, from 1.
    ///
    /// # Errors
    /// [`Error::BadInput`] for page 0 and pages beyond the last one.
    pub(crate) fn number(self) -> Result<u32> {
        match self.current.unwrap_or(1) {
            page @ 1..=LAST_PAGE => Ok(page),
            _ => Err(Error::bad("BAD_PAGE", "current is a page from 1 to 10000")),
        }
    }
}

/// Position in a list of orders.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct After {
    /// Id of the last order on the previous page. Default: start with the newest orders.
    last_id: Option<Id>,
}

impl After {
    pub(crate) fn id(self) -> Option<u64> {
        self.last_id.map(|id| id.0)
    }
}

/// Id in the path.
pub(crate) struct PathId(pub(crate) u64);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let id = text.ok().and_then(|Path(text)| Id::parse(&text));
        id.map(|id| PathId(id.0))
            .ok_or_else(|| Error::bad("BAD_ID", "an id is a whole number").into())
    }
}

/// The logged-in user; 401 without one.
pub(crate) struct SignedIn(pub(crate) User);

impl SignedIn {
    /// Accepts merchants and admins.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for all other users.
    pub(crate) fn merchant(&self) -> Result<()> {
        if ["merchant", "admin"].contains(&self.role.as_str()) {
            return Ok(());
        }
        Err(Error::Forbidden { msg: "only a merchant or an admin may do this" })
    }
}

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
            // The session could not be checked, which is not the client's fault.
            Some(Visitor::Unknown) => Err(Error::Unavailable {
                what: "sessions",
                cause: "neither Redis nor the database answered".into(),
            }
            .into()),
            Some(Visitor::Guest) | None => Err(Error::NotLoggedIn.into()),
        }
    }
}

/// The user, if logged in; for responses that differ only slightly by user.
pub(crate) struct MaybeSignedIn(pub(crate) Option<User>);

impl MaybeSignedIn {
    pub(crate) fn of(request: &Extensions) -> Self {
        MaybeSignedIn(match request.get::<Visitor>() {
            Some(Visitor::User(user)) => Some(user.clone()),
            Some(Visitor::Unknown | Visitor::Guest) | None => None,
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for MaybeSignedIn {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        Ok(MaybeSignedIn::of(&parts.extensions))
    }
}

/// Token in the request.
pub(crate) struct Shown(pub(crate) Token);

impl<S: Send + Sync> FromRequestParts<S> for Shown {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        super::filters::token(&parts.headers).map(Shown).ok_or_else(|| Error::NotLoggedIn.into())
    }
}

/// The client's `Idempotency-Key` header, if present.
pub(crate) struct Named(pub(crate) Option<IdempotencyKey>);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        let key = parts.headers.get("idempotency-key");
        // A header that is not text is not a valid key.
        let key = key.map(|key| IdempotencyKey::parse(key.to_str().unwrap_or_default()));
        Ok(Named(key.transpose()?))
    }
}

/// Client address: the peer of the connection, or the address that a trusted proxy reports. Headers
/// from any other peer are ignored.
pub(crate) struct ClientIp(pub(crate) IpAddr);

impl ClientIp {
    pub(crate) fn of(request: &Extensions, headers: &HeaderMap, app: &Shared) -> Self {
        // Only tests that call the router without a connection have no peer.
        let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let peer = request.get::<Peer>().map_or(unspecified, |peer| peer.0.ip());
        ClientIp(behind_proxies(peer, headers, &app.config().trusted_proxies))
    }
}

impl FromRequestParts<Shared> for ClientIp {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Failure> {
        Ok(ClientIp::of(&parts.extensions, &parts.headers, app))
    }
}

/// Returns the nearest address that is not a trusted proxy; each proxy appends the address that
/// called it.
fn behind_proxies(peer: IpAddr, headers: &HeaderMap, trusted: &[IpAddr]) -> IpAddr {
    if !trusted.contains(&peer) {
        return peer;
    }
    let lines = headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok());
    let hops: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
    let mut nearest = peer;
    for hop in hops.into_iter().rev() {
        let Ok(address) = hop.parse() else { return nearest };
        nearest = address;
        if !trusted.contains(&address) {
            return nearest;
        }
    }
    nearest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_proxies_are_believed() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", "1.1.1.1, 2.2.2.2".parse().expect("a header"));
        headers.append("x-forwarded-for", "10.0.0.2".parse().expect("a header"));
        let trusted = [ip("10.0.0.1"), ip("10.0.0.2")];
        let seen = |peer, trusted: &[IpAddr]| behind_proxies(ip(peer), &headers, trusted);
        assert_eq!(
            seen("10.0.0.1", &trusted),
            ip("2.2.2.2"),
            "what a client wrote is further left"
        );
        assert_eq!(seen("10.0.0.1", &[]), ip("10.0.0.1"));
        assert_eq!(seen("9.9.9.9", &trusted), ip("9.9.9.9"));
        let mut garbage = HeaderMap::new();
        garbage.append("x-forwarded-for", "1.1.1.1, nonsense".parse().expect("a header"));
        assert_eq!(behind_proxies(ip("10.0.0.1"), &garbage, &trusted), ip("10.0.0.1"));
    }
}
