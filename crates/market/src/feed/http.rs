//! Routes for the feed. The reader is always the session's user.

#![expect(unused_qualifications, reason = "the macro that describes routes writes them")]

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::Place;
use crate::{
    app::Shared,
    error::{Error, Result},
    http::{Answer, Envelope, Params, SignedIn},
    notes::http::NoteView,
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(page)).routes(routes!(count_new))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
struct PlaceParams {
    /// `minTime` of the last page, in milliseconds. Default: now.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    last_id: Option<i64>,
    /// `offset` of the last page.
    #[param(minimum = 0, maximum = 1_000_000)]
    offset: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct FeedView {
    /// Newest first.
    list: Vec<NoteView>,
    /// `lastId` of the next page.
    min_time: i64,
    /// `offset` of the next page.
    offset: u64,
}

/// Return a page of notes by users you follow.
///
/// Ten notes a page, newest first. Continue with `minTime` as `lastId`, and `offset`.
#[utoipa::path(get, path = "/blog/of/follow", tag = "notes", params(PlaceParams),
    security(("token" = [])), responses((status = 200, body = Envelope<FeedView>)))]
async fn page(
    State(app): State<Shared>,
    user: SignedIn,
    Params(place): Params<PlaceParams>,
) -> Answer<FeedView> {
    let time = place.last_id.map(millis).transpose()?;
    let place = Place { time, offset: place.offset.unwrap_or(0).into() };
    let page = app.feed().page(user.id, place).await?;
    let list = NoteView::all(&page.views, &app.config().zone);
    Ok(FeedView { list, min_time: page.min_time, offset: page.offset }.into())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Since {
    /// A time in milliseconds.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    since: i64,
}

/// Count the notes in your feed that are newer than a time.
#[utoipa::path(get, path = "/blog/of/follow/new", tag = "notes", params(Since),
    security(("token" = [])), responses((status = 200, body = Envelope<u64>)))]
async fn count_new(
    State(app): State<Shared>,
    user: SignedIn,
    Params(since): Params<Since>,
) -> Answer<u64> {
    Ok(app.feed().count_since(user.id, millis(since.since)?).await?.into())
}

/// Validates a time sent by a client.
fn millis(time: i64) -> Result<i64> {
    if (0..=seawall::social::MAX_SCORE).contains(&time) {
        return Ok(time);
    }
    Err(Error::bad("BAD_TIME", "a time is milliseconds since 1970"))
}
