//! Opening, reading and ending sessions.

use std::{collections::BTreeMap, time::Duration};

use redis::{Cmd, Value, cmd};
use seawall_client::{
    client::Script,
    error::{Error, Result},
    member::Member,
};
use seawall_resilience::clock::millis;

use super::{SessionId, SessionsBuilder, Token};

/// Most fields of a session.
const MAX_FIELDS: usize = 64;
/// Most bytes of all fields of a session.
const MAX_BYTES: usize = 4096;
/// Fields of a session's hash: its user, its latest end, and the time at which a read extends it
/// next.
const USER: &str = "~user";
const UNTIL: &str = "~until";
const SLIDE: &str = "~slide";
/// How long opening a session may take, in milliseconds.
const HALF_OPEN_FOR: i64 = 60_000;
/// Attempts to open a session that is ended while it is being opened.
const OPEN_TRIES: usize = 3;
/// Error code after the last of these attempts.
const ENDED: &str = "ENDED";
/// Commands in one pipeline, and ids in one command.
const SLICE: usize = 500;

static OPEN: Script = Script::with_time(include_str!("script/open.lua"));
static INDEX: Script = Script::with_time(include_str!("script/index.lua"));
static DROP: Script = Script::new(include_str!("script/drop.lua"));
static LOAD: Script = Script::with_time(include_str!("script/load.lua"));
static CHANGE: Script = Script::new(include_str!("script/change.lua"));
static RESTORE: Script = Script::with_time(include_str!("script/restore.lua"));

/// Fields of a session: names and values, at most 64 fields and 4 KB in total.
///
/// Store no secrets in them: they are readable in Redis.
pub type Fields = BTreeMap<String, String>;

/// Sessions of all users.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, session::Fields};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let sessions = seawall.sessions::<u64>("web").build()?;
/// let token = sessions.open(&42, &Fields::from([("role".into(), "user".into())])).await?;
/// let session = sessions.load(&token).await?.found().expect("just opened");
/// assert_eq!((session.user, session.fields["role"].as_str()), (42, "user"));
/// sessions.revoke_all(&42).await?;
/// assert!(sessions.load(&token).await?.found().is_none());
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Sessions<M> {
    settings: SessionsBuilder<M>,
}

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

/// Outcome of [`Sessions::restore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Restore {
    /// The session exists.
    Restored,
    /// The session is barred or past its end, or its user has opened too many others since.
    Ended,
}

/// State of a session, to be entered in the index.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// It is being opened, with the longest lifetime from now.
    Opening,
    /// It is being restored, and ends at this time or after the longest lifetime from now.
    Returning(i64),
    /// It was opened, unless its entry was removed meanwhile.
    Open,
    /// It was restored, and ends as entered before.
    Back(i64),
}

/// Outcome of entering a session in its user's index.
enum Entered {
    /// The entry exists.
    There {
        /// When the session ends at the latest.
        until: i64,
        /// Its score without the half; not earlier than its end.
        score: i64,
    },
    /// Its entry was removed while it was being opened, or it was the oldest of too many.
    Ended,
}

impl<M: Member> Sessions<M> {
    pub(super) fn new(settings: SessionsBuilder<M>) -> Self {
        Sessions { settings }
    }

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

    /// Enters a session in its user's index.
    ///
    /// A session that is open now ends the oldest others if there are too many; one that was
    /// restored may be the oldest itself.
    async fn enter(&self, user: &M, id: &SessionId, step: Step) -> Result<Entered> {
        let (settings, client) = (&self.settings, self.settings.handle.client());
        let index = self.index(user)?;
        let call = INDEX.on(&[&index]).arg(id.as_str());
        let call = call.arg(millis(settings.longest)).arg(settings.most);
        let call = match step {
            Step::Opening => call.arg("").arg(0),
            Step::Returning(until) => call.arg(until).arg(0),
            Step::Open => call.arg("").arg(1),
            Step::Back(until) => call.arg(until).arg(2),
        };
        let mut reply = client.eval::<Vec<Value>>(&call).await?.into_iter();
        let mut number = || redis::from_redis_value::<i64>(reply.next().unwrap_or(Value::Int(0)));
        let (until, score) = (number()?, number()?);
        if until <= 0 {
            return Ok(Entered::Ended);
        }
        if let Some(all) = reply.next() {
            let spared = matches!(step, Step::Open).then_some(id);
            let all = entries(redis::from_redis_value(all)?);
            if self.end_oldest(&index, &all, spared).await?.iter().any(|(ended, _)| ended == id) {
                return Ok(Entered::Ended);
            }
        }
        Ok(Entered::There { until, score })
    }

    /// Ends the oldest of a user's open sessions, as many as are over the limit, and returns them.
    ///
    /// Sessions that expired do not count, nor do sessions that are being opened: they count, and
    /// end others, once they are open. So if several are opened at once, each ends only those that
    /// were open before it, and never itself.
    async fn end_oldest(
        &self,
        index: &[u8],
        all: &[(SessionId, f64)],
        spared: Option<&SessionId>,
    ) -> Result<Vec<(SessionId, f64)>> {
        let client = self.settings.handle.client();
        let now = client.server_millis();
        let newest = now + millis(self.settings.longest).cast_signed();
        let young = (newest - HALF_OPEN_FOR) as f64..(newest + HALF_OPEN_FOR) as f64;
        let (mut live, mut gone) = (Vec::new(), Vec::new());
        for slice in all.chunks(SLICE) {
            let commands = slice.iter().map(|(id, _)| self.on_session("EXISTS", id));
            let replies = client.send_all(commands.collect::<Result<_>>()?).await;
            for (entry, reply) in slice.iter().zip(replies) {
                let is_there = redis::from_redis_value::<u8>(reply?)? == 1;
                // The process that began to open a session may have died.
                match (is_half_open(entry) && young.contains(&entry.1), is_there) {
                    (true, _) => {}
                    (false, true) => live.push(entry.clone()),
                    (false, false) => gone.push(entry.clone()),
                }
            }
        }
        // Ordered by their ends. Sessions that end later than any that is opened now are the
        // oldest: they were opened when the longest lifetime was longer.
        live.sort_by_key(|(_, score)| *score < young.end);
        let over = live.len().saturating_sub(self.settings.most);
        live.retain(|(id, _)| Some(id) != spared);
        live.truncate(over);
        self.drop_entries(index, &gone).await?;
        self.bar_all(&live, now).await?;
        self.end(index, &live).await?;
        Ok(live)
    }

    /// Bars sessions that end for good from being restored, for as long as they could have lived.
    async fn bar_all(&self, ids: &[(SessionId, f64)], now: i64) -> Result<()> {
        for slice in ids.chunks(SLICE) {
            let mut commands = Vec::with_capacity(slice.len());
            for (id, until) in slice {
                let (key, mut command) = (self.bar_key(id)?, cmd("SET"));
                command.arg(&key).arg(1).arg("PX").arg((*until as i64 - now).max(1));
                commands.push((key, command));
            }
            for reply in self.settings.handle.client().send_all(commands).await {
                reply?;
            }
        }
        Ok(())
    }

    /// Deletes sessions and then removes them from the index, so that a failure leaves them in the
    /// index. Returns how many existed.
    async fn end(&self, index: &[u8], ids: &[(SessionId, f64)]) -> Result<usize> {
        let client = self.settings.handle.client();
        let mut live = 0;
        for slice in ids.chunks(SLICE) {
            let commands = slice.iter().map(|(id, _)| self.on_session("DEL", id));
            for reply in client.send_all(commands.collect::<Result<_>>()?).await {
                live += redis::from_redis_value::<usize>(reply?)?;
            }
            self.drop_entries(index, slice).await?;
        }
        Ok(live)
    }

    /// Removes sessions from the index, unless they were entered again since.
    async fn drop_entries(&self, index: &[u8], ids: &[(SessionId, f64)]) -> Result<()> {
        for slice in ids.chunks(SLICE) {
            let mut call = DROP.on(&[index]);
            for (id, score) in slice {
                call = call.arg(id.as_str()).arg(*score);
            }
            self.settings.handle.client().run(&call).await?;
        }
        Ok(())
    }

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

    /// Returns how long ago the last extension must be, in milliseconds.
    fn slide_after(&self) -> u64 {
        millis(self.settings.idle / self.settings.slides)
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

    /// Returns the entries of a user's index with their scores, oldest first.
    async fn indexed(&self, index: &[u8]) -> Result<Vec<(SessionId, f64)>> {
        let mut command = cmd("ZRANGE");
        // The index is limited to the number of sessions per user, at most 1,000.
        command.arg(index).arg(0).arg(-1).arg("WITHSCORES");
        Ok(entries(self.settings.handle.client().query(index, &command).await?))
    }

    async fn delete(&self, id: &SessionId) -> Result<()> {
        let (key, delete) = self.on_session("DEL", id)?;
        self.settings.handle.client().send(&key, &delete).await.map(drop)
    }

    fn on_session(&self, name: &str, id: &SessionId) -> Result<(Vec<u8>, Cmd)> {
        let (key, mut command) = (self.key(id)?, cmd(name));
        command.arg(&key);
        Ok((key, command))
    }

    fn key(&self, id: &SessionId) -> Result<Vec<u8>> {
        self.settings.handle.key("session", &(self.settings.name.as_str(), id.as_str()))
    }

    /// In the same slot as the session, for one script.
    fn bar_key(&self, id: &SessionId) -> Result<Vec<u8>> {
        self.settings.handle.key("session-bar", &(self.settings.name.as_str(), id.as_str()))
    }

    fn index(&self, user: &M) -> Result<Vec<u8>> {
        let user = user.to_member()?;
        self.settings.handle.key("session-of", &(self.settings.name.as_str(), &*user))
    }
}

/// Returns `true` if an entry of the index belongs to a session that was being opened.
fn is_half_open((_, score): &(SessionId, f64)) -> bool {
    score.fract() != 0.0
}

fn entries(named: Vec<(String, f64)>) -> Vec<(SessionId, f64)> {
    named.into_iter().filter_map(|(id, score)| Some((SessionId::parse(&id)?, score))).collect()
}

fn check(fields: &Fields) -> Result<()> {
    let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    if fields.len() > MAX_FIELDS || bytes > MAX_BYTES {
        return Err(Error::Invalid(format!(
            "a session of {} fields and {bytes} bytes: {MAX_FIELDS} and {MAX_BYTES} are allowed",
            fields.len()
        )));
    }
    if fields.keys().any(|name| name.is_empty() || name.starts_with('~')) {
        return Err(Error::Invalid("a field's name is not empty and begins with no ~".into()));
    }
    Ok(())
}
