//! Sign-ins with a record elsewhere: the database has the days, the bitmaps are a copy.
//!
//! ```text
//! sign:{NAME:USER}:ok   "whole" while the bitmaps are known to hold all of the record; "doubt" while
//!                       it may be changing; else the token of the process that is reading it
//! ```
//!
//! Days are only ever added, so two copies never contradict each other, and copying again does no
//! harm. The only question is whether the bitmaps may be *assumed* to hold everything. Before the
//! record changes, the caller marks them as doubtful for as long as the change may take
//! ([`CHANGING`]): a reader that comes before the change is committed has read a record without it,
//! and must not end the doubt. When that time is over, or the marker is gone, a reader copies the
//! record and ends the doubt, unless another change has come meanwhile. So no crash, no lost reply
//! and no loss of Redis hides a day for longer than until the next read.
//!
//! Deliberately absent: waiting. Readers that come during the doubt, or while another process
//! reads, copy the record themselves; they write the same bits.

use std::time::Duration;

use redis::cmd;
use seawall_client::{client::Script, error::Result};
use seawall_resilience::clock::millis;

use super::{Day, copies::source_error, sign_in::SignInsOf, template::beside};

/// How long bitmaps are assumed to be complete before the record is read again. It bounds how long
/// an eviction of single keys can hide days.
const BELIEVED: Duration = Duration::from_secs(24 * 3600);
/// How long a change of the record may take after the doubt began.
const CHANGING: Duration = Duration::from_secs(30);
/// How long a reader may take before its copy no longer ends the doubt.
const COPYING: Duration = Duration::from_secs(10);
/// Value of the marker when there is no doubt.
const WHOLE: &str = "whole";
/// Value of the marker while the record may be changing.
const DOUBT: &str = "doubt";

static BELIEVE: Script = Script::new(include_str!("script/sign_believe.lua"));

impl SignInsOf {
    /// Announces that the record is about to change, within half a minute.
    ///
    /// The bitmaps are not trusted until that time is over and [`SignInsOf::follow`] has read the
    /// record again. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer: do not change the record then, or the change may be missed.
    pub async fn doubt(&self) -> Result<()> {
        let marker = self.marker();
        let mut doubt = cmd("SET");
        doubt.arg(&marker).arg(DOUBT).arg("PX").arg(millis(CHANGING));
        self.template.client().send(&marker, &doubt).await.map(drop)
    }

    /// Copies the record into the bitmaps, unless they are known to hold it.
    ///
    /// `load` returns every day of the record. It takes one round trip if there is nothing to do.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
    /// use seawall::{Seawall, social::Day};
    ///
    /// let seawall = Seawall::connect("embedded:").await?;
    /// let ann = seawall.sign_ins::<u64>("daily").of(&1)?;
    /// let mut record: Vec<Day> = vec!["2026-11-15".parse()?];
    ///
    /// ann.doubt().await?;
    /// record.push("2026-11-16".parse()?); // in production: insert into sign …
    /// ann.follow(|| async { Ok::<_, seawall::Error>(record.clone()) }).await?;
    /// assert_eq!(ann.streak("2026-11-16".parse()?).await?, 2);
    /// # seawall.shutdown().await; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If Redis does not answer; [`Error::Source`](seawall_client::Error::Source) if `load` fails.
    pub async fn follow<Fut, E>(&self, load: impl FnOnce() -> Fut) -> Result<()>
    where
        Fut: Future<Output = Result<Vec<Day>, E>>,
        E: std::fmt::Display,
    {
        let (client, marker) = (self.template.client(), self.marker());
        let said: Option<String> = client.query(&marker, cmd("GET").arg(&marker)).await?;
        if said.as_deref() == Some(WHOLE) {
            return Ok(());
        }
        let token = format!("{:032x}", client.randomness().u128());
        let mut begin = cmd("SET");
        begin.arg(&marker).arg(&token).arg("NX").arg("PX").arg(millis(COPYING));
        client.send(&marker, &begin).await?;
        let days = load().await.map_err(source_error)?;
        self.restore(&days).await?;
        let call = BELIEVE.on(&[&marker]).arg(&token).arg(WHOLE);
        // Refused during a doubt or while another process reads. The days are copied all the same.
        client.run(&call.arg(millis(BELIEVED))).await.map(drop)
    }

    fn marker(&self) -> Vec<u8> {
        beside(&self.key, ":ok")
    }
}
