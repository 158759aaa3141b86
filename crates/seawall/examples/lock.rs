//! A lock over processes: held by a lease that is renewed, waited for by messages, and honest about
//! being lost. `cargo run -p seawall --example lock`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use seawall::{
    Result, Seawall,
    lock::{AcquireOutcome, Release, With},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let seawall = Seawall::connect("embedded:").await?;
    let lock = seawall.lock(("order", 42)).lease_ttl(Duration::from_secs(10));
    let patience = Duration::from_secs(2);

    // The way to use it: waits, runs, stops the body if the lock is lost, always gives back.
    let done = lock.with(patience, |guard| async move { format!("paid under {}", guard.token()) });
    match done.await? {
        With::Done(receipt) => println!("{receipt}"),
        With::Lost(_) => println!("lost on the way: somebody else may have paid"),
        With::Busy => println!("somebody else is at it"),
    }

    // By hand: busy is an outcome, not an error.
    let guard = lock.acquire(patience).await?.acquired().expect("the lock is free");
    if let AcquireOutcome::Busy { retry_after } = lock.try_acquire().await? {
        println!("busy, worth another try in {} s at the latest", retry_after.as_secs());
    }

    // A helper that is given the guard enters again without asking the server.
    let inner = guard.reenter();
    assert_eq!(inner.release().await?, Release::StillHeld);

    // Whoever waits gets it in the order of asking, woken by the release.
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire(patience).await }
    });
    tokio::task::yield_now().await;
    println!("held for sure for another {:?}", guard.valid_for());
    assert_eq!(guard.release().await?, Release::Released);
    let next = waiter.await.expect("it only waited")?.acquired().expect("it came free");
    println!("handed over: {}", next.token());
    drop(next); // given back in the background

    // Many readers or one writer; a few at a time; several at once.
    let prices = seawall.rw_lock("prices");
    let _one = prices.read().try_acquire().await?;
    let _other = prices.read().try_acquire().await?;
    println!("writing while two read: {:?}", prices.write().try_acquire().await?);
    let _permit = seawall.semaphore("exports", 3).try_acquire().await?;
    let _both = seawall.multi_lock([("account", 7), ("account", 3)]).acquire(patience).await?;

    seawall.shutdown().await;
    Ok(())
}
