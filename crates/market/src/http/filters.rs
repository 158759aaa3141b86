//! Middleware of every request: its id, its time and size limits, its user, and response headers
//! that protect the browser.

use std::{sync::Arc, time::Instant};

use axum::{
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use tracing::{Instrument as _, Span, field::Empty};

use super::{Failure, request_tracker::NoAnswer};
use crate::{
    accounts::{Token, User},
    app::Shared,
    error::Error,
    stats,
};

/// Maximum body of a request; uploads have their own limit.
pub(super) const MAX_BODY_BYTES: usize = 64 * 1024;
/// Maximum length of a request id taken from a client.
const MAX_ID_CHARS: usize = 64;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Content security policy of pages: only our own files, no frames, no inline code.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Content security policy of all other responses: they display nothing, wherever they are opened.
const BARE_POLICY: &str = "default-src 'none'; frame-ancestors 'none'";
/// Number of headers added to every response.
const ADDED_HEADERS: usize = 6;

/// Who sent the request.
#[derive(Debug, Clone)]
pub(crate) enum Visitor {
    User(User),
    Guest,
    /// The request has a token, and its owner could not be determined.
    Unknown,
}

/// Applies all filters in one layer, because each router layer costs every request allocations and
/// copies.
pub(crate) async fn every_request(
    State(app): State<Shared>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = request_id(request.headers());
    let span = request_span(&id, &request);
    let began = Instant::now();
    let here = Arc::clone(&app);
    let work = async move {
        DefaultBodyLimit::max(MAX_BODY_BYTES).apply(&mut request);
        let visitor = visitor(&here, request.headers()).await;
        request.extensions_mut().insert(visitor);
        stats::http::note_page_view(&here, &request);
        next.run(request).await
    };
    let answer = app.request_tracker().run(work.instrument(span.clone())).await;
    let mut response = answer.unwrap_or_else(|none| span.in_scope(|| unanswered(none)));
    let (status, elapsed) = (response.status(), began.elapsed());
    app.requests().note(status, elapsed);
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("error.type", status.as_str());
    }
    span.in_scope(|| tracing::debug!(status = status.as_u16(), ?elapsed, "answered"));
    let headers = response.headers_mut();
    headers.reserve(ADDED_HEADERS);
    let id = HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("-"));
    headers.insert(REQUEST_ID.clone(), id);
    protect(headers);
    response
}

/// Opens the span of a request, with the attributes of OpenTelemetry's conventions for HTTP servers.
///
/// The query is left out: it contains what people search for.
fn request_span(id: &str, request: &Request) -> Span {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    tracing::info_span!(
        "request",
        id,
        otel.kind = "server",
        http.request.method = %request.method(),
        http.route = route,
        url.path = request.uri().path(),
        http.response.status_code = Empty,
        error.type = Empty,
    )
}

fn unanswered(none: NoAnswer) -> Response {
    let failure = match none {
        NoAnswer::Late => {
            let msg = "the request took too long".to_owned();
            Failure::Http(StatusCode::REQUEST_TIMEOUT, "TIMEOUT", msg)
        }
        NoAnswer::Broken => Error::Internal("a handler panicked".to_owned()).into(),
    };
    failure.into_response()
}

/// Returns the client's request id if it is safe for a log, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let harmless = |id: &&str| {
        (1..=MAX_ID_CHARS).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let given = headers.get(&REQUEST_ID).and_then(|id| id.to_str().ok()).filter(harmless);
    given.map_or_else(|| format!("{:016x}", rand::random::<u64>()), str::to_owned)
}

/// Adds security headers.
fn protect(headers: &mut HeaderMap) {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let policy = if kind.starts_with(b"text/html") { POLICY } else { BARE_POLICY };
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Responses depend on the user; only the page's own files override this.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// Determines the user and extends the session.
async fn visitor(app: &Shared, headers: &HeaderMap) -> Visitor {
    let Some(token) = token(headers) else { return Visitor::Guest };
    match app.accounts().visitor(&token).await {
        Ok(Some(user)) => Visitor::User(user),
        Ok(None) => Visitor::Guest,
        Err(error) => {
            tracing::warn!(%error, "the session cannot be looked up");
            Visitor::Unknown
        }
    }
}

/// Returns the token of `authorization: TOKEN` or `authorization: Bearer TOKEN`.
pub(crate) fn token(headers: &HeaderMap) -> Option<Token> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let token = match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        Some(_) => return None,
        None => text,
    };
    Token::parse(token)
}
