//! Campaigns: rounds with settings drawn at random, until the time is over.
//!
//! The seed is drawn anew for each run and printed; `SEAWALL_CAMPAIGN_SEED` repeats one. A run takes 20 s,
//! ten minutes with `SEAWALL_SOAK`, or `SEAWALL_SOAK_SECONDS`.

use std::time::{Duration, Instant};

use crate::chance::Chance;

/// Runs rounds until the time is over; each is given its own seed and returns what it counted.
#[expect(clippy::print_stdout, reason = "figures are there to be quoted")]
pub(crate) async fn run<const N: usize>(
    name: &str,
    counted: [&str; N],
    mut round: impl AsyncFnMut(u64) -> [u64; N],
) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("SEAWALL_CAMPAIGN_SEED").unwrap_or_else(rand::random::<u64>);
    let soak = std::env::var_os("SEAWALL_SOAK").is_some();
    let seconds = if soak { number("SEAWALL_SOAK_SECONDS").unwrap_or(600) } else { 20 };
    println!("{name}: SEAWALL_CAMPAIGN_SEED={seed}, {seconds} s");
    let (began, mut chance) = (Instant::now(), Chance::new(seed));
    let (mut rounds, mut sums) = (0, [0; N]);
    while began.elapsed() < Duration::from_secs(seconds) {
        let own = chance.below(u64::MAX);
        println!("{name}: round {rounds} with {own}");
        for (sum, count) in sums.iter_mut().zip(round(own).await) {
            *sum += count;
        }
        rounds += 1;
    }
    let sums: Vec<_> =
        counted.iter().zip(sums).map(|(what, sum)| format!("{sum} {what}")).collect();
    println!("{name}: {rounds} rounds, {}, nothing found", sums.join(", "));
}
