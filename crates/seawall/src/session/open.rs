//! Opening a session, and restoring one that Redis has lost.

use std::time::Duration;

use redis::cmd;
use seawall_client::{
    client::Script,
    error::{Error, Result},
    member::Member,
};
use seawall_resilience::clock::millis;

use super::{
    Fields, SessionId, Sessions, Token,
    index::{Entered, Step},
    store::check,
};

/// Attempts to open a session that is ended while it is being opened.
const OPEN_TRIES: usize = 3;
/// Error code after the last of these attempts.
const ENDED: &str = "ENDED";

static OPEN: Script = Script::with_time(include_str!("script/open.lua"));
static RESTORE: Script = Script::with_time(include_str!("script/restore.lua"));

/// Outcome of [`Sessions::restore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Restore {
    /// The session exists.
    Restored,
    /// The session is barred or past its end, or its user has opened too many others since.
    Ended,
}

impl<M: Member> Sessions<M> {
    /// Opens a session and returns its token.
    ///
    /// The returned token belongs to a session that was stored. The session may have ended since,
    /// by [`revoke_all`](Self::revoke_all) or by further logins of its user. If the reply is lost,
    /// no process knows its token, and it expires.
    ///
    /// # Errors
    /// If Redis does not answer; [`Error::Invalid`] if the fields are too many, too large, or begin
    /// with `~`; [`Error::Refused`] with the code `ENDED` if all sessions of the user were ended
    /// three times while this one was being opened.
    pub async fn open(&self, user: &M, fields: &Fields) -> Result<Token> {
        check(fields)?;
        for _ in 0..OPEN_TRIES {
            let token = Token::random(self.settings.handle.randomness())?;
            if self.open_as(&token, user, fields).await? {
                return Ok(token);
            }
        }
        let message = "the sessions of the user are being ended while this one is opened";
        Err(Error::Refused { code: ENDED.into(), message: message.into() })
    }

    /// Opens a session with this token. Returns `false` if it was ended meanwhile and is deleted.
    async fn open_as(&self, token: &Token, user: &M, fields: &Fields) -> Result<bool> {
        let (id, client) = (token.id(), self.settings.handle.client());
        let Entered::There { until, .. } = self.enter(user, &id, Step::Opening).await? else {
            return Ok(false);
        };
        let mut call = OPEN.on(&[self.key(&id)?]).arg(millis(self.settings.idle));
        call = call.arg(until).arg(self.slide_after()).arg(&*user.to_member()?);
        for (name, value) in fields {
            call = call.arg(name).arg(value);
        }
        client.run(&call).await?;
        // Entered again, as an open one: from now on a process that ends sessions finds it.
        match self.enter(user, &id, Step::Open).await? {
            Entered::There { .. } => Ok(true),
            Entered::Ended => self.delete(&id).await.map(|()| false),
        }
    }

    async fn delete(&self, id: &SessionId) -> Result<()> {
        let (key, delete) = self.on_session("DEL", id)?;
        self.settings.handle.client().send(&key, &delete).await.map(drop)
    }

    /// Restores a session that Redis has lost, from a record that the caller keeps.
    ///
    /// The session lives on from now, at most until `until`, in milliseconds of the server's clock,
    /// and no longer than the longest lifetime from now. A session that exists is not changed. Safe
    /// to retry.
    ///
    /// The record decides whether there is such a session. To end a session for good, delete its
    /// record first, then [`bar`](Self::bar) the session, then [`revoke`](Self::revoke) it. Then a
    /// process that read the record before cannot restore the session. A session that is restored
    /// while [`revoke_all`](Self::revoke_all) runs may stay, like one that is opened then.
    ///
    /// # Errors
    /// As [`Sessions::open`]; the session may have been restored.
    pub async fn restore(
        &self,
        id: &SessionId,
        user: &M,
        until: i64,
        fields: &Fields,
    ) -> Result<Restore> {
        check(fields)?;
        let Entered::There { score, .. } = self.enter(user, id, Step::Returning(until)).await?
        else {
            return Ok(Restore::Ended);
        };
        let mut call = RESTORE.on(&[self.key(id)?, self.bar_key(id)?]);
        call = call.arg(millis(self.settings.idle)).arg(until).arg(self.slide_after());
        call = call.arg(millis(self.settings.longest)).arg(&*user.to_member()?);
        for (name, value) in fields {
            call = call.arg(name).arg(value);
        }
        let there: u8 = self.settings.handle.client().eval(&call).await?;
        if there == 0 {
            let entry = (id.clone(), score as f64 + 0.5);
            self.drop_entries(&self.index(user)?, &[entry]).await?;
            return Ok(Restore::Ended);
        }
        Ok(match self.enter(user, id, Step::Back(until)).await? {
            Entered::There { .. } => Restore::Restored,
            Entered::Ended => Restore::Ended,
        })
    }

    /// Prevents a session from being restored for this time.
    ///
    /// The time must be longer than any process takes from reading its record to calling
    /// [`restore`](Self::restore). Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn bar(&self, id: &SessionId, time: Duration) -> Result<()> {
        let key = self.bar_key(id)?;
        let mut command = cmd("SET");
        command.arg(&key).arg(1).arg("PX").arg(millis(time).max(1));
        self.settings.handle.client().send(&key, &command).await.map(drop)
    }
}
