//! Orders that are cancelled when nobody pays: `cargo run -p seawall --example delayed_queue`.

use std::time::Duration;

use seawall::{
    Seawall,
    queue::{Added, Changed, Heard, Job},
    stream::Outcome,
};

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    let unpaid =
        seawall.delayed_queue::<u64>("unpaid").lease_ttl(Duration::from_secs(5)).build()?;
    for order in 1..=3_u64 {
        let after = Duration::from_millis(order * 40);
        assert_eq!(unpaid.add(format!("order-{order}"), &order, after).await?, Added::Now);
    }
    // Order 2 is paid: its time-out is not wanted any more. Order 3 gets more time.
    assert_eq!(unpaid.cancel("order-2").await?, Changed::Done);
    assert_eq!(unpaid.reschedule("order-3", Duration::from_millis(200)).await?, Changed::Done);

    // Everybody who listens is told of what was cancelled.
    let cancelled = seawall.broadcast::<u64>("cancelled")?;
    let mut listener = cancelled.listen().await?;
    let worker = unpaid.worker().concurrency(4).spawn(move |job: Job<u64>| {
        let cancelled = cancelled.clone();
        async move {
            // UPDATE … WHERE status = 'unpaid': any number of attempts act as one.
            match cancelled.publish(job.payload()).await {
                Ok(_) => Outcome::Done,
                Err(error) => Outcome::Failed(error.to_string()),
            }
        }
    })?;
    for _ in 0..2 {
        match listener.next().await {
            Some(Heard::Message(order)) => say(&format!("order {order} was not paid in time")),
            other => say(&format!("{other:?}: look at the database")),
        }
    }
    worker.shutdown().await;
    say(&format!("{:?}", unpaid.status().await?));

    // The simple list, for work without time-outs and attempts.
    let mails = seawall.list_queue::<String>("mails")?;
    mails.push(&"your order was cancelled".to_owned()).await?;
    let mut postman = mails.consumer("postman-1")?;
    while let Some(mail) = postman.take(Duration::from_millis(10)).await? {
        say(&format!("sent: {}", mail.payload()));
        say(&format!("{:?}", postman.finish(&mail).await?));
    }
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
