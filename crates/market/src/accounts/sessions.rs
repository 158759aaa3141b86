//! Sessions: the toolkit's, with a row in the database behind each.
//!
//! Redis decides while it answers. When it is away the row is read instead, so that reading goes on.
//! The row is called by the digest of the token, as the session in Redis is: neither store knows a
//! token. It follows a session that is used every [`ROW_EVERY`], and is given that much more time, so
//! that it never ends before the session.
//!
//! A session ends after [`IDLE`] without a request, after [`LONGEST`] in any case, and by logging
//! out. Logging out puts a note in the place of the row, then tells Redis, then takes the note away. It
//! fails when Redis is away, and while there is a note nobody calls the session ended: it might still
//! work at somebody who can ask Redis. Whoever repeats the request, or a job, tells Redis later.
//!
//! A session that Redis does not know may have been lost there. Its row then brings it back, with the
//! end that it had: unless it might have ended for want of requests, which the row knows less exactly.
//! Redis keeps a mark for [`BARRED`] of those that were logged out, so that nobody who has read the row
//! before brings one back. Looks at rows are bounded ([`Strangers`], [`LOOKS`]): tokens that somebody
//! makes up are no way to keep the database busy.
//!
//! What a session says of its user is a copy of the user's row. Whoever changes the row lets the
//! copies follow ([`Sessions::follow`]), and reads the row once more afterwards: of two who do that at
//! once, the one who writes last has read what is there last. A change whose process died before that
//! is noticed when a session slides.

use std::{sync::Arc, time::Duration};

use seawall::{
    Client,
    session::{Fields, Load, Restore, SessionId, Token},
};
use tokio::sync::Semaphore;

use super::{User, session_store, store, strangers::Strangers};
use crate::{
    app::Context,
    db::Db,
    error::{Error, Result},
    keys,
};

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

/// How many rows are looked at together, of sessions that Redis does not know.
const LOOKS: usize = 4;
/// How long somebody waits for such a look.
const LOOK_WAIT: Duration = Duration::from_secs(1);
/// How long bringing a session back may take.
const RESTORE_LIMIT: Duration = Duration::from_secs(5);
/// How long a session that was logged out is not brought back by whoever has read its row before; far
/// more than that takes.
const BARRED: Duration = Duration::from_secs(60);

/// Whose session it is.
#[derive(Debug)]
pub(super) enum Visit {
    User(User),
    /// It is to end, and Redis may not know.
    Ending,
    /// There is none (any more).
    Nobody,
}

/// Sessions of everybody.
#[derive(Debug)]
pub(super) struct Sessions {
    sessions: seawall::session::Sessions<u64>,
    client: Client,
    db: Arc<Db>,
    strangers: Strangers,
    looks: Semaphore,
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
            client: context.seawall.client().clone(),
            db: Arc::clone(&context.db),
            strangers: Strangers::default(),
            looks: Semaphore::new(LOOKS),
        })
    }

    /// Opens a session for a user.
    pub(super) async fn open(&self, user: &User) -> Result<Token> {
        let token = self.sessions.open(&user.id, &fields(user)).await?;
        let (id, now) = (token.id(), self.client.server_millis());
        let row = session_store::New {
            token_hash: id.as_str(),
            user_id: user.id,
            expires: now + millis(IDLE + ROW_EVERY),
            until: now + millis(LONGEST),
        };
        // Without a row nobody gets the token, and the session ends by itself.
        session_store::insert(&self.db, &row, now).await?;
        // A change since the user was read has looked for sessions before this one was there.
        if store::by_id(&self.db, user.id).await?.as_ref() != Some(user) {
            self.follow(user.id).await?;
        }
        Ok(token)
    }

    /// The user of a session, which slides by this.
    pub(super) async fn load(&self, token: &Token) -> Result<Visit> {
        match self.sessions.load(token).await {
            Ok(Load::Unknown) => self.lost(&token.id()).await,
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
                Ok(Visit::User(user))
            }
            Err(error) if error.is_away() => {
                tracing::debug!(%error, "a session is read from the database");
                match self.row(&token.id()).await? {
                    Row::Stored(row) => Ok(Visit::User(row.user)),
                    Row::Ending => Ok(Visit::Ending),
                    Row::None => Ok(Visit::Nobody),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What the database knows of a session.
    async fn row(&self, id: &SessionId) -> Result<Row> {
        if self.strangers.contains(id) {
            return Ok(Row::None);
        }
        let now = self.client.server_millis();
        if let Some(row) = session_store::read(&self.db, id.as_str(), now).await? {
            return Ok(Row::Stored(row));
        }
        if session_store::is_ending(&self.db, id.as_str()).await? {
            return Ok(Row::Ending);
        }
        self.strangers.add(id.clone());
        Ok(Row::None)
    }

    /// A session that Redis does not know: brought back, if it was lost there.
    async fn lost(&self, id: &SessionId) -> Result<Visit> {
        if self.strangers.contains(id) {
            return Ok(Visit::Nobody);
        }
        let look = tokio::time::timeout(LOOK_WAIT, self.looks.acquire()).await;
        let _look = look.ok().and_then(Result::ok).ok_or_else(|| Error::Unavailable {
            what: "sessions",
            cause: "too many that Redis does not know".to_owned(),
        })?;
        let row = match self.row(id).await? {
            Row::Stored(row) => row,
            Row::Ending => return Ok(Visit::Ending),
            Row::None => return Ok(Visit::Nobody),
        };
        // The row was given this time when the session was used, or later: so long it lived for sure.
        if row.expires - millis(ROW_EVERY) <= self.client.server_millis() {
            self.strangers.add(id.clone());
            return Ok(Visit::Nobody);
        }
        let fields = fields(&row.user);
        let restored = self.sessions.restore(id, &row.user.id, row.until, &fields);
        match tokio::time::timeout(RESTORE_LIMIT, restored).await {
            Ok(Ok(Restore::Restored)) => {
                if let Err(error) = self.follow_up(id, &row.user, row.expires).await {
                    tracing::warn!(%error, "a session's row did not follow");
                }
                Ok(Visit::User(row.user))
            }
            Ok(Ok(Restore::Ended)) => {
                // Logged out just now, or there are too many newer ones.
                session_store::delete(&self.db, id.as_str()).await?;
                Ok(Visit::Nobody)
            }
            Ok(Err(error)) if !error.is_away() => Err(error.into()),
            // It went away meanwhile: the row is enough.
            Ok(Err(_)) | Err(_) => Ok(Visit::User(row.user)),
        }
    }

    /// Lets the row follow the session, and the session its user.
    async fn slid(&self, token: &Token, copy: &User) -> Result<()> {
        let (id, now) = (token.id(), self.client.server_millis());
        let Some(row) = session_store::read(&self.db, id.as_str(), now).await? else {
            return Ok(());
        };
        self.slide_row(&id, row.expires).await?;
        if row.user != *copy {
            self.follow(copy.id).await?;
        }
        Ok(())
    }

    /// Gives the row of a session that is used a later end, when it is time.
    async fn slide_row(&self, id: &SessionId, expires: i64) -> Result<()> {
        let now = self.client.server_millis();
        if expires < now + millis(IDLE) {
            let expires = now + millis(IDLE + ROW_EVERY);
            session_store::slide(&self.db, id.as_str(), expires, now).await?;
        }
        Ok(())
    }

    /// After a session came back: the row slides, and a change since it was read is not missed.
    async fn follow_up(&self, id: &SessionId, copy: &User, expires: i64) -> Result<()> {
        self.slide_row(id, expires).await?;
        if store::by_id(&self.db, copy.id).await?.as_ref() != Some(copy) {
            self.follow(copy.id).await?;
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

    /// Ends a session. When Redis is away it is noted, and may be repeated.
    pub(super) async fn close(&self, token: &Token) -> Result<()> {
        let id = token.id();
        session_store::end(&self.db, id.as_str(), self.client.server_millis()).await?;
        self.close_noted(&id).await
    }

    /// Ends sessions of which Redis was not told.
    pub(super) async fn close_ending(&self) -> Result<()> {
        for name in session_store::ending(&self.db).await? {
            match SessionId::parse(&name) {
                Some(id) => self.close_noted(&id).await?,
                None => session_store::ended(&self.db, &name).await?,
            }
        }
        Ok(())
    }

    /// Tells Redis of a session's end, and forgets the note.
    async fn close_noted(&self, id: &SessionId) -> Result<()> {
        self.sessions.bar(id, BARRED).await?;
        // Whether it was there is no matter: it is not any more.
        let _ = self.sessions.revoke_by_id(id).await?;
        session_store::ended(&self.db, id.as_str()).await
    }
}

/// What the database knows of a session.
enum Row {
    Stored(session_store::Stored),
    Ending,
    None,
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
