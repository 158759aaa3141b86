//! Sessions: the toolkit's sessions, each with a row in the database.
//!
//! Redis decides while it answers. When Redis is away the row is read instead, so that reads
//! continue. The row is keyed by the digest of the token, as the session in Redis is: neither store
//! knows a token. While a session is in use, its row is updated every [`ROW_EVERY`] and expires
//! that much later, so that it never expires before the session.
//!
//! A session ends after [`IDLE`] without a request, after [`LONGEST`] in any case, and on log-out.
//! A log-out replaces the row with a log-out record, tells Redis, and then deletes the record. It
//! fails if Redis is away. While the record exists, no process reports the session as ended,
//! because a process that can reach Redis may still accept it. A repeated request or a job tells
//! Redis later.
//!
//! A session that Redis does not know may have been lost there. Its row then restores it with its
//! original end time, unless it may have expired through inactivity, which the row knows less
//! exactly. For [`BARRED`] after a log-out Redis keeps a mark, so that a process that read the row
//! earlier cannot restore the session. Row lookups are bounded ([`Strangers`], [`LOOKS`]), so that
//! made-up tokens cannot keep the database busy.
//!
//! A session holds a copy of its user's row. A writer of that row updates the copies
//! ([`Sessions::follow`]) and then reads the row again. So of two concurrent writers, the one that
//! writes the copies last has read the latest row. If a process dies before it updates the copies,
//! the change is noticed when the session slides.

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

/// Idle time-out of a session.
pub const IDLE: Duration = Duration::from_secs(30 * 60);
/// Maximum lifetime of a session.
pub const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Interval at which the row of a session in use is updated.
pub const ROW_EVERY: Duration = Duration::from_secs(5 * 60);
/// Maximum slides of a session within [`IDLE`]: one a minute.
const SLIDES: u32 = 30;
/// Concurrent sessions of one user; another one ends the oldest.
const PER_USER: usize = 100;
/// Attempts to update the copies while the row keeps changing.
const FOLLOW_TRIES: usize = 5;

/// Concurrent row lookups for sessions that Redis does not know.
const LOOKS: usize = 4;
/// Maximum wait for such a lookup.
const LOOK_WAIT: Duration = Duration::from_secs(1);
/// Maximum time for restoring a session.
const RESTORE_LIMIT: Duration = Duration::from_secs(5);
/// Time during which a logged-out session cannot be restored by a process that read its row
/// earlier; far longer than a restore takes.
const BARRED: Duration = Duration::from_secs(60);

/// Result of looking up a session.
#[derive(Debug)]
pub(super) enum Visit {
    User(User),
    /// The log-out is recorded, and Redis may not know.
    Ending,
    /// There is no such session (any more).
    Nobody,
}

/// Sessions of all users.
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
                .idle_ttl(IDLE)
                .max_ttl(LONGEST)
                .slides(SLIDES)
                .max_per_user(PER_USER)
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
        // If this fails the caller gets no token, and the session expires by itself.
        session_store::insert(&self.db, &row, now).await?;
        // A change made since the user was read has updated only the sessions that existed before
        // this one.
        if store::by_id(&self.db, user.id).await?.as_ref() != Some(user) {
            self.follow(user.id).await?;
        }
        Ok(token)
    }

    /// Returns the user of a session and extends the session.
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
                    // The request continues: the row only matters while Redis is away.
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

    /// Looks up a session in the database.
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

    /// Handles a session that Redis does not know: restores it if it was lost there.
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
        // The row got this expiry when the session was used, or later: the session was alive until
        // then.
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
                // Logged out just now, or displaced by newer sessions.
                session_store::delete(&self.db, id.as_str()).await?;
                Ok(Visit::Nobody)
            }
            Ok(Err(error)) if !error.is_away() => Err(error.into()),
            // Redis went away meanwhile: the row is enough.
            Ok(Err(_)) | Err(_) => Ok(Visit::User(row.user)),
        }
    }

    /// Updates the row after the session slid, and the session if its user changed.
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

    /// Extends the expiry of an active session's row when it is due.
    async fn slide_row(&self, id: &SessionId, expires: i64) -> Result<()> {
        let now = self.client.server_millis();
        if expires < now + millis(IDLE) {
            let expires = now + millis(IDLE + ROW_EVERY);
            session_store::slide(&self.db, id.as_str(), expires, now).await?;
        }
        Ok(())
    }

    /// Completes a restore: extends the row and applies a user change made since it was read.
    async fn follow_up(&self, id: &SessionId, copy: &User, expires: i64) -> Result<()> {
        self.slide_row(id, expires).await?;
        if store::by_id(&self.db, copy.id).await?.as_ref() != Some(copy) {
            self.follow(copy.id).await?;
        }
        Ok(())
    }

    /// Copies the user's row into every session of the user.
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

    /// Ends a session. If Redis is away, the log-out is recorded and the call can be repeated.
    pub(super) async fn close(&self, token: &Token) -> Result<()> {
        let id = token.id();
        session_store::end(&self.db, id.as_str(), self.client.server_millis()).await?;
        self.close_noted(&id).await
    }

    /// Ends sessions with a recorded log-out that Redis has not been told of.
    pub(super) async fn close_ending(&self) -> Result<()> {
        for name in session_store::ending(&self.db).await? {
            match SessionId::parse(&name) {
                Some(id) => self.close_noted(&id).await?,
                None => session_store::ended(&self.db, &name).await?,
            }
        }
        Ok(())
    }

    /// Ends a session in Redis and deletes its log-out record.
    async fn close_noted(&self, id: &SessionId) -> Result<()> {
        self.sessions.bar(id, BARRED).await?;
        // It does not matter whether the session existed: it is gone now.
        let _ = self.sessions.revoke_by_id(id).await?;
        session_store::ended(&self.db, id.as_str()).await
    }
}

/// Result of looking up a session in the database.
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
