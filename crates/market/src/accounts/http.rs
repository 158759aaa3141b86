//! Routes for login, session and profile.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Change, Gender, Phone, Profile, User, change::no_icon};
use crate::{
    app::Shared,
    http::{Answer, ClientIp, Envelope, FormBody, Id, JsonBody, Nothing, PathId, Shown, SignedIn},
    zone::rfc3339,
};

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(send_code))
        .routes(routes!(log_in))
        .routes(routes!(me, change))
        .routes(routes!(log_out))
        .routes(routes!(read))
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

/// Send a login code to a phone.
///
/// In echo mode the response also contains the code.
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

/// Log in with a code.
///
/// Returns the token of a new session.
#[utoipa::path(post, path = "/user/login", tag = "accounts", request_body = LoginRequest,
    responses((status = 200, body = Envelope<String>)))]
async fn log_in(
    State(app): State<Shared>,
    JsonBody(request): JsonBody<LoginRequest>,
) -> Answer<String> {
    let phone = Phone::parse(&request.phone)?;
    let token = app.accounts().log_in(&phone, &request.code).await?;
    Ok(token.reveal().to_owned().into())
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct UserView {
    id: Id,
    nick_name: String,
    icon: String,
    role: String,
}

/// Return the logged-in user.
#[utoipa::path(get, path = "/user/me", tag = "accounts", security(("token" = [])),
    responses((status = 200, body = Envelope<UserView>)))]
async fn me(State(app): State<Shared>, user: SignedIn) -> Answer<UserView> {
    let User { id, nick_name, icon, role } = app.accounts().current(user.0).await?;
    Ok(UserView { id: Id(id), nick_name, icon, role }.into())
}

/// Log out: end this session.
///
/// 503 means that the session may still be alive; repeat the request.
#[utoipa::path(post, path = "/user/logout", tag = "accounts", security(("token" = [])),
    responses((status = 200, body = Envelope<Nothing>)))]
async fn log_out(State(app): State<Shared>, Shown(token): Shown) -> Answer<Nothing> {
    app.accounts().log_out(&token).await?;
    Ok(Nothing.into())
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ProfileView {
    id: Id,
    nick_name: String,
    icon: String,
    city: String,
    introduce: String,
    /// Number of followers.
    fans: i64,
    /// Number of users that this user follows.
    followee: i64,
    /// 0: not specified, 1: male, 2: female.
    gender: i64,
    /// For example `1990-12-31`.
    birthday: Option<String>,
    credits: i64,
    level: i64,
    create_time: String,
}

impl ProfileView {
    fn new(app: &Shared, profile: &Profile) -> Self {
        ProfileView {
            id: Id(profile.id),
            nick_name: profile.nick_name.clone(),
            icon: profile.icon.clone(),
            city: profile.city.clone(),
            introduce: profile.introduce.clone(),
            fans: profile.fans,
            followee: profile.followee,
            gender: profile.gender,
            birthday: profile.birthday.clone(),
            credits: profile.credits,
            level: profile.level,
            create_time: rfc3339(&app.config().zone, profile.create_time),
        }
    }
}

/// Return the public profile of a user.
#[utoipa::path(get, path = "/user/{id}", tag = "accounts", params(("id" = Id, Path)),
    responses((status = 200, body = Envelope<ProfileView>)))]
async fn read(State(app): State<Shared>, PathId(id): PathId) -> Answer<ProfileView> {
    let profile = app.accounts().profile(id).await?;
    Ok(ProfileView::new(&app, &profile).into())
}

/// Fields that are absent are not changed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ProfileChange {
    /// 1 to 32 characters.
    #[schema(example = "Ada")]
    nick_name: Option<String>,
    /// A path returned by `POST /upload/image`, or empty.
    icon: Option<String>,
    /// At most 64 characters.
    city: Option<String>,
    /// At most 128 characters.
    introduce: Option<String>,
    /// 0: not specified, 1: male, 2: female.
    gender: Option<i64>,
    /// A date in the past, such as `1990-12-31`, or empty to clear it.
    birthday: Option<String>,
}

impl ProfileChange {
    fn check(&self, app: &Shared) -> crate::Result<Change> {
        let mut change = Change::default();
        if let Some(name) = &self.nick_name {
            change = change.nick_name(name)?;
        }
        if let Some(path) = &self.icon {
            change = change.icon(path)?;
        }
        if let Some(city) = &self.city {
            change = change.city(city)?;
        }
        if let Some(words) = &self.introduce {
            change = change.introduce(words)?;
        }
        if let Some(number) = self.gender {
            change = change.gender(Gender::parse(number)?);
        }
        if let Some(day) = &self.birthday {
            change = change.birthday(day, app.today())?;
        }
        Ok(change)
    }
}

/// Change your own profile.
#[utoipa::path(put, path = "/user/me", tag = "accounts", security(("token" = [])),
    request_body = ProfileChange, responses((status = 200, body = Envelope<ProfileView>)))]
async fn change(
    State(app): State<Shared>,
    user: SignedIn,
    JsonBody(request): JsonBody<ProfileChange>,
) -> Answer<ProfileView> {
    let change = request.check(&app)?;
    if let Some(path) = request.icon.as_deref().filter(|path| !path.is_empty())
        && !app.uploads().shows(path).await?
    {
        return Err(no_icon().into());
    }
    let profile = app.accounts().change(user.id, &change).await?;
    Ok(ProfileView::new(&app, &profile).into())
}
