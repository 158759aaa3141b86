//! Converts the replies of a flash sale's scripts to outcomes.

use std::time::Duration;

use seawall_client::error::{Error, Result};

use super::{
    sale::MAX_UNITS,
    sale_types::{CancelOutcome, Changed, Confirmed, Opened, Phase, Receipt, Reserved, SaleStatus},
};

pub(super) fn cancel_outcome(words: &[String]) -> CancelOutcome {
    match words.first().map(String::as_str) {
        Some("DONE") => CancelOutcome::Returned,
        Some("ALREADY") => CancelOutcome::Already,
        Some("NONE") => CancelOutcome::NeverReserved,
        _ => CancelOutcome::Unknown,
    }
}

pub(super) fn confirmed(words: &[String]) -> Confirmed {
    match words.first().map(String::as_str) {
        Some("DONE") => Confirmed::Confirmed,
        Some("ALREADY") => Confirmed::Already,
        Some("OVER") => Confirmed::GivenBack,
        Some("NONE") => Confirmed::NeverReserved,
        _ => Confirmed::Unknown,
    }
}

/// Returns `None` if the opening goes on.
pub(super) fn opened((word, reference): (String, Vec<u8>)) -> Result<Option<Opened>> {
    match word.as_str() {
        "GO_ON" => Ok(None),
        "OPENED" => Ok(Some(Opened::Opened)),
        "ALREADY" => Ok(Some(Opened::Already)),
        "RUNNING" => Ok(Some(Opened::Running { reference })),
        "ENDED" => Ok(Some(Opened::Ended)),
        "GONE" => Err(Error::Unavailable("an opening that was begun is gone; repeat it".into())),
        other => Err(Error::unexpected(format!("{other} is not an opening's answer"))),
    }
}

pub(super) fn reserved(reply: Vec<redis::Value>) -> Result<Reserved> {
    let mut reply = reply.into_iter();
    let mut next = || reply.next().unwrap_or(redis::Value::Nil);
    let word: String = redis::from_redis_value(next())?;
    let mut receipt = || -> Result<Receipt> {
        let sequence = redis::from_redis_value(next())?;
        let at_millis = redis::from_redis_value(next())?;
        let entry: String = redis::from_redis_value(next())?;
        Ok(Receipt { sequence, at_millis, entry: Some(entry).filter(|entry| entry != "-") })
    };
    Ok(match word.as_str() {
        "RESERVED" => Reserved::Reserved(receipt()?),
        "YOURS" => Reserved::AlreadyYours(receipt()?),
        "DUPLICATE" => Reserved::Duplicate { reference: redis::from_redis_value(next())? },
        "NOT_STARTED" => {
            let wait: u64 = redis::from_redis_value(next())?;
            Reserved::NotStarted { begins_in: Duration::from_millis(wait) }
        }
        "SOLD_OUT" => Reserved::SoldOut,
        "ENDED" => Reserved::Ended,
        "GIVEN_BACK" => Reserved::GivenBack,
        "TAKEN" => Reserved::ReferenceTaken,
        "BUSY" => Reserved::Busy,
        "UNKNOWN" => Reserved::Unknown,
        "UNVOUCHED" => Reserved::Unverified,
        other => return Err(Error::unexpected(format!("{other} is not a sale's answer"))),
    })
}

pub(super) fn changed(reply: &[String]) -> Result<Changed> {
    Ok(match standing(reply)? {
        None => Changed::Unknown,
        Some(("ALREADY", status)) => Changed::Already(status),
        Some(("TOO_MANY", status)) => {
            return Err(Error::Invalid(format!(
                "the sale has received {} units: with so many more they could not be counted exactly, \
                 which is up to {MAX_UNITS}",
                status.received
            )));
        }
        Some((_, status)) => Changed::Changed(status),
    })
}

/// Returns the word of a change and the status, or `None` if no such sale is open.
pub(super) fn standing(reply: &[String]) -> Result<Option<(&str, SaleStatus)>> {
    let [word, numbers @ ..] = reply else {
        return Err(Error::unexpected("a sale answered nothing"));
    };
    if word == "UNKNOWN" {
        return Ok(None);
    }
    let numbers: Vec<i64> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
    let [received, left, taken, back, confirmed, begin, end, now] = *numbers else {
        return Err(Error::unexpected(format!("{numbers:?} is not a sale")));
    };
    let phase = match now {
        now if now < begin => Phase::NotStarted,
        now if now < end => Phase::Running,
        _ => Phase::Ended,
    };
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let status = SaleStatus {
        phase,
        received: count(received),
        left: count(left),
        reserved: count(taken - back - confirmed),
        confirmed: count(confirmed),
        given_back: count(back),
    };
    Ok(Some((word, status)))
}
