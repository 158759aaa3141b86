//! Accounts: login by code, sessions and profiles.
//!
//! A phone that logs in for the first time is registered. If two first logins of one phone run
//! concurrently, the unique key on the phone decides.

mod change;
pub mod codes;
pub(crate) mod http;
pub(crate) mod jobs;
mod profile;
mod session_store;
pub mod sessions;
mod sms;
mod store;
mod strangers;

use std::{collections::HashMap, fmt, net::IpAddr, sync::Arc};

use rand::{RngExt as _, distr::Alphanumeric};
pub use seawall::session::Token;
use seawall::{
    Seawall,
    cache::{Freshness, Invalidation},
};

pub use self::{
    change::{Change, Gender},
    codes::Codes,
    profile::{Brief, Profile},
    sms::{LogSender, Sending, SmsSender},
};
use self::{
    profile::Profiles,
    sessions::{Sessions, Visit},
};
use crate::{
    app::Context,
    db::Db,
    debts::{Debt, Debts, settle::applied},
    error::{Error, Result},
};

/// Number of digits in a phone number.
const PHONE_DIGITS: usize = 11;
/// Role that may change data of the whole market.
const ADMIN: &str = "admin";
/// Random characters in the initial name of a user.
const NAME_CHARS: usize = 10;

/// Phone number of eleven digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Phone(String);

impl Phone {
    /// Parses a phone number.
    ///
    /// # Errors
    /// [`Error::BadInput`] if it is not eleven digits.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() == PHONE_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Phone(text.to_owned()));
        }
        Err(Error::bad("INVALID_PHONE", "phone is eleven digits"))
    }

    /// Returns the digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Phone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Data of a logged-in user; contains no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Id.
    pub id: u64,
    /// Public name.
    pub nick_name: String,
    /// Path of a picture; empty if there is none.
    pub icon: String,
    /// `user`, `merchant` or `admin`.
    pub role: String,
}

/// Login, sessions and profiles.
#[derive(Debug)]
pub struct Accounts {
    seawall: Seawall,
    db: Arc<Db>,
    debts: Debts,
    codes: Codes,
    sessions: Sessions,
    profiles: Profiles,
    admin_phone: Option<Phone>,
    ids: seawall::id::Ids,
}

impl Accounts {
    pub(crate) fn new(context: &Context, sender: Arc<dyn SmsSender>) -> Result<Self> {
        let Context { config, seawall, db, .. } = context;
        Ok(Accounts {
            codes: Codes::new(seawall, sender, config.sms, config.code_ip_hourly)?,
            sessions: Sessions::new(context)?,
            profiles: Profiles::new(context)?,
            admin_phone: config.admin_phone.clone(),
            ids: seawall.ids("user").build()?,
            seawall: seawall.clone(),
            db: Arc::clone(db),
            debts: context.debts.clone(),
        })
    }

    /// Sends a login code; see [`Codes::send`].
    ///
    /// # Errors
    /// As [`Codes::send`].
    pub async fn send_code(&self, phone: &Phone, from: IpAddr) -> Result<Option<String>> {
        self.codes.send(phone, from).await
    }

    /// Consumes a code and opens a session.
    ///
    /// The owner of the configured admin phone becomes an admin at this point.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the code is wrong or no longer valid.
    pub async fn log_in(&self, phone: &Phone, code: &str) -> Result<Token> {
        self.codes.take(phone, code).await?;
        let mut user = match store::by_phone(&self.db, phone).await? {
            Some(user) => user,
            None => self.register(phone).await?,
        };
        if self.admin_phone.as_ref() == Some(phone) && user.role != ADMIN {
            let now = self.seawall.client().server_millis();
            store::set_role(&self.db, user.id, ADMIN, now).await?;
            // Open sessions of this user get the admin role as well.
            self.sessions.follow(user.id).await?;
            user.role = ADMIN.to_owned();
        }
        self.sessions.open(&user).await
    }

    async fn register(&self, phone: &Phone) -> Result<User> {
        let name: String =
            rand::rng().sample_iter(Alphanumeric).take(NAME_CHARS).map(char::from).collect();
        let user = User {
            id: self.ids.next().await?.as_u64(),
            nick_name: format!("user_{name}"),
            icon: String::new(),
            role: "user".to_owned(),
        };
        let now = self.seawall.client().server_millis();
        if store::register(&self.db, &user, phone, now).await? {
            return Ok(user);
        }
        let first = store::by_phone(&self.db, phone).await?;
        first.ok_or_else(|| Error::Internal(format!("{phone} is taken, but no user has it")))
    }

    /// Returns the user of a session and extends the session.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if neither Redis nor the database can answer, and for a session whose
    /// log-out waits for Redis: it may still be alive in another process.
    pub async fn visitor(&self, token: &Token) -> Result<Option<User>> {
        match self.sessions.load(token).await? {
            Visit::User(user) => Ok(Some(user)),
            Visit::Nobody => Ok(None),
            Visit::Ending => Err(Error::Unavailable {
                what: "sessions",
                cause: "a log-out waits for Redis".to_owned(),
            }),
        }
    }

    /// Ends a session.
    ///
    /// Safe to repeat until it succeeds.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the session may still be alive in another process,
    /// [`Error::NotLoggedIn`] if there is no such session.
    pub async fn log_out(&self, token: &Token) -> Result<()> {
        match self.sessions.load(token).await? {
            Visit::User(_) | Visit::Ending => self.sessions.close(token).await,
            Visit::Nobody => Err(Error::NotLoggedIn),
        }
    }

    /// Returns the public profile of a user.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such user.
    pub async fn profile(&self, user: u64) -> Result<Arc<Profile>> {
        self.profiles.read(user, Freshness::Cached).await
    }

    /// Returns the current data of a user.
    ///
    /// The copy in the session follows a profile change with a delay; this method reads the profile
    /// itself.
    ///
    /// # Errors
    /// [`Error::NotLoggedIn`] if the user no longer exists.
    pub async fn current(&self, user: User) -> Result<User> {
        let profile = self.profiles.read(user.id, Freshness::Strong).await.map_err(gone)?;
        Ok(User { nick_name: profile.nick_name.clone(), icon: profile.icon.clone(), ..user })
    }

    /// Changes a user's own profile.
    ///
    /// # Errors
    /// As [`Accounts::current`].
    pub async fn change(&self, user: u64, change: &Change) -> Result<Arc<Profile>> {
        let now = self.seawall.client().server_millis();
        let told = self.profiles.change(user, change, now).await.map_err(gone)?;
        let followed = self.sessions.follow(user).await;
        if let Err(error) = &followed {
            tracing::warn!(%error, "sessions show an old name for a while");
        }
        if told == Invalidation::Queued || followed.is_err() {
            self.debts.owe(&[Debt::Profile(user)]).await?;
        }
        self.profiles.read(user, Freshness::Strong).await.map_err(gone)
    }

    /// Returns names and pictures of many users through the cache; users that do not exist are
    /// omitted.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if neither Redis nor the database can answer.
    pub async fn brief(&self, users: impl IntoIterator<Item = u64>) -> Result<HashMap<u64, Brief>> {
        self.profiles.briefs(users).await
    }

    /// Drops the cached data of these users.
    ///
    /// Call it after a commit that changed rows of `user` or `user_info`, such as follower counts.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if neither Redis nor the database accepts the update.
    pub async fn changed(&self, users: &[u64]) -> Result<()> {
        let told = self.profiles.changed(users).await?;
        let debts: Vec<Debt> = users.iter().map(|user| Debt::Profile(*user)).collect();
        self.debts.unless_applied(told, &debts).await
    }

    /// Drops copies of a user's row that missed a change.
    pub(crate) async fn settle(&self, user: u64) -> Result<()> {
        applied(self.profiles.changed(&[user]).await?)?;
        self.sessions.follow(user).await
    }
}

/// Treats a session whose user is gone as not logged in.
fn gone(error: Error) -> Error {
    match error {
        Error::NotFound { .. } => Error::NotLoggedIn,
        error => error,
    }
}
