//! What no lock can do alone: keep a holder that slept through its lease from writing. The resource
//! does it, by the token. `cargo run -p seawall --example fenced_resource`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use seawall::{
    Result,
    lock::{Release, Token},
    testing::TestServer,
};

/// A ledger that remembers the highest token it has seen. In SQL it is one conditional update:
/// `UPDATE ledger SET balance = ?, fence = ?token WHERE id = ? AND fence <= ?token`.
#[derive(Default)]
struct Ledger {
    balance: i64,
    fence: u64,
}

impl Ledger {
    /// False when somebody who held the lock later has written already.
    fn write(&mut self, balance: i64, token: Token) -> bool {
        if token.to_u64() < self.fence {
            return false;
        }
        self.fence = token.to_u64();
        self.balance = balance;
        true
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    // An engine on a clock that is moved by hand: a long sleep takes no time.
    let test_server = TestServer::start().await?;
    let lease = Duration::from_secs(10);
    let lock = test_server.seawall().lock("ledger").lease_ttl(lease).fixed();
    let mut ledger = Ledger::default();

    let slow = lock.try_acquire().await?.acquired().expect("free");
    assert!(ledger.write(100, slow.token()));

    // The slow holder is paused for longer than its lease; meanwhile somebody else works.
    test_server.advance(lease + Duration::from_secs(1)).await;
    let quick = lock.try_acquire().await?.acquired().expect("the lease is over");
    assert!(ledger.write(250, quick.token()));

    // It wakes up and writes without looking: its token is one of the past.
    let accepted = ledger.write(0, slow.token());
    println!("{} after {}: accepted = {accepted}", slow.token(), quick.token());
    assert!(!accepted && ledger.balance == 250);

    // Had it looked, it would have known.
    assert!(slow.is_lost());
    assert_eq!(slow.release().await?, Release::AlreadyLost);
    assert_eq!(quick.release().await?, Release::Released);
    test_server.shutdown().await;
    Ok(())
}
