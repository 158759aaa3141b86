//! Routes for follows. The follower is always the session's user.

use axum::extract::{Path, State};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::Wish;
use crate::{
    app::Shared,
    error::Error,
    http::{Answer, Envelope, Failure, Id, Nothing, PathId, SignedIn},
    notes::comment_http::BriefView,
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(set)).routes(routes!(or_not)).routes(routes!(common))
}

/// Follow a user (`true`), or unfollow (`false`).
///
/// The request is idempotent.
#[utoipa::path(put, path = "/follow/{id}/{wish}", tag = "follows",
    params(("id" = Id, Path), ("wish" = bool, Path, description = "true or false")),
    security(("token" = [])), responses((status = 200, body = Envelope<Nothing>)))]
async fn set(
    State(app): State<Shared>,
    user: SignedIn,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
) -> Answer<Nothing> {
    let bad = || Failure::from(Error::bad("BAD_ID", "an id is a whole number, then true or false"));
    let Ok(Path((whom, wish))) = path else { return Err(bad()) };
    let whom = Id::parse(&whom).ok_or_else(bad)?;
    let wish = match wish.as_str() {
        "true" => Wish::Follow,
        "false" => Wish::Unfollow,
        _ => return Err(bad()),
    };
    app.follows().set(user.id, whom.0, wish).await?;
    Ok(Nothing.into())
}

/// Return whether you follow a user.
#[utoipa::path(get, path = "/follow/or/not/{id}", tag = "follows", params(("id" = Id, Path)),
    security(("token" = [])), responses((status = 200, body = Envelope<bool>)))]
async fn or_not(State(app): State<Shared>, user: SignedIn, PathId(whom): PathId) -> Answer<bool> {
    Ok(app.follows().is_following(user.id, whom).await?.into())
}

/// Return the users that both you and another user follow.
#[utoipa::path(get, path = "/follow/common/{id}", tag = "follows", params(("id" = Id, Path)),
    security(("token" = [])), responses((status = 200, body = Envelope<Vec<BriefView>>)))]
async fn common(
    State(app): State<Shared>,
    user: SignedIn,
    PathId(other): PathId,
) -> Answer<Vec<BriefView>> {
    let common = app.follows().common(user.id, other).await?;
    Ok(common.into_iter().map(BriefView::from).collect::<Vec<_>>().into())
}
