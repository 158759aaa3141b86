//! Routes for uploads.

use axum::{
    extract::{
        DefaultBodyLimit, Multipart, Path, State,
        multipart::{Field, MultipartError, MultipartRejection},
        rejection::PathRejection,
    },
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::MAX_BYTES;
use crate::{
    app::Shared,
    error::Error,
    http::{Answer, Envelope, Failure, SignedIn},
};

/// Allowance for the form data around the picture.
const FORM_BYTES: usize = 64 * 1024;
/// Maximum fields of a form.
const MAX_FIELDS: usize = 16;
/// The content of a name never changes: browsers need not ask again.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(upload))
        .layer(DefaultBodyLimit::max(MAX_BYTES + FORM_BYTES))
        .routes(routes!(show))
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a form that is read field by field")]
struct UploadForm {
    /// A PNG, JPEG, GIF or WebP file of up to 5 MiB.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}

/// Upload a picture.
///
/// Returns the path of the picture. Limited to sixty uploads an hour.
#[utoipa::path(post, path = "/upload/image", tag = "uploads", security(("token" = [])),
    request_body(content = UploadForm, content_type = "multipart/form-data"),
    responses((status = 200, body = Envelope<String>)))]
async fn upload(
    State(app): State<Shared>,
    user: SignedIn,
    form: Result<Multipart, MultipartRejection>,
) -> Answer<String> {
    app.uploads().admit(user.id).await?;
    let form = form.map_err(|error| Error::bad("BAD_BODY", error.body_text()))?;
    let picture = the_file(form).await?;
    Ok(app.uploads().keep(picture).await?.into())
}

/// Returns the single field `file` of a form. Reads the form to its end, so that a truncated one is
/// noticed.
async fn the_file(mut form: Multipart) -> Result<Vec<u8>, Failure> {
    let mut file = None;
    let mut fields = 0;
    while let Some(field) = form.next_field().await.map_err(|error| unread(&error))? {
        fields += 1;
        if fields > MAX_FIELDS {
            return Err(Error::bad("BAD_BODY", "the form has too many fields").into());
        }
        let is_file = field.name() == Some("file");
        let bytes = contents(field).await?;
        if is_file && file.replace(bytes).is_some() {
            return Err(Error::bad("BAD_BODY", "the form has more than one file").into());
        }
    }
    file.ok_or_else(|| Error::bad("BAD_BODY", "the form has no field called file").into())
}

async fn contents(mut field: Field<'_>) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = field.chunk().await.map_err(|error| unread(&error))? {
        if bytes.len() + chunk.len() > MAX_BYTES {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn too_large() -> Failure {
    let msg = "a picture has up to 5 MB".to_owned();
    Failure::Http(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", msg)
}

fn unread(error: &MultipartError) -> Failure {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return too_large();
    }
    Error::bad("BAD_BODY", "the form could not be read to its end").into()
}

/// Return an uploaded picture.
#[utoipa::path(get, path = "/uploads/{folder}/{name}", tag = "uploads",
    params(("folder" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "The picture.",
        content((String = "image/png"), (String = "image/jpeg"), (String = "image/gif"),
            (String = "image/webp")))))]
async fn show(
    State(app): State<Shared>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, Failure> {
    // A path that is not text names no picture.
    let (folder, name) = path.map(|Path(both)| both).unwrap_or_default();
    let picture = app.uploads().find(&folder, &name).await?;
    let mut response = picture.bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(picture.media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(FOR_EVER));
    Ok(response)
}
