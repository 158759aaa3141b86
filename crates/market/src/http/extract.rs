//! What handlers take from a request; everything that does not fit is refused in the envelope.

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

/// How long a body may take, as long as an answer with it.
const BODY_LIMIT: Duration = Duration::from_secs(10);
/// Rows of a page.
pub(crate) const PAGE_ROWS: u32 = 10;
/// The last page that can be asked for.
const LAST_PAGE: u32 = 10_000;

/// The address a connection came from; put into each request by the server.
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

/// A request with its body in one piece. As it comes, a body may be thousands of pieces that each keep
/// a buffer of the connection; and one that never ends must not be waited for longer than its client.
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

/// The parameters after the question mark.
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

/// Which page, from 1; the first when it is left out.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParam {
    /// The page, from 1.
    #[param(minimum = 1, maximum = 10_000)]
    current: Option<u32>,
}

impl PageParam {
    /// The number of the page, from 1.
    ///
    /// # Errors
    /// [`Error::BadInput`] for page 0 and pages that nobody scrolls to.
    pub(crate) fn number(self) -> Result<u32> {
        match self.current.unwrap_or(1) {
            page @ 1..=LAST_PAGE => Ok(page),
            _ => Err(Error::bad("BAD_PAGE", "current is a page from 1 to 10000")),
        }
    }
}

/// Where a list of orders goes on.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct After {
    /// The last order of the page before; the newest ones when it is left out.
    last_id: Option<Id>,
}

impl After {
    pub(crate) fn id(self) -> Option<u64> {
        self.last_id.map(|id| id.0)
    }
}

/// An id in the path.
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

/// The user who is logged in; 401 when nobody is.
pub(crate) struct SignedIn(pub(crate) User);

impl SignedIn {
    /// Passes merchants and admins.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for everybody else.
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

/// Who asks, if somebody is logged in: for answers that only differ a little by that.
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

/// The token that was shown.
pub(crate) struct Shown(pub(crate) Token);

impl<S: Send + Sync> FromRequestParts<S> for Shown {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        super::filters::token(&parts.headers).map(Shown).ok_or_else(|| Error::NotLoggedIn.into())
    }
}

/// What the client calls this submission, if it does: the header `Idempotency-Key`.
pub(crate) struct Named(pub(crate) Option<IdempotencyKey>);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        let key = parts.headers.get("idempotency-key");
        // What is no text is no key either.
        let key = key.map(|key| IdempotencyKey::parse(key.to_str().unwrap_or_default()));
        Ok(Named(key.transpose()?))
    }
}

/// Where a request comes from: the other end of the connection, or whom a trusted proxy names.
/// Anybody else's headers are not believed.
pub(crate) struct ClientIp(pub(crate) IpAddr);

impl ClientIp {
    pub(crate) fn of(request: &Extensions, headers: &HeaderMap, app: &Shared) -> Self {
        // Only a test that calls the router without a connection has no peer.
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

/// The nearest address that is no trusted proxy; each proxy adds the one it was called from at the
/// end.
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
