//! Routes of login and session.

use axum::{
    Router,
    extract::State,
    routing::{get, post},
};
use serde::{Deserialize, Serialize};

use super::Phone;
use crate::{
    app::Shared,
    http::{Answer, ClientIp, FormBody, Id, JsonBody, Shown, SignedIn},
};

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/user/code", post(send_code))
        .route("/user/login", post(log_in))
        .route("/user/me", get(me))
        .route("/user/logout", post(log_out))
}

#[derive(Debug, Deserialize)]
struct CodeRequest {
    phone: String,
}

#[derive(Debug, Serialize)]
struct CodeView {
    code: String,
}

async fn send_code(
    State(app): State<Shared>,
    ClientIp(from): ClientIp,
    FormBody(request): FormBody<CodeRequest>,
) -> Answer<Option<CodeView>> {
    let phone = Phone::parse(&request.phone)?;
    let code = app.accounts().send_code(&phone, from).await?;
    Ok(code.map(|code| CodeView { code }).into())
}

#[derive(Deserialize)]
struct LoginRequest {
    phone: String,
    code: String,
}

async fn log_in(
    State(app): State<Shared>,
    JsonBody(request): JsonBody<LoginRequest>,
) -> Answer<String> {
    let phone = Phone::parse(&request.phone)?;
    let token = app.accounts().log_in(&phone, &request.code).await?;
    Ok(token.as_str().to_owned().into())
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct UserView {
    id: Id,
    nick_name: String,
    icon: String,
    role: String,
}

async fn me(user: SignedIn) -> Answer<UserView> {
    let user = user.0;
    let view =
        UserView { id: Id(user.id), nick_name: user.nick_name, icon: user.icon, role: user.role };
    Ok(view.into())
}

async fn log_out(State(app): State<Shared>, _user: SignedIn, Shown(token): Shown) -> Answer<()> {
    app.accounts().log_out(&token).await?;
    Ok(().into())
}
