//! Charges and refunds: the interface for a real payment provider.
//!
//! Every call has a reference, and both calls can be repeated with it by any process at any time:
//! if a process dies in between, another one repeats the call. A refund of a reference that was
//! never charged voids it, so that a charge still in flight is declined when it arrives. So an
//! order can end while it is being paid: the later of the two calls learns of the earlier one.

use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::{Mutex, PoisonError},
};

use crate::error::Result;

/// Return type of provider calls.
pub type Paying<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Outcome of [`Payments::charge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a charge may be declined"]
pub enum Charged {
    /// The money was charged, now or by an earlier call.
    Accepted,
    /// It was not and will not be charged: the reference was refunded or voided, or the provider
    /// refuses.
    Declined,
}

/// Charges and refunds money.
pub trait Payments: fmt::Debug + Send + Sync {
    /// Charges an amount in cents, once per reference.
    fn charge<'a>(&'a self, reference: &'a str, cents: u64) -> Paying<'a, Charged>;

    /// Refunds a charge, once per reference; voids a reference that was not charged.
    fn refund<'a>(&'a self, reference: &'a str) -> Paying<'a, ()>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Charged,
    Refunded,
}

/// A provider that accepts everything and remembers it while the process runs, for development and
/// trials.
#[derive(Debug, Default)]
pub struct SimulatedPayments {
    states: Mutex<HashMap<String, State>>,
}

impl SimulatedPayments {
    /// Sets the state of a reference. Returns the previous one.
    fn change(&self, reference: &str, to: State) -> Option<State> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let before = states.get(reference).copied();
        // A refund is final.
        if before != Some(State::Refunded) {
            states.insert(reference.to_owned(), to);
        }
        before
    }
}

impl Payments for SimulatedPayments {
    fn charge<'a>(&'a self, reference: &'a str, cents: u64) -> Paying<'a, Charged> {
        Box::pin(async move {
            if self.change(reference, State::Charged) == Some(State::Refunded) {
                return Ok(Charged::Declined);
            }
            tracing::info!(reference, cents, "charged (simulated)");
            Ok(Charged::Accepted)
        })
    }

    fn refund<'a>(&'a self, reference: &'a str) -> Paying<'a, ()> {
        Box::pin(async move {
            self.change(reference, State::Refunded);
            tracing::info!(reference, "refunded (simulated)");
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_may_be_repeated_and_a_refund_has_the_last_word() {
        let payments = SimulatedPayments::default();
        for _ in 0..2 {
            assert_eq!(
                payments.charge("goods-1", 100).await.expect("simulated"),
                Charged::Accepted
            );
        }
        for _ in 0..2 {
            payments.refund("goods-1").await.expect("simulated");
        }
        assert_eq!(payments.charge("goods-1", 100).await.expect("simulated"), Charged::Declined);
        payments.refund("goods-2").await.expect("simulated");
        assert_eq!(payments.charge("goods-2", 100).await.expect("simulated"), Charged::Declined);
    }
}
