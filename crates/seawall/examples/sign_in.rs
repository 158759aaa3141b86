//! A bit a day and how many in a row: `cargo run -p seawall --example sign_in`.

use seawall::{
    Seawall,
    social::{Day, Sign},
};

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    let daily = seawall.sign_ins::<u64>("daily");
    let ann = daily.of(&42)?;

    // Which day it is depends on where one is: 2026-12-31T18:00Z is the new year in Shanghai.
    let today = Day::at(1_798_740_000, 8 * 3600);
    say(&format!("today is {today}"));

    // Four days that end with the year, and today.
    let mut days = vec![today];
    while days.len() < 5 {
        days.extend(days[days.len() - 1].previous());
    }
    for day in days.iter().rev() {
        match ann.sign(*day).await? {
            Sign::Signed => say(&format!("signed in on {day}")),
            Sign::Already => say(&format!("{day} was signed already")),
        }
    }
    say(&format!("{} days in a row", ann.streak(today).await?));
    say(&format!("tomorrow, before signing: {}", ann.streak(today.next()).await?));
    say(&format!("the day after that: {}", ann.streak(today.next().next()).await?));

    // A page of the calendar, and a year of them in one round trip.
    let year = ann.back_from(today.month()).await?;
    for month in year.iter().filter(|month| month.count() > 0) {
        let days: Vec<u8> = month.signed().collect();
        say(&format!("{}: {days:?}, first gap {:?}", month.month(), month.first_unsigned()));
    }
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
