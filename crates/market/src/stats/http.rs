//! Routes for page views, and counting of views of the page itself.

#![expect(unused_qualifications, reason = "the description's macros write paths in full")]

use std::ops::RangeInclusive;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, header},
};
use seawall::social::Day;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Days, Visitor};
use crate::{
    accounts::User,
    app::Shared,
    error::{Error, Result},
    http::{Answer, ClientIp, Envelope, MaybeSignedIn, Nothing, Params},
};

/// Path of the page.
const PAGE: &str = "/";

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(view)).routes(routes!(uv)).routes(routes!(pv))
}

/// Counts the request if it is a view of the page.
pub(crate) fn note_page_view(app: &Shared, request: &Request) {
    if request.method() == Method::GET && request.uri().path() == PAGE {
        let MaybeSignedIn(user) = MaybeSignedIn::of(request.extensions());
        let address = ClientIp::of(request.extensions(), request.headers(), app);
        app.stats().view(visitor(user.as_ref(), &address, request.headers()));
    }
}

fn visitor(user: Option<&User>, address: &ClientIp, headers: &HeaderMap) -> Visitor {
    match user {
        Some(user) => Visitor::user(user.id),
        None => {
            let agent = headers.get(header::USER_AGENT).map_or(&b""[..], |agent| agent.as_bytes());
            Visitor::guest(address.0, agent)
        }
    }
}

/// Count a view of one of the page's screens.
#[utoipa::path(post, path = "/stats/view", tag = "stats",
    responses((status = 200, body = Envelope<Nothing>)))]
async fn view(
    State(app): State<Shared>,
    MaybeSignedIn(user): MaybeSignedIn,
    address: ClientIp,
    headers: HeaderMap,
) -> Answer<Nothing> {
    app.stats().view(visitor(user.as_ref(), &address, &headers));
    Ok(Nothing.into())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RangeParams {
    /// First day. Default: today.
    #[param(example = "2026-11-10")]
    from: Option<String>,
    /// Last day, at most 366 days in total. Default: today.
    #[param(example = "2026-11-16")]
    to: Option<String>,
}

impl RangeParams {
    fn days(&self, today: Day) -> Result<Days> {
        let day = |text: &Option<String>| match text {
            None => Ok(today),
            Some(text) => text
                .parse::<Day>()
                .map_err(|_| Error::bad("BAD_DAY", "a day is written as 2026-11-16")),
        };
        Days::new(RangeInclusive::new(day(&self.from)?, day(&self.to)?))
    }
}

/// Return the number of unique visitors in a range of days.
///
/// The number is accurate to about 1 %.
#[utoipa::path(get, path = "/stats/uv", tag = "stats", params(RangeParams),
    responses((status = 200, body = Envelope<u64>)))]
async fn uv(State(app): State<Shared>, Params(range): Params<RangeParams>) -> Answer<u64> {
    Ok(app.stats().visitors(range.days(app.today())?).await?.into())
}

/// Return the number of page views in a range of days.
#[utoipa::path(get, path = "/stats/pv", tag = "stats", params(RangeParams),
    responses((status = 200, body = Envelope<u64>)))]
async fn pv(State(app): State<Shared>, Params(range): Params<RangeParams>) -> Answer<u64> {
    Ok(app.stats().views(range.days(app.today())?).await?.into())
}
