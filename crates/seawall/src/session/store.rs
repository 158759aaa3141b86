//! Opening, reading and ending sessions.

use std::{collections::BTreeMap, time::Duration};

use redis::{Cmd, Value, cmd};
use seawall_client::{
    client::Script,
    error::{Error, Result},
    member::Member,
};

use super::{SessionId, SessionsBuilder, Token};

/// Most fields of a session.
const MAX_FIELDS: usize = 64;
/// What a session's fields may have together.
const MAX_BYTES: usize = 4096;
/// Where a session's hash says whose it is, when it ends at the latest, and when a read extends it next.
const USER: &str = "~user";
const UNTIL: &str = "~until";
const SLIDE: &str = "~slide";
/// How long opening a session may take, in milliseconds.
const HALF_OPEN_FOR: i64 = 60_000;
/// How often a session is begun anew that was ended while it was being opened.
const OPEN_TRIES: usize = 3;
/// Code of the refusal after the last of them.
const ENDED: &str = "ENDED";
/// Commands in one pipeline, and ids in one command.
const SLICE: usize = 500;

static OPEN: Script = Script::new(include_str!("script/open.lua"));
static INDEX: Script = Script::new(include_str!("script/index.lua"));
static DROP: Script = Script::new(include_str!("script/drop.lua"));
static LOAD: Script = Script::new(include_str!("script/load.lua"));
static CHANGE: Script = Script::new(include_str!("script/change.lua"));
static RESTORE: Script = Script::new(include_str!("script/restore.lua"));

/// What a session carries: names and values, 64 and 4 KB at most. No secrets: it is there to be read.
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

/// What loading a session came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Load<M> {
    /// It is there, and has slid.
    Found(Session<M>),
    /// There is none, or not any more.
    Unknown,
}

impl<M> Load<M> {
    /// The session, if there is one.
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
    /// Whose it is.
    pub user: M,
    /// What it carries.
    pub fields: Fields,
    /// When it ends at the latest, in milliseconds of the server's clock.
    pub until: i64,
    /// Whether this read extended its lifetime: once in a fraction of it somebody is told, who may
    /// then let a copy elsewhere follow.
    pub slid: bool,
}

/// A session in a user's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its public name.
    pub id: SessionId,
    /// When it was opened, in milliseconds of the server's clock, reckoned by the longest lifetime of today.
    pub opened: i64,
    /// When it ends at the latest.
    pub until: i64,
    /// How long it still lives if nobody reads it.
    pub idle_left: Duration,
}

/// What ending a session came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Revoke {
    /// By this call.
    Revoked,
    /// There was none.
    Unknown,
}

/// What restoring a session came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Restore {
    /// It is there.
    Restored,
    /// It is barred, its end has come, or its user has opened too many since.
    Ended,
}

/// What an entry in the index says of its session.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// It is being opened, for the longest lifetime from now.
    Opening,
    /// It is being restored, and ends then, or after the longest lifetime from now.
    Returning(i64),
    /// It was opened; unless its entry was taken out meanwhile.
    Open,
    /// It was restored, and ends as it was said before.
    Back(i64),
}

/// Outcome of entering a session in its user's index.
enum Entered {
    /// It is there.
    There {
        /// When it ends at the latest.
        until: i64,
        /// Its score without the half: not before its end.
        score: i64,
    },
    /// Its entry was taken out while it was being opened, or it was the oldest of too many.
    Ended,
}

impl<M: Member> Sessions<M> {
    pub(super) fn new(settings: SessionsBuilder<M>) -> Self {
        Sessions { settings }
    }

    /// Opens a session: a token that is returned belongs to a session that was stored. It may have ended
    /// since, by [`revoke_all`](Self::revoke_all) or by further logins of its user. When the reply is
    /// lost, nobody knows its token, and it ends by itself.
    ///
    /// # Errors
    /// When Redis does not answer; [`Error::Invalid`] for fields that are too many, too large, or
    /// begin with `~`; [`Error::Refused`] with the code `ENDED` if all sessions of the user were ended
    /// three times while this one was being opened.
    pub async fn open(&self, user: &M, fields: &Fields) -> Result<Token> {
        check(fields)?;
        for _ in 0..OPEN_TRIES {
            let token = Token::random()?;
            if self.open_as(&token, user, fields).await? {
                return Ok(token);
            }
        }
        let message = "the sessions of the user are being ended while this one is opened";
        Err(Error::Refused { code: ENDED.into(), message: message.into() })
    }

    /// Opens a session under this token; false if it was ended meanwhile, and is gone.
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
        // Again, and as an open one: whoever ends sessions finds it from now on.
        match self.enter(user, &id, Step::Open).await? {
            Entered::There { .. } => Ok(true),
            Entered::Ended => self.delete(&id).await.map(|()| false),
        }
    }

    /// Puts a session back that Redis has lost, by somebody's record of it. It lives on from now, until
    /// `until` at most, in milliseconds of the server's clock, and no longer than the longest lifetime
    /// from now. One that is there is left as it is. May be repeated.
    ///
    /// The record decides whether there is such a session: take it out of there before you end the
    /// session, [`bar`](Self::bar) it, then [`revoke`](Self::revoke) it, and nobody who has read the
    /// record before brings it back. One that is restored while [`revoke_all`](Self::revoke_all) runs
    /// may stay, as one that is opened then.
    ///
    /// # Errors
    /// As [`Sessions::open`]; it may have been restored.
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

    /// Keeps a session from being restored for so long: longer than anybody takes from reading their
    /// record to [`restore`](Self::restore). May be repeated.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn bar(&self, id: &SessionId, time: Duration) -> Result<()> {
        let key = self.bar_key(id)?;
        let mut command = cmd("SET");
        command.arg(&key).arg(1).arg("PX").arg(millis(time).max(1));
        self.settings.handle.client().send(&key, &command).await.map(drop)
    }

    /// Enters a session in its user's index. One that is open now ends the oldest others where there are
    /// too many; one that came back may be the oldest itself.
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

    /// Ends the oldest of a user's open sessions, as many as there are too many; returns them. Those that
    /// ended by themselves do not count, nor do those that are being opened: they count, and end
    /// others, once they are open. So of several that open at once each ends only those that were
    /// open before it, and never itself.
    async fn end_oldest(
        &self,
        index: &[u8],
        all: &[(SessionId, f64)],
        spared: Option<&SessionId>,
    ) -> Result<Vec<(SessionId, f64)>> {
        let client = self.settings.handle.client();
        let now = client.server_millis();
        let newest = now + millis(self.settings.longest);
        let young = (newest - HALF_OPEN_FOR) as f64..(newest + HALF_OPEN_FOR) as f64;
        let (mut live, mut gone) = (Vec::new(), Vec::new());
        for slice in all.chunks(SLICE) {
            let commands = slice.iter().map(|(id, _)| self.on_session("EXISTS", id));
            let replies = client.send_all(commands.collect::<Result<_>>()?).await;
            for (entry, reply) in slice.iter().zip(replies) {
                let is_there = redis::from_redis_value::<u8>(reply?)? == 1;
                // Whoever began to open one may have died.
                match (is_half_open(entry) && young.contains(&entry.1), is_there) {
                    (true, _) => {}
                    (false, true) => live.push(entry.clone()),
                    (false, false) => gone.push(entry.clone()),
                }
            }
        }
        // By their ends; those that end later than any that is opened now are the oldest: they were
        // opened when the longest lifetime was a longer one.
        live.sort_by_key(|(_, score)| *score < young.end);
        let over = live.len().saturating_sub(self.settings.most);
        live.retain(|(id, _)| Some(id) != spared);
        live.truncate(over);
        self.drop_entries(index, &gone).await?;
        self.bar_all(&live, now).await?;
        self.end(index, &live).await?;
        Ok(live)
    }

    /// Keeps sessions that end for good from being restored, for as long as they could have lived.
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

    /// Ends sessions and then takes them out of the index, so that what fails is found again; how
    /// many there were.
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

    /// Takes sessions out of the index, unless they were entered anew since.
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

    /// Reads a session and lets it slide: one round trip, and a second when it is time to slide.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn load(&self, token: &Token) -> Result<Load<M>> {
        let id = token.id();
        let client = self.settings.handle.client();
        // A plain read costs the server a fifth of a script, and most reads do not slide.
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

    /// A session by its hash; `None` when it is time to slide or to end, which only the server's clock
    /// can tell.
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

    /// Reads a session and lets it slide by the server's clock.
    async fn slide(&self, id: &SessionId) -> Result<Load<M>> {
        let call =
            LOAD.on(&[self.key(id)?]).arg(millis(self.settings.idle)).arg(self.slide_after());
        type Reply = Option<(Vec<u8>, i64, u8, Vec<(String, String)>)>;
        let reply = self.settings.handle.client().eval::<Reply>(&call).await?;
        let Some((user, until, slid, fields)) = reply else { return Ok(Load::Unknown) };
        let fields = fields.into_iter().collect();
        Ok(Load::Found(Session { user: M::from_member(&user)?, fields, until, slid: slid == 1 }))
    }

    /// How long ago the last extension must be, in milliseconds.
    fn slide_after(&self) -> i64 {
        millis(self.settings.idle / self.settings.slides)
    }

    /// Replaces what a session carries. May be repeated.
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

    /// Replaces what every session of a user carries, as after a change of name; how many there are.
    /// May be repeated. One that is being opened meanwhile may be missed: whoever opens a session from
    /// something that changes looks at it once more afterwards.
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

    /// Ends a session. May be repeated.
    ///
    /// # Errors
    /// When Redis does not answer: it may still be there.
    pub async fn revoke(&self, token: &Token) -> Result<Revoke> {
        self.revoke_by_id(&token.id()).await
    }

    /// Ends a session by its public name, as from a list of devices. Check whose it is:
    /// [`Sessions::list`] has one's own.
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

    /// Ends all sessions of a user that were opened before; how many there were. May be repeated.
    ///
    /// # Errors
    /// When Redis does not answer: some may still be there, and are still in the list.
    pub async fn revoke_all(&self, user: &M) -> Result<usize> {
        let index = self.index(user)?;
        let ids = self.indexed(&index).await?;
        self.end(&index, &ids).await
    }

    /// The sessions of a user, the newest first.
    ///
    /// # Errors
    /// When Redis does not answer.
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
                    // One that was opened for longer says only that it was before now.
                    let opened = *until as i64 - millis(self.settings.longest);
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

    /// What a user's index names, with its scores, the oldest first.
    async fn indexed(&self, index: &[u8]) -> Result<Vec<(SessionId, f64)>> {
        let mut command = cmd("ZRANGE");
        // The index is cut to what a user may have, 1,000 at most.
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

    /// Beside the session, for one script.
    fn bar_key(&self, id: &SessionId) -> Result<Vec<u8>> {
        self.settings.handle.key("session-bar", &(self.settings.name.as_str(), id.as_str()))
    }

    fn index(&self, user: &M) -> Result<Vec<u8>> {
        let user = user.to_member()?;
        self.settings.handle.key("session-of", &(self.settings.name.as_str(), &*user))
    }
}

/// Whether an entry of the index is of a session that was being opened.
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

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
