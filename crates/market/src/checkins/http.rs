//! Routes for sign-ins.

#![expect(unused_qualifications, reason = "the description's macros write paths in full")]

use axum::extract::State;
use seawall::social::{Calendar, Day, Month};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::Signed;
use crate::{
    app::Shared,
    error::Error,
    http::{Answer, Envelope, Params, SignedIn},
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(sign, read)).routes(routes!(count))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SignView {
    /// Current day in the business zone.
    #[schema(example = "2026-11-16")]
    date: String,
    /// Whether today was already signed.
    already: bool,
}

/// Sign in for today.
///
/// Repeating the request changes nothing.
#[utoipa::path(post, path = "/user/sign", tag = "checkins", security(("token" = [])),
    responses((status = 200, body = Envelope<SignView>)))]
async fn sign(State(app): State<Shared>, user: SignedIn) -> Answer<SignView> {
    let (day, signed) = app.checkins().sign(user.id).await?;
    Ok(SignView { date: day.dashed(), already: signed == Signed::Already }.into())
}

/// Return the number of consecutive signed days.
///
/// Counts up to today, or up to yesterday if today is not signed yet.
#[utoipa::path(get, path = "/user/sign/count", tag = "checkins", security(("token" = [])),
    responses((status = 200, body = Envelope<u32>)))]
async fn count(State(app): State<Shared>, user: SignedIn) -> Answer<u32> {
    Ok(app.checkins().streak(user.id).await?.into())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct MonthParam {
    /// Month, such as `2026-11`. Default: the current month.
    #[param(example = "2026-11")]
    month: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct MonthView {
    #[schema(example = "2026-11")]
    month: String,
    /// Signed days of the month.
    days: Vec<u8>,
    /// Number of days of the month that have begun.
    elapsed: u8,
    /// These days as a binary number, the 1st as the highest bit: signed on 1, 2 and 4 of 4 days is
    /// 0b1101, 13.
    bits: u32,
}

impl MonthView {
    fn new(calendar: &Calendar, today: Day) -> Self {
        let month = calendar.month();
        let elapsed = match month.cmp(&today.month()) {
            std::cmp::Ordering::Less => month.days(),
            std::cmp::Ordering::Equal => today.of_month(),
            std::cmp::Ordering::Greater => 0,
        };
        MonthView {
            month: month.dashed(),
            days: calendar.signed().collect(),
            elapsed,
            bits: calendar.leading(elapsed),
        }
    }
}

/// Return the signed days of a month.
#[utoipa::path(get, path = "/user/sign", tag = "checkins", security(("token" = [])),
    params(MonthParam), responses((status = 200, body = Envelope<MonthView>)))]
async fn read(
    State(app): State<Shared>,
    user: SignedIn,
    Params(params): Params<MonthParam>,
) -> Answer<MonthView> {
    let today = app.today();
    let month = match params.month {
        None => today.month(),
        Some(text) => text.parse::<Month>().map_err(|_| {
            Error::bad("BAD_MONTH", "month is written as 2026-11, from 1970 to 9999")
        })?,
    };
    let calendar = app.checkins().calendar(user.id, month).await?;
    Ok(MonthView::new(&calendar, today).into())
}
