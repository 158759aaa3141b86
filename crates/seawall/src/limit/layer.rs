//! A layer for tower and axum: answers requests over the limit with 429, and reports the limit's
//! state.
//!
//! Every response has the headers `RateLimit-Policy` and `RateLimit` of the IETF draft (httpapi,
//! RateLimit header fields). A refusal also has `Retry-After`, which all clients understand. A
//! subject that cannot be a key is answered with 400; a limiter that was shut down with 503.
//! Nothing passes unchecked.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header, request};
use seawall_client::{
    error::{Error, Result},
    key::KeyPart,
};
use tower_layer::Layer;
use tower_service::Service;

use super::{Decision, Limiter};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// Limits requests by a subject that is read from the request head.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, limit::{LimitLayer, Rate}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let limiter = seawall.limiter("api", Rate::per_minute(600)).build()?;
/// let layer = LimitLayer::new(limiter, |head| {
///     let user = head.headers.get("x-user").map(|user| user.as_bytes().to_vec());
///     user.unwrap_or_else(|| b"anonymous".to_vec())
/// });
/// // axum: Router::new().route(…).layer(layer)
/// # drop(layer); seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct LimitLayer<F> {
    gate: Gate<F>,
}

/// The service that [`LimitLayer`] creates.
#[derive(Debug, Clone)]
pub struct Limit<S, F> {
    inner: S,
    gate: Gate<F>,
}

#[derive(Debug, Clone)]
struct Gate<F> {
    limiter: Limiter,
    subject: F,
    cost: u64,
    policy: HeaderValue,
    label: String,
}

impl<F> LimitLayer<F> {
    /// Creates a layer that charges 1 for each request to the subject that the closure reads from
    /// its head.
    ///
    /// Take an address only from a proxy that you trust; a header that clients can set is not a
    /// safe subject.
    pub fn new<K>(limiter: Limiter, subject: F) -> Self
    where
        F: Fn(&request::Parts) -> K,
        K: KeyPart,
    {
        let label = label(limiter.name());
        let (most, window) = (limiter.policy().most(), seconds(limiter.policy().recovery()));
        let policy = HeaderValue::try_from(format!("{label};q={most};w={window}"))
            .unwrap_or(HeaderValue::from_static(""));
        LimitLayer { gate: Gate { limiter, subject, cost: 1, policy, label } }
    }

    /// Sets the cost of each request. Default: 1.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the limiter never allows that much.
    pub fn cost(mut self, cost: u64) -> Result<Self> {
        let most = self.gate.limiter.policy().most();
        if cost > most {
            return Err(Error::Invalid(format!(
                "a cost of {cost} for each request is never allowed: the limit is {most}"
            )));
        }
        self.gate.cost = cost;
        Ok(self)
    }
}

impl<S, F: Clone> Layer<S> for LimitLayer<F> {
    type Service = Limit<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        Limit { inner, gate: self.gate.clone() }
    }
}

impl<S, F, K, Body, Answer> Service<Request<Body>> for Limit<S, F>
where
    S: Service<Request<Body>, Response = Response<Answer>> + Clone + Send + 'static,
    S::Future: Send,
    F: Fn(&request::Parts) -> K + Clone + Send + 'static,
    K: KeyPart,
    Body: Send + 'static,
    Answer: Default,
{
    type Response = Response<Answer>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The service that was polled ready must be called; the clone was not polled.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let (head, body) = request.into_parts();
        let key = self.gate.limiter.key(&(self.gate.subject)(&head));
        let Gate { limiter, cost, policy, label, .. } = &self.gate;
        let (limiter, cost, policy, label) =
            (limiter.clone(), *cost, policy.clone(), label.clone());
        Box::pin(async move {
            let decision = match key {
                Ok(key) => limiter.decide(&key, cost).await,
                Err(error) => Err(error),
            };
            match decision {
                Ok(Decision::Allowed { remaining, reset }) => {
                    let mut answer = inner.call(Request::from_parts(head, body)).await?;
                    say(answer.headers_mut(), policy, &label, remaining, reset);
                    Ok(answer)
                }
                Ok(Decision::Limited { retry_after }) => {
                    let mut answer = empty(StatusCode::TOO_MANY_REQUESTS);
                    say(answer.headers_mut(), policy, &label, 0, retry_after);
                    let wait = HeaderValue::from(seconds(retry_after).max(1));
                    answer.headers_mut().insert(header::RETRY_AFTER, wait);
                    Ok(answer)
                }
                Err(Error::Invalid(reason)) => {
                    tracing::debug!(%reason, "a request without a subject");
                    Ok(empty(StatusCode::BAD_REQUEST))
                }
                Err(error) => {
                    tracing::warn!(%error, "no limit, no passage");
                    Ok(empty(StatusCode::SERVICE_UNAVAILABLE))
                }
            }
        })
    }
}

fn empty<Answer: Default>(status: StatusCode) -> Response<Answer> {
    let mut answer = Response::new(Answer::default());
    *answer.status_mut() = status;
    answer
}

fn say(headers: &mut HeaderMap, policy: HeaderValue, label: &str, remaining: u64, reset: Duration) {
    headers.append(POLICY, policy);
    if let Ok(state) = HeaderValue::try_from(format!("{label};r={remaining};t={}", seconds(reset)))
    {
        headers.append(STATE, state);
    }
}

/// Returns the name as a string of a structured field: quoted, printable ASCII only.
fn label(name: &str) -> String {
    let plain = |c: char| if matches!(c, ' '..='~') && c != '"' && c != '\\' { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    format!("\"{name}\"")
}

fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_the_header() {
        assert_eq!(label("a\"b\\c\r\né"), "\"a_b_c___\"");
        assert_eq!(seconds(Duration::from_millis(1)), 1);
        assert_eq!(seconds(Duration::from_secs(2)), 2);
    }
}
