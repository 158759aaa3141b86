//! Reading a session, extending it, and replacing its fields.

use redis::cmd;
use seawall_client::{client::Script, error::Result, member::Member};
use seawall_resilience::clock::millis;

use super::{
    Fields, SessionId, Sessions, Token,
    store::{SLICE, check},
};

/// Fields of a session's hash: its user, its latest end, and the time at which a read extends it
/// next.
pub(super) const USER: &str = "~user";
const UNTIL: &str = "~until";
const SLIDE: &str = "~slide";

static LOAD: Script = Script::with_time(include_str!("script/load.lua"));
static CHANGE: Script = Script::new(include_str!("script/change.lua"));

/// Outcome of [`Sessions::load`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Load<M> {
    /// The session exists; its lifetime was extended if it was time to.
    Found(Session<M>),
    /// There is no such session, or no longer.
    Unknown,
}

impl<M> Load<M> {
    /// Returns the session, if there is one.
    #[must_use]
    pub fn found(self) -> Option<Session<M>> {
        match self {
            Load::Found(session) => Some(session),
            Load::Unknown => None,
        }
    }
}

/// A session that was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session<M> {
    /// The user of the session.
    pub user: M,
    /// The fields of the session.
    pub fields: Fields,
    /// When it ends at the latest, in milliseconds of the server's clock.
    pub until: i64,
    /// Whether this read extended its lifetime.
    ///
    /// That happens once in a fraction of the lifetime; the caller may then extend a copy that it
    /// keeps elsewhere.
    pub slid: bool,
}

impl<M: Member> Sessions<M> {
    /// Reads a session and extends it if it is time to.
    ///
    /// It takes one round trip, and a second one when the session is extended.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn load(&self, token: &Token) -> Result<Load<M>> {
        let id = token.id();
        let client = self.settings.handle.client();
        // A plain read costs the server a fifth of a script, and most reads do not extend.
        let key = self.key(&id)?;
        let all: Vec<(String, Vec<u8>)> = client.query(&key, cmd("HGETALL").arg(&key)).await?;
        if all.is_empty() {
            return Ok(Load::Unknown);
        }
        match self.read(all)? {
            Some(session) => Ok(Load::Found(session)),
            None => self.slide(&id).await,
        }
    }

    /// Parses a session's hash. Returns `None` if it is time to extend or to end the session, which
    /// must be decided by the server's clock.
    fn read(&self, all: Vec<(String, Vec<u8>)>) -> Result<Option<Session<M>>> {
        let (mut user, mut until, mut slide) = (None, None, None);
        let mut fields = Fields::new();
        for (name, value) in all {
            match name.as_str() {
                USER => user = Some(M::from_member(&value)?),
                UNTIL => until = Some(i64::from_member(&value)?),
                SLIDE => slide = Some(i64::from_member(&value)?),
                _ => drop(fields.insert(name, String::from_member(&value)?)),
            }
        }
        let (Some(user), Some(until), Some(slide)) = (user, until, slide) else { return Ok(None) };
        let is_due = slide.min(until) <= self.settings.handle.client().server_millis();
        Ok((!is_due).then_some(Session { user, fields, until, slid: false }))
    }

    /// Reads a session and extends it by the server's clock.
    async fn slide(&self, id: &SessionId) -> Result<Load<M>> {
        let call =
            LOAD.on(&[self.key(id)?]).arg(millis(self.settings.idle)).arg(self.slide_after());
        type Reply = Option<(Vec<u8>, i64, u8, Vec<(String, String)>)>;
        let reply = self.settings.handle.client().eval::<Reply>(&call).await?;
        let Some((user, until, slid, fields)) = reply else { return Ok(Load::Unknown) };
        let fields = fields.into_iter().collect();
        Ok(Load::Found(Session { user: M::from_member(&user)?, fields, until, slid: slid == 1 }))
    }

    /// Replaces the fields of a session. Safe to retry.
    ///
    /// # Errors
    /// As [`Sessions::open`].
    pub async fn replace(&self, token: &Token, fields: &Fields) -> Result<Load<M>> {
        check(fields)?;
        let mut call = CHANGE.on(&[self.key(&token.id())?]);
        for (name, value) in fields {
            call = call.arg(name).arg(value);
        }
        match self.settings.handle.client().eval::<u8>(&call).await? {
            1 => self.load(token).await,
            _ => Ok(Load::Unknown),
        }
    }

    /// Replaces the fields of every session of a user, for example after a change of name, and
    /// returns their number.
    ///
    /// Safe to retry. A session that is being opened meanwhile may be missed: a caller that opens a
    /// session from data that can change must read that data again afterwards.
    ///
    /// # Errors
    /// As [`Sessions::open`]: some may have been replaced.
    pub async fn replace_all(&self, user: &M, fields: &Fields) -> Result<usize> {
        check(fields)?;
        let client = self.settings.handle.client();
        let mut live = 0;
        for slice in self.indexed(&self.index(user)?).await?.chunks(SLICE) {
            let mut calls = Vec::with_capacity(slice.len());
            for (id, _) in slice {
                let call = CHANGE.on(&[self.key(id)?]);
                calls.push(
                    fields.iter().fold(call, |call, (name, value)| call.arg(name).arg(value)),
                );
            }
            for reply in client.run_all(&calls).await {
                live += redis::from_redis_value::<usize>(reply?)?;
            }
        }
        Ok(live)
    }
}
