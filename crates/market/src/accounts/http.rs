//! Routes of login and session.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::Phone;
use crate::{
    app::Shared,
    http::{Answer, ClientIp, Envelope, FormBody, Id, JsonBody, Nothing, Shown, SignedIn},
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(send_code))
        .routes(routes!(log_in))
        .routes(routes!(me))
        .routes(routes!(log_out))
}

#[derive(Debug, Deserialize, ToSchema)]
struct CodeRequest {
    /// Eleven digits.
    #[schema(pattern = "^[0-9]{11}$", example = "10000000001")]
    phone: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct CodeView {
    code: String,
}

/// Send a login code to a phone; in echo mode it is also in the answer.
#[utoipa::path(post, path = "/user/code", tag = "accounts",
    request_body(content = CodeRequest, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, body = Envelope<Option<CodeView>>)))]
async fn send_code(
    State(app): State<Shared>,
    ClientIp(from): ClientIp,
    FormBody(request): FormBody<CodeRequest>,
) -> Answer<Option<CodeView>> {
    let phone = Phone::parse(&request.phone)?;
    let code = app.accounts().send_code(&phone, from).await?;
    Ok(code.map(|code| CodeView { code }).into())
}

#[derive(Deserialize, ToSchema)]
struct LoginRequest {
    #[schema(example = "10000000001")]
    phone: String,
    code: String,
}

/// Log in with a code: the token of a new session.
#[utoipa::path(post, path = "/user/login", tag = "accounts", request_body = LoginRequest,
    responses((status = 200, body = Envelope<String>)))]
async fn log_in(
    State(app): State<Shared>,
    JsonBody(request): JsonBody<LoginRequest>,
) -> Answer<String> {
    let phone = Phone::parse(&request.phone)?;
    let token = app.accounts().log_in(&phone, &request.code).await?;
    Ok(token.as_str().to_owned().into())
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct UserView {
    id: Id,
    nick_name: String,
    icon: String,
    role: String,
}

/// Who is logged in.
#[utoipa::path(get, path = "/user/me", tag = "accounts", security(("token" = [])),
    responses((status = 200, body = Envelope<UserView>)))]
async fn me(user: SignedIn) -> Answer<UserView> {
    let user = user.0;
    let view =
        UserView { id: Id(user.id), nick_name: user.nick_name, icon: user.icon, role: user.role };
    Ok(view.into())
}

/// End this session.
#[utoipa::path(post, path = "/user/logout", tag = "accounts", security(("token" = [])),
    responses((status = 200, body = Envelope<Nothing>)))]
async fn log_out(
    State(app): State<Shared>,
    _user: SignedIn,
    Shown(token): Shown,
) -> Answer<Nothing> {
    app.accounts().log_out(&token).await?;
    Ok(Nothing.into())
}
