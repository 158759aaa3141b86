//! Sessions: the toolkit's, with a row in the database behind each.
//!
//! Redis decides while it answers. When it is away the row is read instead, so that reading goes on.
//! The row is called by the digest of the token, as the session in Redis is: neither store knows a
//! token. It follows a session that is used every [`ROW_EVERY`], and is given that much more time, so
//! that it never ends before the session.
//!
//! A session ends after [`IDLE`] without a request, after [`LONGEST`] in any case, and by logging
//! out. Logging out takes the row first and fails when Redis is away: a session that might come back
//! must not be called ended.
//!
//! What a session says of its user is a copy of the user's row. Whoever changes the row lets the
//! copies follow ([`Sessions::follow`]), and reads the row once more afterwards: of two who do that at
//! once, the one who writes last has read what is there last. A change whose process died before that
//! is noticed when a session slides.

use std::{sync::Arc, time::Duration};

use seawall::{
    Link,
    session::{Fields, Load, Token},
};

use super::{User, store};
use crate::{app::Context, db::Db, error::Result, keys};

/// How long a session lives without a request.
pub const IDLE: Duration = Duration::from_secs(30 * 60);
/// How long a session lives at most.
pub const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often the database's row follows a session that is used.
pub const ROW_EVERY: Duration = Duration::from_secs(5 * 60);
/// How often a session slides in [`IDLE`], at most: once a minute.
const SLIDES: u32 = 30;
/// Sessions of one user at the same time; a further one ends the oldest.
const PER_USER: usize = 100;
/// How often copies are written when the row changes again meanwhile.
const FOLLOW_TRIES: usize = 5;

/// A session's row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) token_hash: String,
    pub(super) user_id: u64,
    pub(super) expires: i64,
    pub(super) until: i64,
}

/// Sessions of everybody.
#[derive(Debug)]
pub(super) struct Sessions {
    sessions: seawall::session::Sessions<u64>,
    link: Link,
    db: Arc<Db>,
}

impl Sessions {
    pub(super) fn new(context: &Context) -> Result<Self> {
        let sessions = context.seawall.sessions(keys::SESSIONS);
        Ok(Sessions {
            sessions: sessions
                .idle(IDLE)
                .longest(LONGEST)
                .slides(SLIDES)
                .per_user(PER_USER)
                .build()?,
            link: context.seawall.link().clone(),
            db: Arc::clone(&context.db),
        })
    }

    /// Opens a session for a user.
    pub(super) async fn open(&self, user: &User) -> Result<Token> {
        let token = self.sessions.open(&user.id, &fields(user)).await?;
        let now = self.link.server_millis();
        let row = Row {
            token_hash: token.id().as_str().to_owned(),
            user_id: user.id,
            expires: now + millis(IDLE + ROW_EVERY),
            until: now + millis(LONGEST),
        };
        // Without a row nobody gets the token, and the session ends by itself.
        store::insert_session(&self.db, &row, now).await?;
        // A change since the user was read has looked for sessions before this one was there.
        if store::by_id(&self.db, user.id).await?.as_ref() != Some(user) {
            self.follow(user.id).await?;
        }
        Ok(token)
    }

    /// The user of a session, which slides by this; `None` when there is none (any more).
    pub(super) async fn load(&self, token: &Token) -> Result<Option<User>> {
        match self.sessions.load(token).await {
            Ok(Load::Unknown) => Ok(None),
            Ok(Load::Found(mut session)) => {
                let mut field = |name| session.fields.remove(name).unwrap_or_default();
                let user = User {
                    nick_name: field(NICK_NAME),
                    icon: field(ICON),
                    role: field(ROLE),
                    id: session.user,
                };
                if session.slid
                    && let Err(error) = self.slid(token, &user).await
                {
                    // The request goes on without: the row only matters when Redis is away.
                    tracing::warn!(%error, "a session's row did not follow");
                }
                Ok(Some(user))
            }
            Err(error) if error.is_away() => {
                tracing::debug!(%error, "a session is read from the database");
                let now = self.link.server_millis();
                let row = store::session(&self.db, token.id().as_str(), now).await?;
                Ok(row.map(|(user, _)| user))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Lets the row follow the session, and the session its user.
    async fn slid(&self, token: &Token, copy: &User) -> Result<()> {
        let (id, now) = (token.id(), self.link.server_millis());
        let Some((user, expires)) = store::session(&self.db, id.as_str(), now).await? else {
            return Ok(());
        };
        if expires < now + millis(IDLE) {
            let expires = now + millis(IDLE + ROW_EVERY);
            store::slide_session(&self.db, id.as_str(), expires, now).await?;
        }
        if user != *copy {
            self.follow(user.id).await?;
        }
        Ok(())
    }

    /// Lets every session of a user say what the user's row says.
    pub(super) async fn follow(&self, user: u64) -> Result<()> {
        let Some(mut row) = store::by_id(&self.db, user).await? else { return Ok(()) };
        for _ in 0..FOLLOW_TRIES {
            self.sessions.replace_all(&user, &fields(&row)).await?;
            match store::by_id(&self.db, user).await? {
                Some(newer) if newer != row => row = newer,
                _ => break,
            }
        }
        Ok(())
    }

    /// Ends a session.
    pub(super) async fn close(&self, token: &Token) -> Result<()> {
        store::delete_session(&self.db, token.id().as_str()).await?;
        // Whether it was there is no matter: it is not any more.
        let _ = self.sessions.revoke(token).await?;
        Ok(())
    }
}

const NICK_NAME: &str = "nickName";
const ICON: &str = "icon";
const ROLE: &str = "role";

fn fields(user: &User) -> Fields {
    let fields = [(NICK_NAME, &user.nick_name), (ICON, &user.icon), (ROLE, &user.role)];
    fields.map(|(name, value)| (name.to_owned(), value.clone())).into()
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
