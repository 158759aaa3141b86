//! Listing the sessions of a user, and ending them.

use std::time::Duration;

use redis::cmd;
use seawall_client::{error::Result, member::Member};
use seawall_resilience::clock::millis;

use super::{SessionId, Sessions, Token, read::USER, store::SLICE};

/// A session in a user's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its public id.
    pub id: SessionId,
    /// When it was opened, in milliseconds of the server's clock.
    ///
    /// It is computed from the session's end and the currently configured longest lifetime.
    pub opened: i64,
    /// When it ends at the latest.
    pub until: i64,
    /// How long it still lives if it is not read.
    pub idle_left: Duration,
}

/// Outcome of [`Sessions::revoke`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Revoke {
    /// This call ended the session.
    Revoked,
    /// There was no such session.
    Unknown,
}

impl<M: Member> Sessions<M> {
    /// Returns the sessions of a user, newest first.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn list(&self, user: &M) -> Result<Vec<SessionInfo>> {
        let client = self.settings.handle.client();
        let index = self.index(user)?;
        let mut live = Vec::new();
        for slice in self.indexed(&index).await?.chunks(SLICE) {
            let commands = slice.iter().map(|(id, _)| self.on_session("PTTL", id));
            let replies = client.send_all(commands.collect::<Result<_>>()?).await;
            for ((id, until), reply) in slice.iter().zip(replies) {
                let left: i64 = redis::from_redis_value(reply?)?;
                if let Ok(left) = u64::try_from(left) {
                    // For a session that was opened with a longer lifetime, only "before now" is
                    // known.
                    let opened = *until as i64 - millis(self.settings.longest).cast_signed();
                    live.push(SessionInfo {
                        id: id.clone(),
                        opened: opened.min(client.server_millis()),
                        until: *until as i64,
                        idle_left: Duration::from_millis(left),
                    });
                }
            }
        }
        live.reverse();
        Ok(live)
    }

    /// Ends a session. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer: the session may still exist.
    pub async fn revoke(&self, token: &Token) -> Result<Revoke> {
        self.revoke_by_id(&token.id()).await
    }

    /// Ends a session by its public id, for example from a list of devices.
    ///
    /// The caller must check that the session belongs to the user: [`Sessions::list`] returns the
    /// user's sessions.
    ///
    /// # Errors
    /// As [`Sessions::revoke`].
    pub async fn revoke_by_id(&self, id: &SessionId) -> Result<Revoke> {
        let client = self.settings.handle.client();
        let key = self.key(id)?;
        let user: Option<Vec<u8>> = client.query(&key, cmd("HGET").arg(&key).arg(USER)).await?;
        let gone: u8 = client.query(&key, cmd("DEL").arg(&key)).await?;
        if let Some(user) = user {
            let index = self.index(&M::from_member(&user)?)?;
            client.send(&index, cmd("ZREM").arg(&index).arg(id.as_str())).await?;
        }
        Ok(if gone == 1 { Revoke::Revoked } else { Revoke::Unknown })
    }

    /// Ends all sessions of a user that were opened before the call, and returns their number. Safe
    /// to retry.
    ///
    /// # Errors
    /// If Redis does not answer: some may still exist, and are still in the list.
    pub async fn revoke_all(&self, user: &M) -> Result<usize> {
        let index = self.index(user)?;
        let ids = self.indexed(&index).await?;
        self.end(&index, &ids).await
    }
}
