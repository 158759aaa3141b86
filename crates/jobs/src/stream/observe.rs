//! The span of a handler of a stream, and how late it began.

use std::time::Duration;

use futures_util::future::BoxFuture;
use seawall_resilience::clock::Moment;
use tracing::Span;

use super::{delivery::Delivery, intake::GroupConsumer};
use crate::worker::{Observed, Outcome};

/// A handler that is about to be called.
pub(super) struct Seen {
    span: Span,
    began: Moment,
}

impl Seen {
    /// Records how long entries waited for their first handler, and opens the span of its call.
    pub(super) fn begin<T>(consumer: &GroupConsumer<T>, deliveries: &[Delivery<T>]) -> Self {
        let began = consumer.clock.now();
        // On a Cluster all streams of a consumer are in one slot.
        let key = consumer.streams.first().map_or(&[][..], |stream| &stream.key);
        let now = consumer.client.server_millis_of(key, began);
        for delivery in deliveries.iter().filter(|delivery| delivery.attempt == 1) {
            let appended = i64::try_from(delivery.id.millis()).unwrap_or(i64::MAX);
            let delay = u64::try_from(now.saturating_sub(appended)).unwrap_or(0);
            consumer.meter.delay_seconds.record(Duration::from_millis(delay));
        }
        let Some(first) = deliveries.first() else { return Seen { span: Span::none(), began } };
        let span = tracing::debug_span!(
            "stream_handle",
            otel.name = %format_args!("process {}", first.stream),
            otel.kind = "consumer",
            messaging.system = "redis",
            messaging.operation.name = "process",
            messaging.operation.type = "process",
            messaging.destination.name = &*first.stream,
            messaging.consumer.group.name = consumer.settings.group,
            messaging.message.id = %first.id,
            messaging.batch.message_count = deliveries.len(),
            seawall.attempt = first.attempt,
            error.type = tracing::field::Empty,
        );
        Seen { span, began }
    }

    /// Returns the call of the handler, inside the span and measured.
    pub(super) fn call<T, C>(self, consumer: &GroupConsumer<T>, call: C) -> Observed<C>
    where
        C: FnOnce() -> BoxFuture<'static, Outcome>,
    {
        let seconds = &consumer.meter.handler_seconds;
        Observed::new(self.span, &consumer.clock, self.began, seconds, call)
    }
}
