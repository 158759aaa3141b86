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

use super::Outcome;

/// A handler that is called when it is first polled, inside its span: a panic of the call is then one
/// of the handler's task. It measures the time since `began` and notes a failure on the span.
pub(crate) struct Observed<C> {
    handler: Handler<C>,
    span: Span,
    clock: Clock,
    began: Moment,
    seconds: Histogram,
    has_ended: bool,
}

enum Handler<C> {
    Uncalled(Option<C>),
    Called(BoxFuture<'static, Outcome>),
}

/// The closure is never pinned: it is moved out when it is called.
impl<C> Unpin for Observed<C> {}

impl<C: FnOnce() -> BoxFuture<'static, Outcome>> Observed<C> {
    pub(crate) fn new(
        span: Span,
        clock: &Clock,
        began: Moment,
        seconds: &Histogram,
        call: C,
    ) -> Self {
        let handler = Handler::Uncalled(Some(call));
        let (clock, seconds) = (clock.clone(), seconds.clone());
        Observed { handler, span, clock, began, seconds, has_ended: false }
    }
}

impl<C> Observed<C> {
    fn end(&mut self, error: Option<&'static str>) {
        self.has_ended = true;
        self.seconds.record(self.clock.now().since(self.began));
        if let Some(error) = error {
            self.span.record("error.type", error);
        }
    }
}

impl<C: FnOnce() -> BoxFuture<'static, Outcome>> Future for Observed<C> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let this = &mut *self;
        let polled = this.span.in_scope(|| {
            if let Handler::Uncalled(call) = &mut this.handler
                && let Some(call) = call.take()
            {
                this.handler = Handler::Called(call());
            }
            match &mut this.handler {
                Handler::Called(handler) => handler.as_mut().poll(cx),
                // The call has panicked, and a future that has panicked is not polled again.
                Handler::Uncalled(_) => Poll::Pending,
            }
        });
        if let Poll::Ready(outcome) = &polled {
            this.end(error_type(outcome));
        }
        polled
    }
}

impl<C> Drop for Observed<C> {
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
        // A postponed item did nothing wrong.
        Outcome::Done | Outcome::Postpone(_) => None,
        Outcome::Retry(_) => Some("retry"),
        Outcome::Failed(_) => Some("failed"),
        Outcome::Park(_) => Some("park"),
    }
}
