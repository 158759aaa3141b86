//! Sessions that slide, and end on every device at once: `cargo run -p seawall --example session`.

use std::time::Duration;

use seawall::{
    Seawall,
    session::{Fields, Load, Sessions, Token},
};

/// What a filter on every path would do with the header of a request.
async fn who(sessions: &Sessions<u64>, header: &str) -> Result<String, seawall::Error> {
    let Some(token) = Token::parse(header.trim_start_matches("Bearer ")) else {
        return Ok("nobody".into());
    };
    Ok(match sessions.load(&token).await? {
        Load::Found(session) => format!("user {} ({})", session.user, session.fields["role"]),
        Load::Unknown => "nobody".into(),
    })
}

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    let sessions = seawall
        .sessions::<u64>("web")
        .idle_ttl(Duration::from_secs(30 * 60))
        .max_ttl(Duration::from_secs(7 * 24 * 3600))
        .max_per_user(5)
        .build()?;

    let fields = Fields::from([("role".into(), "merchant".into())]);
    let phone = sessions.open(&42, &fields).await?;
    let laptop = sessions.open(&42, &fields).await?;
    say(&who(&sessions, &format!("Bearer {}", phone.reveal())).await?);
    say(&who(&sessions, "Bearer let-me-in").await?);
    // The token shows itself to nobody by accident.
    say(&format!("in a log: {phone:?}"));

    for session in sessions.list(&42).await? {
        let minutes = session.idle_left.as_secs() / 60;
        say(&format!("device {}…, {minutes} minutes left", &session.id.as_str()[..8]));
    }
    let _ = sessions.revoke(&phone).await?;
    say(&format!("the phone is {}", who(&sessions, phone.reveal()).await?));

    // The password was changed: everybody out.
    let ended = sessions.revoke_all(&42).await?;
    say(&format!("{ended} more ended, the laptop is {}", who(&sessions, laptop.reveal()).await?));
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
