//! Sign-ins: once a day, with a calendar and a count of consecutive days.
//!
//! The table `sign` is the record and the bitmaps in Redis are its copy. Signing in marks the copy
//! as doubtful, writes the row, and sets the bit. Whatever is lost on the way (a reply, the
//! process, all of Redis), either there is no row and the user is told to try again, or there is a
//! row that the next reader copies. Trying again is harmless: the primary key makes a day count
//! once.
//!
//! When Redis is away, reads use the table. Signing in fails, because readers that trust the
//! bitmaps would miss a row written without them.
//!
//! A day is a day of the business zone, by the Redis server's clock.

pub(crate) mod http;
mod store;

use std::{collections::HashSet, sync::Arc};

use seawall::social::{Calendar, Day, Month, SignIns, SignInsOf};

use crate::{app::Context, db::Db, error::Result, keys};

/// Longest streak counted from the table: a hundred years.
const LONGEST_DAYS: usize = 36_525;

/// Outcome of [`Checkins::sign`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Signed {
    /// Signed by this call.
    Now,
    /// Already signed today.
    Already,
}

/// Sign-ins of all users.
#[derive(Debug)]
pub struct Checkins {
    context: Context,
    bitmaps: SignIns<u64>,
}

impl Checkins {
    pub(crate) fn new(context: &Context) -> Self {
        Checkins { bitmaps: context.seawall.sign_ins(keys::SIGN_INS), context: context.clone() }
    }

    /// Signs a user in for today.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable): it may have succeeded, and can be
    /// repeated.
    pub async fn sign(&self, user: u64) -> Result<(Day, Signed)> {
        let today = self.context.today();
        let copy = self.bitmaps.of(&user)?;
        copy.doubt().await?;
        let signed = store::insert(self.db(), user, today, self.context.now()).await?;
        if let Err(error) = copy.sign(today).await {
            tracing::debug!(%error, "a day is copied by the next reader");
        }
        Ok((today, if signed { Signed::Now } else { Signed::Already }))
    }

    /// Returns the number of consecutive days up to today, or up to yesterday if today is not
    /// signed yet.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) if neither store answers.
    pub async fn streak(&self, user: u64) -> Result<u32> {
        let today = self.context.today();
        let counted = async {
            let copy = self.followed(user).await?;
            copy.streak(today).await
        };
        match counted.await {
            Ok(streak) => Ok(streak),
            Err(error) if error.is_away() => {
                tracing::debug!(%error, "a streak is counted from the table");
                let days = store::days(self.db(), user).await?;
                Ok(run_until(&days.into_iter().collect(), today))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the signed days of a month.
    ///
    /// # Errors
    /// As [`Checkins::streak`].
    pub async fn calendar(&self, user: u64, month: Month) -> Result<Calendar> {
        let read = async {
            let copy = self.followed(user).await?;
            copy.calendar(month).await
        };
        match read.await {
            Ok(calendar) => Ok(calendar),
            Err(error) if error.is_away() => {
                tracing::debug!(%error, "a month is read from the table");
                let days = store::days(self.db(), user).await?;
                let days = days.into_iter().filter(|day| day.month() == month);
                Ok(Calendar::of(month, days.map(Day::of_month)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a user's bitmaps, brought up to date with the table.
    async fn followed(&self, user: u64) -> seawall::Result<SignInsOf> {
        let copy = self.bitmaps.of(&user)?;
        copy.follow(|| store::days(self.db(), user)).await?;
        Ok(copy)
    }

    fn db(&self) -> &Arc<Db> {
        &self.context.db
    }
}

fn run_until(days: &HashSet<Day>, today: Day) -> u32 {
    let mut last = Some(today);
    if !days.contains(&today) {
        last = today.previous();
    }
    let mut streak = 0;
    for _ in 0..LONGEST_DAYS {
        match last {
            Some(day) if days.contains(&day) => streak += 1,
            _ => break,
        }
        last = last.and_then(Day::previous);
    }
    streak
}
