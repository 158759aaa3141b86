//! Routes for comments and likes. The author is always the session's user.

#![expect(unused_qualifications, reason = "the description's macros write paths in full")]

use std::collections::HashMap;

use axum::extract::{Path, State, rejection::PathRejection};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Comment, Wish,
    comment_store::Place,
    comments::{Replies, Threads},
};
use crate::{
    accounts::Brief,
    app::Shared,
    error::Error,
    http::{
        Answer, Envelope, Failure, Id, JsonBody, Named, PageParam, Params, PathId, Refusal,
        SignedIn,
    },
    zone::rfc3339,
};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(like))
        .routes(routes!(first_likes))
        .routes(routes!(comments, comment))
        .routes(routes!(replies))
}

/// A user in a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BriefView {
    id: Id,
    nick_name: String,
    icon: String,
}

impl From<Brief> for BriefView {
    fn from(brief: Brief) -> Self {
        BriefView { id: Id(brief.id), nick_name: brief.nick_name, icon: brief.icon }
    }
}

#[derive(Debug, Serialize, ToSchema)]
struct LikeView {
    /// Whether you like it now.
    liked: bool,
    /// Number of likes.
    count: i64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct LikeParam {
    /// The requested state, which makes the request idempotent. If absent, the like is toggled.
    #[param(nullable = false)]
    liked: Option<bool>,
}

/// Like or unlike a note.
#[utoipa::path(put, path = "/blog/like/{id}", tag = "notes", params(("id" = Id, Path), LikeParam),
    security(("token" = [])), responses((status = 200, body = Envelope<LikeView>)))]
async fn like(
    State(app): State<Shared>,
    user: SignedIn,
    PathId(note): PathId,
    Params(asked): Params<LikeParam>,
) -> Answer<LikeView> {
    let wish = match asked.liked {
        None => Wish::Toggle,
        Some(true) => Wish::Like,
        Some(false) => Wish::TakeBack,
    };
    let done = app.notes().like(note, user.id, wish).await?;
    Ok(LikeView { liked: done.liked, count: done.count }.into())
}

/// Return the first users who liked a note: up to five, ordered by time.
#[utoipa::path(get, path = "/blog/likes/{id}", tag = "notes", params(("id" = Id, Path)),
    responses((status = 200, body = Envelope<Vec<BriefView>>)))]
async fn first_likes(State(app): State<Shared>, PathId(note): PathId) -> Answer<Vec<BriefView>> {
    let first = app.notes().first_likes(note).await?;
    Ok(first.into_iter().map(BriefView::from).collect::<Vec<_>>().into())
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct CommentView {
    id: Id,
    user_id: Id,
    blog_id: Id,
    /// Root comment of its thread; 0 for a root comment.
    parent_id: Id,
    /// Comment that it answers; 0 if it answers the note.
    answer_id: Id,
    content: String,
    liked: i64,
    create_time: String,
    /// Name of the author.
    name: String,
    /// Picture of the author.
    icon: String,
}

impl CommentView {
    fn new(comment: Comment, authors: &HashMap<u64, Brief>, zone: &TimeZone) -> Self {
        let author = authors.get(&comment.user_id);
        CommentView {
            id: Id(comment.id),
            user_id: Id(comment.user_id),
            blog_id: Id(comment.blog_id),
            parent_id: Id(comment.parent_id),
            answer_id: Id(comment.answer_id),
            content: comment.content,
            liked: comment.liked,
            create_time: rfc3339(zone, comment.create_time),
            name: author.map(|author| author.nick_name.clone()).unwrap_or_default(),
            icon: author.map(|author| author.icon.clone()).unwrap_or_default(),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
struct ThreadView {
    #[serde(flatten)]
    comment: CommentView,
    /// The first fifty replies, oldest first.
    replies: Vec<CommentView>,
    /// Number of replies; read the others at `/blog/{id}/comments/{root}/replies`.
    #[serde(rename = "replyCount")]
    reply_count: u64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct CommentRequest {
    #[schema(min_length = 1, max_length = 1000, example = "I was there, too.")]
    content: String,
    /// Root comment of the thread.
    #[schema(nullable = false)]
    parent_id: Option<Id>,
    /// Comment in that thread that it answers.
    #[schema(nullable = false)]
    answer_id: Option<Id>,
}

/// Comment on a note.
///
/// Returns the comment's id. A request repeated with the same key adds one comment.
#[utoipa::path(post, path = "/blog/{id}/comments", tag = "notes",
    params(("id" = Id, Path), ("Idempotency-Key" = Option<String>, Header,
        description = "Names the submission, so that it may be repeated for a day")),
    request_body = CommentRequest, security(("token" = [])),
    responses((status = 200, body = Envelope<Id>),
        (status = 409, description = "IDEMPOTENCY_KEY_REUSED with the other comment in `data`",
            body = Refusal<'static>)))]
async fn comment(
    State(app): State<Shared>,
    user: SignedIn,
    PathId(note): PathId,
    Named(key): Named,
    JsonBody(request): JsonBody<CommentRequest>,
) -> Answer<Id> {
    let place = Place {
        parent: request.parent_id.map_or(0, |parent| parent.0),
        answer: request.answer_id.map_or(0, |answer| answer.0),
    };
    let comment = app.notes().comment(note, &user, place, &request.content, key.as_ref()).await?;
    Ok(Id(comment).into())
}

/// Return the comments on a note.
///
/// Ten threads a page, the newest first, each with its first replies.
#[utoipa::path(get, path = "/blog/{id}/comments", tag = "notes",
    params(("id" = Id, Path), PageParam),
    responses((status = 200, body = Envelope<Vec<ThreadView>>)))]
async fn comments(
    State(app): State<Shared>,
    PathId(note): PathId,
    Params(page): Params<PageParam>,
) -> Answer<Vec<ThreadView>> {
    let Threads { threads, total, authors } = app.notes().comments(note, page.number()?).await?;
    let view = |comment| CommentView::new(comment, &authors, &app.config().zone);
    let threads = threads.into_iter().map(|thread| ThreadView {
        comment: view(thread.root),
        replies: thread.replies.into_iter().map(view).collect(),
        reply_count: thread.reply_count,
    });
    Ok(Envelope::page(threads.collect(), total))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct AfterReply {
    /// Id of the last reply on the previous page. Default: start with the oldest replies.
    last_id: Option<Id>,
}

/// Return the replies in a thread.
///
/// Fifty replies a page, the oldest first.
#[utoipa::path(get, path = "/blog/{id}/comments/{root}/replies", tag = "notes",
    params(("id" = Id, Path), ("root" = Id, Path, description = "The comment that they stand under"),
        AfterReply),
    responses((status = 200, body = Envelope<Vec<CommentView>>),
        (status = 404, description = "UNKNOWN_COMMENT", body = Refusal<'static>)))]
async fn replies(
    State(app): State<Shared>,
    path: Result<Path<(String, String)>, PathRejection>,
    Params(after): Params<AfterReply>,
) -> Answer<Vec<CommentView>> {
    let bad = || Failure::from(Error::bad("BAD_ID", "an id is a whole number"));
    let Ok(Path((note, root))) = path else { return Err(bad()) };
    let note = Id::parse(&note).ok_or_else(bad)?;
    let root = Id::parse(&root).ok_or_else(bad)?;
    let last = after.last_id.map(|last| last.0);
    let Replies { replies, total, authors } = app.notes().replies(note.0, root.0, last).await?;
    let view = |comment| CommentView::new(comment, &authors, &app.config().zone);
    Ok(Envelope::page(replies.into_iter().map(view).collect(), total))
}
