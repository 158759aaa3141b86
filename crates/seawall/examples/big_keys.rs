//! Big keys, found gently and swept away: `cargo run -p seawall --example big_keys`.

use seawall::{
    Seawall, cmd,
    survey::{End, Kind, Measure, Thresholds, Tiers},
};

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    let client = seawall.client();
    for user in 0..200 {
        let key = format!("cart:{user}");
        let mut command = cmd("HSET");
        command.arg(&key);
        // One cart has grown out of hand.
        for item in 0..if user == 42 { 3_000 } else { 3 } {
            command.arg(item).arg("1 piece");
        }
        client.send(key.as_bytes(), &command).await?;
    }

    // When a hash counts as big is ours to say.
    let mut thresholds = Thresholds::default();
    thresholds.set(Kind::Hash, Measure::Members, Tiers { warn: 500, critical: 2_000 });

    // Not more than 5,000 keys a second, on a replica where there is one, until somebody stops it.
    let survey = seawall.survey().rate(5_000).matching("cart:*").thresholds(thresholds);
    let surveyed = survey.run(|_progress| {}, std::future::pending()).await?;
    assert!(matches!(surveyed.end, End::Complete));
    let report = surveyed.report;
    say(&format!("{} keys, {} bytes", report.totals.keys, report.totals.bytes));
    for found in &report.flagged {
        let (severity, key) = (found.severity, found.key_text());
        say(&format!("{severity}: {key} has {} fields, {} bytes", found.members, found.bytes));
    }

    // Gone at once for everybody; its memory is freed beside the server's work.
    let keys: Vec<_> = report.flagged.iter().map(|found| found.key.to_vec()).collect();
    let removed = seawall.unlink_keys(&keys, 100, |_| {}).await?;
    say(&format!("{removed} removed"));
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
