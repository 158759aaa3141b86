//! How money is taken and given back: the seam that a real provider is put behind.
//!
//! Everything is named by a reference, and both calls may be repeated with it by anybody, at any time:
//! a process that died in between is followed by one that asks again. A refund of something that was
//! never charged voids the reference, so that a charge which is still on its way is declined when it
//! arrives. That is what lets an order end while somebody pays for it: whoever comes second knows.

use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::{Mutex, PoisonError},
};

use crate::error::Result;

/// What the calls of a provider return.
pub type Paying<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// What became of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a charge may be declined"]
pub enum Charged {
    /// The money was taken, now or by an earlier call.
    Accepted,
    /// It was not and will not be: the reference was refunded or voided, or the provider refuses.
    Declined,
}

/// Takes money and gives it back.
pub trait Payments: fmt::Debug + Send + Sync {
    /// Takes so many cents, once for each reference.
    fn charge<'a>(&'a self, reference: &'a str, cents: u64) -> Paying<'a, Charged>;

    /// Gives back what was charged, once for each reference; voids one that was not charged.
    fn refund<'a>(&'a self, reference: &'a str) -> Paying<'a, ()>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Charged,
    Refunded,
}

/// A provider that accepts everything and remembers it for as long as the process runs: for
/// development, and for trying the product out.
#[derive(Debug, Default)]
pub struct SimulatedPayments {
    states: Mutex<HashMap<String, State>>,
}

impl SimulatedPayments {
    /// Brings a reference to a state; the one that it had before.
    fn change(&self, reference: &str, to: State) -> Option<State> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let before = states.get(reference).copied();
        // What was refunded stays so.
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
