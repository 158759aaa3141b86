//! Routes for notes. The author is always the session's user.

#![expect(unused_qualifications, reason = "the macro that describes routes writes them")]

use axum::extract::State;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Draft, View, draft::no_image};
use crate::{
    app::Shared,
    http::{
        Answer, Envelope, Id, JsonBody, MaybeSignedIn, Named, Nothing, PageParam, Params, PathId,
        Refusal, SignedIn,
    },
    zone::rfc3339,
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(post))
        .routes(routes!(hot))
        .routes(routes!(of_me))
        .routes(routes!(of_user))
        .routes(routes!(of_shop))
        .routes(routes!(read, delete))
        .merge(super::comment_http::routes())
}

/// A note as the viewer sees it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NoteView {
    id: Id,
    shop_id: Id,
    user_id: Id,
    title: String,
    /// Paths, separated by commas.
    images: String,
    content: String,
    liked: i64,
    comments: i64,
    create_time: String,
    update_time: String,
    /// Name of the author.
    name: String,
    /// Picture of the author.
    icon: String,
    /// Whether the viewer likes it.
    is_like: bool,
}

impl NoteView {
    pub(crate) fn new(view: &View, zone: &TimeZone) -> Self {
        let note = &view.note;
        NoteView {
            id: Id(note.id),
            shop_id: Id(note.shop_id),
            user_id: Id(note.user_id),
            title: note.title.clone(),
            images: note.images.clone(),
            content: note.content.clone(),
            liked: note.liked,
            comments: note.comments,
            create_time: rfc3339(zone, note.create_time),
            update_time: rfc3339(zone, note.update_time),
            name: view.name.clone(),
            icon: view.icon.clone(),
            is_like: view.is_like,
        }
    }

    pub(crate) fn all(views: &[View], zone: &TimeZone) -> Vec<Self> {
        views.iter().map(|view| NoteView::new(view, zone)).collect()
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NoteRequest {
    /// Shop that the note is about, if any.
    #[schema(nullable = false)]
    shop_id: Option<Id>,
    #[schema(min_length = 1, max_length = 100, example = "A bowl by the quay")]
    title: String,
    #[serde(default)]
    images: Images,
    #[schema(min_length = 1, max_length = 4000, example = "The broth alone is worth the walk.")]
    content: String,
}

/// Up to nine paths returned by uploads: a list, or one string separated by commas.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
enum Images {
    List(Vec<String>),
    Text(String),
}

impl Default for Images {
    fn default() -> Self {
        Images::List(Vec::new())
    }
}

impl Images {
    fn paths(self) -> Vec<String> {
        match self {
            Images::List(paths) => paths,
            Images::Text(text) if text.is_empty() => Vec::new(),
            Images::Text(text) => text.split(',').map(|path| path.trim().to_owned()).collect(),
        }
    }
}

/// Publish a note.
///
/// Returns its id. A repeated request makes one note: it is recognised by the `Idempotency-Key`, or
/// by its content within a minute.
#[utoipa::path(post, path = "/blog", tag = "notes", request_body = NoteRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Names the submission; 1 to 64 printable characters")),
    security(("token" = [])),
    responses((status = 200, body = Envelope<Id>),
        (status = 404, description = "UNKNOWN_SHOP", body = Refusal<'static>),
        (status = 409, description = "ALREADY_SUBMITTED", body = Refusal<'static>)))]
async fn post(
    State(app): State<Shared>,
    user: SignedIn,
    Named(key): Named,
    JsonBody(request): JsonBody<NoteRequest>,
) -> Answer<Id> {
    let shop = request.shop_id.map(|shop| shop.0).filter(|shop| *shop != 0);
    if let Some(shop) = shop {
        app.shops().read(shop).await?;
    }
    let images = request.images.paths();
    let draft = Draft::new(user.id, &request.title, &images, &request.content, shop)?;
    for path in &images {
        if !app.uploads().shows(path).await? {
            return Err(no_image().into());
        }
    }
    Ok(Id(app.notes().post(&draft, key.as_ref()).await?).into())
}

/// Return one note.
#[utoipa::path(get, path = "/blog/{id}", tag = "notes", params(("id" = Id, Path)),
    responses((status = 200, body = Envelope<NoteView>)))]
async fn read(
    State(app): State<Shared>,
    MaybeSignedIn(viewer): MaybeSignedIn,
    PathId(note): PathId,
) -> Answer<NoteView> {
    let view = app.notes().read(note, viewer.map(|user| user.id)).await?;
    Ok(NoteView::new(&view, &app.config().zone).into())
}

/// Delete a note.
///
/// Only for its author or an admin.
#[utoipa::path(delete, path = "/blog/{id}", tag = "notes", params(("id" = Id, Path)),
    security(("token" = [])),
    responses((status = 200, body = Envelope<Nothing>),
        (status = 403, description = "It belongs to another user.", body = Refusal<'static>)))]
async fn delete(
    State(app): State<Shared>,
    user: SignedIn,
    PathId(note): PathId,
) -> Answer<Nothing> {
    app.notes().delete(note, &user).await?;
    Ok(Nothing.into())
}

/// Return the most liked notes.
#[utoipa::path(get, path = "/blog/hot", tag = "notes", params(PageParam),
    responses((status = 200, body = Envelope<Vec<NoteView>>)))]
async fn hot(
    State(app): State<Shared>,
    MaybeSignedIn(viewer): MaybeSignedIn,
    Params(page): Params<PageParam>,
) -> Answer<Vec<NoteView>> {
    let views = app.notes().hot(page.number()?, viewer.map(|user| user.id)).await?;
    Ok(NoteView::all(&views, &app.config().zone).into())
}

/// Return your own notes, newest first.
#[utoipa::path(get, path = "/blog/of/me", tag = "notes", params(PageParam), security(("token" = [])),
    responses((status = 200, body = Envelope<Vec<NoteView>>)))]
async fn of_me(
    State(app): State<Shared>,
    user: SignedIn,
    Params(page): Params<PageParam>,
) -> Answer<Vec<NoteView>> {
    let (views, total) = app.notes().of_user(user.id, page.number()?, Some(user.id)).await?;
    Ok(Envelope::page(NoteView::all(&views, &app.config().zone), total))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct OfUser {
    /// The author.
    id: Id,
}

/// Return the notes of a user, newest first.
#[utoipa::path(get, path = "/blog/of/user", tag = "notes", params(OfUser, PageParam),
    responses((status = 200, body = Envelope<Vec<NoteView>>)))]
async fn of_user(
    State(app): State<Shared>,
    MaybeSignedIn(viewer): MaybeSignedIn,
    Params(author): Params<OfUser>,
    Params(page): Params<PageParam>,
) -> Answer<Vec<NoteView>> {
    let viewer = viewer.map(|user| user.id);
    let (views, total) = app.notes().of_user(author.id.0, page.number()?, viewer).await?;
    Ok(Envelope::page(NoteView::all(&views, &app.config().zone), total))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
struct OfShop {
    /// The shop.
    shop_id: Id,
}

/// Return the notes about a shop, newest first.
#[utoipa::path(get, path = "/blog/of/shop", tag = "notes", params(OfShop, PageParam),
    responses((status = 200, body = Envelope<Vec<NoteView>>)))]
async fn of_shop(
    State(app): State<Shared>,
    MaybeSignedIn(viewer): MaybeSignedIn,
    Params(shop): Params<OfShop>,
    Params(page): Params<PageParam>,
) -> Answer<Vec<NoteView>> {
    let viewer = viewer.map(|user| user.id);
    let (views, total) = app.notes().of_shop(shop.shop_id.0, page.number()?, viewer).await?;
    Ok(Envelope::page(NoteView::all(&views, &app.config().zone), total))
}
