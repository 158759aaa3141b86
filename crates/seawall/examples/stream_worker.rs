//! A worker that loses nothing and applies nothing twice: `cargo run -p seawall --example stream_worker`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use seawall::{Seawall, stream::Delivery};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Payment {
    account: u32,
    cents: i64,
}

/// Stands for a database; its lock is the transaction.
#[derive(Default)]
struct Bank {
    balances: HashMap<u32, i64>,
    applied: HashMap<String, i64>,
}

impl Bank {
    fn apply(&mut self, reference: String, payment: &Payment) -> Result<(), String> {
        if payment.cents == 0 {
            return Err("a payment of nothing".to_owned());
        }
        // INSERT INTO applied …; a violation of its unique key means: done before, nothing to do.
        if self.applied.insert(reference, payment.cents).is_none() {
            *self.balances.entry(payment.account).or_default() += payment.cents;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    let payments = seawall.stream::<Payment>("payments")?;
    for cents in [500, 250, 0] {
        payments.append(&Payment { account: 1, cents }).await?;
    }
    // Said twice, because the first reply was lost; appended once.
    for _ in 0..2 {
        let _ = payments.append_once("bonus-2024", &Payment { account: 1, cents: 10 }).await?;
    }

    let bank = Arc::new(Mutex::new(Bank::default()));
    let books = Arc::clone(&bank);
    let worker = payments
        .worker("bank")
        .consumer("host-1")
        .max_attempts(3)
        .retry_delay(Duration::from_millis(5))
        .spawn(move |payment: Delivery<Payment>| {
            let done = books.lock().map_or(Err("closed".to_owned()), |mut bank| {
                bank.apply(payment.reference(), payment.payload())
            });
            async move { done }
        })?;
    // The payment of nothing is parked; the others go on.
    while payments.dead_letter_count().await? == 0 || worker.counts().handled < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let balances = bank.lock().map(|bank| bank.balances.clone()).unwrap_or_default();
    say(&format!("{balances:?}, {:?}", worker.counts()));
    for parked in payments.dead_letters(None).await? {
        say(&format!("parked after {} attempts: {}", parked.attempts, parked.reason));
        let _ = payments.redrive(&[parked.id]).await?;
    }
    say(&format!("{:?}", worker.shutdown().await));
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
