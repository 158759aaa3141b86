//! Route of pictures.

use axum::{
    extract::{Path, rejection::PathRejection},
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{app::Shared, error::Error, http::Failure};

/// A new version may draw better pictures, so browsers ask again after a day.
const FOR_A_DAY: &str = "public, max-age=86400";

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(picture))
}

/// Return a picture that the service draws.
///
/// `kind` is `shop`, `user`, `goods`, `note` or `type`; `file` is `ID.svg`.
#[utoipa::path(get, path = "/pictures/{kind}/{file}", tag = "uploads",
    params(("kind" = String, Path, example = "shop"), ("file" = String, Path, example = "1.svg")),
    responses((status = 200, description = "The picture.", content_type = "image/svg+xml",
        body = String)))]
async fn picture(path: Result<Path<(String, String)>, PathRejection>) -> Result<Response, Failure> {
    // A path that is not text names no picture.
    let (kind, file) = path.map(|Path(both)| both).unwrap_or_default();
    let (kind, id) = super::named(&kind, &file)
        .ok_or_else(|| Error::not_found("UNKNOWN_PICTURE", "no such picture"))?;
    let mut response = super::draw(kind, id).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("image/svg+xml"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(FOR_A_DAY));
    Ok(response)
}
