//! The resilience pipeline as a tower layer, for servers (axum) and clients.
//!
//! [`GuardLayer`] fails with a typed [`CallError`]. [`GuardLayer::respond`] converts it into a
//! layer that answers with a response built by the user instead, and so keeps the inner service's
//! error type, which axum requires to be `Infallible`.
//!
//! `poll_ready` is that of the inner service: admission is decided in `call`, because a slot taken
//! in `poll_ready` would be held for as long as the caller likes, whether it calls or not. The
//! service that was polled is the one that is called (a fresh clone replaces it), as tower
//! requires.
//!
//! The time limit and the slot last until the response's head is available. A streaming body is the
//! responsibility of the inner service.

#[cfg(test)]
mod tests;

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use super::{CallError, Outcome, ResiliencePipeline, Shed};

/// Return type of the services: futures of unnamed types.
type BoxFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// Why a request has no answer from the inner service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The inner service was not called.
    Shed(Shed),
    /// The inner service was called and did not answer in time.
    DeadlineExceeded {
        /// How long it ran.
        ran: Duration,
    },
}

/// Judges a result by its error only: an error counts against the service, a response does not.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByError;

/// Judges an HTTP response by its status: a server error counts against the service.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByStatus;

/// Decides what a result means for the breaker. Implemented for closures of the matching type.
pub trait Judge<T, E> {
    /// Returns the outcome for the breaker.
    fn judge(&self, result: &Result<T, E>) -> Outcome;
}

impl<T, E> Judge<T, E> for ByError {
    fn judge(&self, result: &Result<T, E>) -> Outcome {
        if result.is_ok() { Outcome::Ok } else { Outcome::Failed }
    }
}

impl<B, E> Judge<Response<B>, E> for ByStatus {
    fn judge(&self, result: &Result<Response<B>, E>) -> Outcome {
        let Ok(response) = result else { return Outcome::Failed };
        match response.status() {
            // The client asked for something unsupported, and the server answered properly.
            StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => Outcome::Ok,
            status if status.is_server_error() => Outcome::Failed,
            _ => Outcome::Ok,
        }
    }
}

impl<T, E, F: Fn(&Result<T, E>) -> Outcome> Judge<T, E> for F {
    fn judge(&self, result: &Result<T, E>) -> Outcome {
        self(result)
    }
}

/// Runs a tower service in a [`ResiliencePipeline`].
///
/// ```
/// use std::{convert::Infallible, time::Duration};
/// use http::{Request, Response, StatusCode};
/// use seawall_resilience::{Bulkhead, ByStatus, ResiliencePipeline, GuardLayer, Refused};
/// use tower_layer::Layer;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pipeline = ResiliencePipeline::builder("shop page")
///     .bulkhead(Bulkhead::builder("shop page", 512).build()?)
///     .build()?;
/// let layer = GuardLayer::new(pipeline, Duration::from_secs(5)).judge(ByStatus).respond(
///     |refused| {
///         let mut response = Response::new(String::new());
///         *response.status_mut() = match refused {
///             Refused::Shed(_) => StatusCode::SERVICE_UNAVAILABLE,
///             _ => StatusCode::GATEWAY_TIMEOUT,
///         };
///         response
///     },
/// );
/// # #[derive(Clone)] struct Inner;
/// let service = layer.layer(Inner); // or, in axum, `Router::layer(layer)`
/// # let _ = service;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct GuardLayer<J = ByError> {
    pipeline: ResiliencePipeline,
    time_limit: Duration,
    judge: J,
}

impl GuardLayer {
    /// Creates a layer that runs each request in the pipeline, for at most `time_limit`.
    #[must_use]
    pub fn new(pipeline: ResiliencePipeline, time_limit: Duration) -> Self {
        Self { pipeline, time_limit, judge: ByError }
    }
}

impl<J> GuardLayer<J> {
    /// Sets how results are judged: [`ByStatus`], or a closure. Default: [`ByError`].
    #[must_use]
    pub fn judge<K>(self, judge: K) -> GuardLayer<K> {
        GuardLayer { pipeline: self.pipeline, time_limit: self.time_limit, judge }
    }

    /// Answers with a response instead of failing with [`CallError::Shed`] or
    /// [`CallError::DeadlineExceeded`].
    #[must_use]
    pub fn respond<R, T>(self, respond: R) -> RespondLayer<J, R>
    where
        R: Fn(Refused) -> T,
    {
        RespondLayer { guard: self, respond }
    }
}

impl<S, J: Clone> Layer<S> for GuardLayer<J> {
    type Service = GuardService<S, J>;

    fn layer(&self, inner: S) -> Self::Service {
        GuardService { inner, guard: self.clone() }
    }
}

/// The service created by [`GuardLayer`].
#[derive(Debug, Clone)]
pub struct GuardService<S, J = ByError> {
    inner: S,
    guard: GuardLayer<J>,
}

impl<S, J, Req> Service<Req> for GuardService<S, J>
where
    S: Service<Req> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Send,
    J: Judge<S::Response, S::Error> + Clone + Send + 'static,
    Req: Send + 'static,
{
    type Response = S::Response;
    type Error = CallError<S::Error>;
    type Future = BoxFuture<S::Response, CallError<S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(CallError::Failed)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let clone = self.inner.clone();
        let mut ready = mem::replace(&mut self.inner, clone);
        let GuardLayer { pipeline, time_limit, judge } = self.guard.clone();
        let deadline = pipeline.clock().now() + time_limit;
        Box::pin(async move {
            let judge = move |result: &_| judge.judge(result);
            pipeline.call_judged(deadline, judge, move || ready.call(request)).await
        })
    }
}

/// A [`GuardLayer`] that answers refused requests with a response.
#[derive(Debug, Clone)]
pub struct RespondLayer<J, R> {
    guard: GuardLayer<J>,
    respond: R,
}

impl<S, J: Clone, R: Clone> Layer<S> for RespondLayer<J, R> {
    type Service = RespondService<S, J, R>;

    fn layer(&self, inner: S) -> Self::Service {
        RespondService { guarded: self.guard.layer(inner), respond: self.respond.clone() }
    }
}

/// The service created by [`RespondLayer`].
#[derive(Debug, Clone)]
pub struct RespondService<S, J, R> {
    guarded: GuardService<S, J>,
    respond: R,
}

impl<S, J, R, Req> Service<Req> for RespondService<S, J, R>
where
    GuardService<S, J>: Service<
            Req,
            Response = S::Response,
            Error = CallError<S::Error>,
            Future = BoxFuture<S::Response, CallError<S::Error>>,
        >,
    S: Service<Req>,
    S::Response: 'static,
    S::Error: 'static,
    R: Fn(Refused) -> S::Response + Clone + Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<S::Response, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // The readiness of the guard is that of its inner service.
        self.guarded.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let answer = self.guarded.call(request);
        let respond = self.respond.clone();
        Box::pin(async move {
            match answer.await {
                Ok(response) => Ok(response),
                Err(CallError::Shed(shed)) => Ok(respond(Refused::Shed(shed))),
                Err(CallError::DeadlineExceeded { ran }) => {
                    Ok(respond(Refused::DeadlineExceeded { ran }))
                }
                Err(CallError::Failed(error)) => Err(error),
            }
        })
    }
}
