//! Renews leases in time, whatever else a worker waits for.

use std::time::Duration;

use seawall_client::error::Result;
use seawall_resilience::clock::Clock;

/// Longest pause after a renewal that failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Does `work`, and meanwhile calls `renew` in time to keep leases of this length.
pub(crate) async fn renew_while<R>(
    clock: Clock,
    lease: Duration,
    renew: impl Fn() -> R,
    work: impl Future<Output = ()>,
) where
    R: Future<Output = Result<()>>,
{
    tokio::select! {
        biased;
        () = work => {}
        () = renew_forever(clock, lease, renew) => {}
    }
}

/// Calls `renew` whenever a third of the lease has passed, and again soon if it fails.
///
/// A call that takes longer than a third of the lease is dropped and repeated: its reply may be
/// lost, and the leases end whether a caller waits or not.
async fn renew_forever<R>(clock: Clock, lease: Duration, renew: impl Fn() -> R)
where
    R: Future<Output = Result<()>>,
{
    let third = lease / 3;
    loop {
        clock.sleep(third).await;
        loop {
            match clock.timeout(third, renew()).await {
                Some(Ok(())) => break,
                Some(Err(error)) => {
                    tracing::debug!(%error, "leases are not renewed");
                    clock.sleep((third / 8).min(LONGEST_PAUSE)).await;
                }
                None => tracing::debug!("leases are not renewed in time"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use seawall_client::error::Error;

    use super::*;

    const LEASE: Duration = Duration::from_secs(3);

    /// Lets all tasks run that can.
    async fn others_run() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_renewal_that_hangs_or_fails_is_repeated_before_the_lease_ends() {
        let (clock, time) = Clock::manual();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let renewal = tokio::spawn(renew_forever(clock, LEASE, move || {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                match number {
                    0 => pending().await,
                    1 => Err(Error::Invalid("no".to_owned())),
                    _ => Ok(()),
                }
            }
        }));
        let mut after = Vec::new();
        for _ in 0..24 {
            others_run().await;
            time.advance(LEASE / 24);
            others_run().await;
            after.push(calls.load(Ordering::SeqCst));
        }
        // A third, a hang of a third, a short pause.
        let expected: Vec<usize> =
            [(7, 0), (8, 1), (1, 2), (8, 3)].map(|(n, calls)| vec![calls; n]).concat();
        assert_eq!(after, expected);
        renewal.abort();
    }
}
