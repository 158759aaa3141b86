//! A limit that holds with Redis and without it: `cargo run -p seawall --example limiter`.

use std::time::Duration;

use seawall::{
    Seawall,
    limit::{Decision, Limiter, Rate, WhenAway, Window},
};

/// What a login route would do first.
async fn send_code(codes: &Limiter, phone: &str) -> Result<String, seawall::Error> {
    Ok(match codes.check(phone, 1).await? {
        Decision::Allowed { remaining, .. } => format!("code sent, {remaining} more this hour"),
        Decision::Limited { retry_after } => {
            format!("429, Retry-After: {}", retry_after.as_secs() + 1)
        }
    })
}

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;

    // A hard number in any hour; closed while Redis is away.
    let codes = seawall
        .limiter("login-code", Window::of(3, Duration::from_secs(3_600)))
        .when_away(WhenAway::Refuse)
        .build()?;
    for _ in 0..4 {
        say(&send_code(&codes, "10000000001").await?);
    }
    // Somebody else is not concerned.
    say(&send_code(&codes, "10000000002").await?);

    // A steady rate with a burst; a quarter of it in each of four processes while Redis is away.
    let search = seawall.limiter("search", Rate::per_second(50).burst(10)).instances(4).build()?;
    let (mut allowed, mut limited) = (0, 0);
    for _ in 0..100 {
        match search.check(&("user", 42), 1).await? {
            Decision::Allowed { .. } => allowed += 1,
            Decision::Limited { .. } => limited += 1,
        }
    }
    say(&format!("{allowed} searches at once, {limited} refused"));

    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
