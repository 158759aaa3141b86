//! Sign-ins: one bit per day, one bitmap per month, and streaks.
//!
//! ```text
//! sign:{NAME:USER}:202611   bit 0 is the 1st: signed on 1, 2 and 4 begins 1101… (BITFIELD GET u4 0 = 13)
//! sign:{NAME:USER}:ok       only with a record elsewhere: see `sign_follow`
//! ```
//!
//! All months of one user share a slot, so that a year is one MGET of 12 keys with 4 bytes each.
//! Streaks are counted in this process, so a streak can cross months and years.

use std::marker::PhantomData;

use redis::cmd;
use seawall_client::{
    Handle,
    error::{Error, Result},
    member::Member,
};

use super::{
    Day, Month,
    template::{Template, beside},
};

/// Months that are read in one round trip.
const MONTHS_AT_ONCE: usize = 12;
/// The longest streak that is counted: a hundred years.
const LONGEST_MONTHS: usize = 1200;

impl<M: Member> SignIns<M> {
    /// Creates sign-ins with this name.
    #[must_use]
    pub fn new(handle: &Handle, name: impl Into<String>) -> SignIns<M> {
        SignIns { template: Template::new(handle, "sign", name), member: PhantomData }
    }
}

/// Sign-ins of all users; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, social::Sign};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let ann = seawall.sign_ins::<u64>("daily").of(&1)?;
/// for day in ["2026-12-30", "2026-12-31", "2027-01-01"] {
///     assert_eq!(ann.sign(day.parse()?).await?, Sign::Signed);
/// }
/// // Not signed in yet on the 2nd: the streak is not broken.
/// assert_eq!(ann.streak("2027-01-02".parse()?).await?, 3);
/// assert_eq!(ann.streak("2027-01-03".parse()?).await?, 0);
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct SignIns<M> {
    template: Template,
    member: PhantomData<fn(M) -> M>,
}

/// Outcome of [`SignInsOf::sign`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it says whether there is something to reward"]
pub enum Sign {
    /// This call signed in.
    Signed,
    /// The day was signed before.
    Already,
}

impl<M: Member> SignIns<M> {
    /// Returns the sign-ins of one user.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the user is not a valid part of a key.
    pub fn of(&self, user: &M) -> Result<SignInsOf> {
        Ok(SignInsOf { key: self.template.key_of(user)?, template: self.template.clone() })
    }
}

/// The sign-ins of one user.
#[derive(Debug, Clone)]
pub struct SignInsOf {
    pub(super) template: Template,
    pub(super) key: Vec<u8>,
}

/// The signed days of a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calendar {
    month: Month,
    /// The 1st is the highest bit.
    bits: u32,
}

impl SignInsOf {
    /// Signs in on a day, which may be in the past. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn sign(&self, day: Day) -> Result<Sign> {
        let key = self.month_key(day.month());
        let mut command = cmd("SETBIT");
        command.arg(&key).arg(day.of_month() - 1).arg(1);
        match self.template.client().query(&key, &command).await? {
            0 => Ok(Sign::Signed),
            _ => Ok(Sign::Already),
        }
    }

    /// Returns the number of consecutive signed days up to today, or up to yesterday if today is
    /// not signed yet.
    ///
    /// It takes one round trip for each year of the streak.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn streak(&self, today: Day) -> Result<u32> {
        let mut months = Vec::with_capacity(MONTHS_AT_ONCE);
        let mut next = Some(today.month());
        let mut streak = 0;
        let mut last = today;
        for read in 0..LONGEST_MONTHS {
            let Some(month) = next else { break };
            if read % MONTHS_AT_ONCE == 0 {
                months = self.back_from(month).await?;
            }
            let calendar = months[read % MONTHS_AT_ONCE];
            let mut days = calendar.run_until(last.of_month());
            if read == 0 && days == 0 {
                // Today is not signed: the streak ends yesterday.
                let Some(yesterday) = today.previous() else { break };
                last = yesterday;
                if yesterday.month() == month {
                    days = calendar.run_until(yesterday.of_month());
                } else {
                    next = Some(yesterday.month());
                    continue;
                }
            }
            streak += u32::from(days);
            if days < last.of_month() {
                break;
            }
            next = month.previous();
            match next.map(|month| month.day(month.days())) {
                Some(day) => last = day?,
                None => break,
            }
        }
        Ok(streak)
    }

    /// Returns the signed days of a month.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn calendar(&self, month: Month) -> Result<Calendar> {
        let key = self.month_key(month);
        let bytes: Option<Vec<u8>> =
            self.template.client().query(&key, cmd("GET").arg(&key)).await?;
        Ok(Calendar::new(month, bytes.as_deref()))
    }

    /// Returns the signed days of up to twelve months, going back from this one, which comes first.
    /// It takes one round trip.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn back_from(&self, month: Month) -> Result<Vec<Calendar>> {
        let mut months = vec![month];
        while let Some(before) = months.last().and_then(|month| month.previous()) {
            if months.len() == MONTHS_AT_ONCE {
                break;
            }
            months.push(before);
        }
        let mut command = cmd("MGET");
        for month in &months {
            command.arg(self.month_key(*month));
        }
        let read: Vec<Option<Vec<u8>>> = self.template.client().query(&self.key, &command).await?;
        if read.len() != months.len() {
            return Err(Error::unexpected("MGET answered for another number of keys"));
        }
        let read = months.iter().zip(&read);
        Ok(read.map(|(month, bytes)| Calendar::new(*month, bytes.as_deref())).collect())
    }

    /// Restores days from the database; days that are signed stay signed. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn restore(&self, days: &[Day]) -> Result<()> {
        for slice in days.chunks(super::SLICE) {
            let commands = slice.iter().map(|day| {
                let key = self.month_key(day.month());
                let mut command = cmd("SETBIT");
                command.arg(&key).arg(day.of_month() - 1).arg(1);
                (key, command)
            });
            for reply in self.template.client().send_all(commands.collect()).await {
                reply?;
            }
        }
        Ok(())
    }

    fn month_key(&self, month: Month) -> Vec<u8> {
        beside(&self.key, &format!(":{month}"))
    }
}

impl Calendar {
    fn new(month: Month, bytes: Option<&[u8]>) -> Self {
        let mut four = [0; 4];
        for (to, from) in four.iter_mut().zip(bytes.unwrap_or_default()) {
            *to = *from;
        }
        // Bits after the month's end are not days.
        let ours = u32::MAX << (32 - u32::from(month.days()));
        Calendar { month, bits: u32::from_be_bytes(four) & ours }
    }

    /// Creates a month with these days signed, from 1; days that it does not have are left out.
    #[must_use]
    pub fn of(month: Month, days: impl IntoIterator<Item = u8>) -> Self {
        let days = days.into_iter().filter(|day| (1..=month.days()).contains(day));
        let bits = days.fold(0, |bits, day| bits | 1 << (32 - u32::from(day)));
        Calendar { month, bits }
    }

    /// Returns the month.
    #[must_use]
    pub fn month(&self) -> Month {
        self.month
    }

    /// Returns `true` if this day of the month is signed.
    #[must_use]
    pub fn is_signed(&self, day: u8) -> bool {
        (1..=31).contains(&day) && self.bits >> (32 - u32::from(day)) & 1 == 1
    }

    /// Returns the number of signed days.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.bits.count_ones()
    }

    /// Returns the signed days of the month.
    pub fn signed(&self) -> impl Iterator<Item = u8> + '_ {
        (1..=self.month.days()).filter(|day| self.is_signed(*day))
    }

    /// Returns the first day that is not signed, or `None` if all are.
    #[must_use]
    pub fn first_unsigned(&self) -> Option<u8> {
        (1..=self.month.days()).find(|day| !self.is_signed(*day))
    }

    /// Returns the first `days` days as a number, the 1st as the highest bit: the same as `BITFIELD
    /// GET u{days} 0`.
    #[must_use]
    pub fn leading(&self, days: u8) -> u32 {
        match days {
            0 => 0,
            days => self.bits >> (32 - u32::from(days.min(32))),
        }
    }

    /// Returns the number of consecutive signed days that end with this one.
    fn run_until(&self, day: u8) -> u8 {
        (1..=day).rev().take_while(|day| self.is_signed(*day)).count() as u8
    }
}
