//! Route of the home feed.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::Course;
use crate::{
    app::Shared,
    error::Error,
    http::{Answer, Envelope, Id, JsonBody, MaybeSignedIn},
    notes::http::NoteView,
};

/// Last page that can be requested.
const LAST_PAGE: u32 = 10_000;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(feed))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct FeedRequest {
    /// Version from the first page. Default: the newest list.
    feed_version: Option<Id>,
    /// Page number, from 1.
    #[serde(default = "first")]
    #[schema(minimum = 1, maximum = 10_000, default = 1)]
    page_no: u32,
}

fn first() -> u32 {
    1
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct HomeFeedView {
    /// Identifies this list: send it with the next page.
    feed_version: Id,
    list: Vec<NoteView>,
    /// Whether another page follows.
    has_more: bool,
    /// The requested version is gone: this is page 1 of the newest list.
    started_over: bool,
}

/// Return a page of the home feed.
///
/// The list of a version does not change for ten minutes.
#[utoipa::path(post, path = "/home/feed", tag = "notes", request_body = FeedRequest,
    responses((status = 200, body = Envelope<HomeFeedView>)))]
async fn feed(
    State(app): State<Shared>,
    MaybeSignedIn(user): MaybeSignedIn,
    JsonBody(asked): JsonBody<FeedRequest>,
) -> Answer<HomeFeedView> {
    if !(1..=LAST_PAGE).contains(&asked.page_no) {
        return Err(Error::bad("BAD_PAGE", "pageNo is a page from 1 to 10000").into());
    }
    let version = asked.feed_version.map(|version| version.0);
    let page = app.home().page(version, asked.page_no, user.map(|user| user.id)).await?;
    let view = HomeFeedView {
        feed_version: Id(page.version),
        list: NoteView::all(&page.list, &app.config().zone),
        has_more: page.has_more,
        started_over: page.course == Course::StartsOver,
    };
    Ok(view.into())
}
