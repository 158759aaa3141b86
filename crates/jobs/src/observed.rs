//! Measures handlers and gives each call a span.
//!
//! A span has the attributes of OpenTelemetry's conventions for messaging. It never contains a payload,
//! nor an id that a caller chose: both may be personal data.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use metrics::Histogram;
use seawall_resilience::clock::{Clock, Moment};
use tracing::Span;

use crate::stream::Outcome;

/// A running handler. It measures the call and notes a failure on the span.
pub(crate) struct Observed {
    handler: BoxFuture<'static, Outcome>,
    span: Span,
    clock: Clock,
    began: Moment,
    seconds: Histogram,
    has_ended: bool,
}

impl Observed {
    /// Begins a handler inside `span`.
    pub(crate) fn begin(
        span: Span,
        clock: &Clock,
        began: Moment,
        seconds: &Histogram,
        handler: impl FnOnce() -> BoxFuture<'static, Outcome>,
    ) -> Self {
        let handler = span.in_scope(handler);
        let (clock, seconds) = (clock.clone(), seconds.clone());
        Observed { handler, span, clock, began, seconds, has_ended: false }
    }

    fn end(&mut self, error: Option<&'static str>) {
        self.has_ended = true;
        self.seconds.record(self.clock.now().since(self.began));
        if let Some(error) = error {
            self.span.record("error.type", error);
        }
    }
}

impl Future for Observed {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let this = &mut *self;
        let polled = this.span.in_scope(|| this.handler.as_mut().poll(cx));
        if let Poll::Ready(outcome) = &polled {
            this.end(error_type(outcome));
        }
        polled
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        if !self.has_ended {
            // It panicked, or the worker did not wait for it.
            self.end(Some("unfinished"));
        }
    }
}

/// Returns the name of an outcome that is not a success.
fn error_type(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Done => None,
        Outcome::Retry(_) => Some("retry"),
        Outcome::Postpone(_) => Some("postpone"),
        Outcome::Failed(_) => Some("failed"),
        Outcome::Park(_) => Some("park"),
    }
}
