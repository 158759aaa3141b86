//! Who somebody is: login by code, sessions, and what they tell of themselves.
//!
//! A phone that logs in for the first time registers itself. The unique key on the phone decides
//! between two first logins at the same time.

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

/// Digits of a phone number.
const PHONE_DIGITS: usize = 11;
/// The role that may change what belongs to the whole market.
const ADMIN: &str = "admin";
/// Random characters of a first name.
const NAME_CHARS: usize = 10;

/// A phone number: eleven digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Phone(String);

impl Phone {
    /// Checks a phone number.
    ///
    /// # Errors
    /// [`Error::BadInput`] when it is not eleven digits.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() == PHONE_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Phone(text.to_owned()));
        }
        Err(Error::bad("INVALID_PHONE", "phone is eleven digits"))
    }

    /// The digits.
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

/// What is known of somebody who is logged in; nothing here is secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Id.
    pub id: u64,
    /// Name that others see.
    pub nick_name: String,
    /// Path of a picture, or nothing.
    pub icon: String,
    /// `user`, `merchant` or `admin`.
    pub role: String,
}

/// Login, sessions and what stands behind them.
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

    /// Uses a code up and opens a session. The owner of the phone that the settings name is an admin
    /// from here on.
    ///
    /// # Errors
    /// [`Error::BadInput`] when the code is wrong or gone.
    pub async fn log_in(&self, phone: &Phone, code: &str) -> Result<Token> {
        self.codes.take(phone, code).await?;
        let mut user = match store::by_phone(&self.db, phone).await? {
            Some(user) => user,
            None => self.register(phone).await?,
        };
        if self.admin_phone.as_ref() == Some(phone) && user.role != ADMIN {
            let now = self.seawall.client().server_millis();
            store::set_role(&self.db, user.id, ADMIN, now).await?;
            // Sessions that are open are an admin's as well.
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
        first.ok_or_else(|| Error::Internal(format!("{phone} is taken, but by nobody")))
    }

    /// The user of a session, which slides by this.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when neither Redis nor the database can tell, and for a session whose
    /// log-out waits for Redis: it may still be alive somewhere.
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

    /// Ends a session. May be repeated until it went well.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it may still be alive somewhere, [`Error::NotLoggedIn`] when there
    /// is none.
    pub async fn log_out(&self, token: &Token) -> Result<()> {
        match self.sessions.load(token).await? {
            Visit::User(_) | Visit::Ending => self.sessions.close(token).await,
            Visit::Nobody => Err(Error::NotLoggedIn),
        }
    }

    /// What anybody may know of a user.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn profile(&self, user: u64) -> Result<Arc<Profile>> {
        self.profiles.read(user, Freshness::Cached).await
    }

    /// A user as of now: a session's copy of the name follows a change, this is ahead of it.
    ///
    /// # Errors
    /// [`Error::NotLoggedIn`] for somebody who does not exist any more.
    pub async fn current(&self, user: User) -> Result<User> {
        let profile = self.profiles.read(user.id, Freshness::Strong).await.map_err(gone)?;
        Ok(User { nick_name: profile.nick_name.clone(), icon: profile.icon.clone(), ..user })
    }

    /// Changes what a user tells of themselves.
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

    /// Names and pictures of many users at once, through the cache; who does not exist is left out.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when neither Redis nor the database can tell.
    pub async fn brief(&self, users: impl IntoIterator<Item = u64>) -> Result<HashMap<u64, Brief>> {
        self.profiles.briefs(users).await
    }

    /// To be called after a commit that changed rows of `user` or `user_info`, such as the numbers
    /// of fans: what is cached of these users is dropped.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when neither Redis nor the database can be told.
    pub async fn changed(&self, users: &[u64]) -> Result<()> {
        let told = self.profiles.changed(users).await?;
        let debts: Vec<Debt> = users.iter().map(|user| Debt::Profile(*user)).collect();
        self.debts.unless_applied(told, &debts).await
    }

    /// Throws copies of a user's row away that could not follow.
    pub(crate) async fn settle(&self, user: u64) -> Result<()> {
        applied(self.profiles.changed(&[user]).await?)?;
        self.sessions.follow(user).await
    }
}

/// A session whose user is gone is nobody's.
fn gone(error: Error) -> Error {
    match error {
        Error::NotFound { .. } => Error::NotLoggedIn,
        error => error,
    }
}
