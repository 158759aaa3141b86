//! Sessions of all users: their keys in Redis, and what a session may contain.

use std::collections::BTreeMap;

use redis::{Cmd, cmd};
use seawall_client::{
    error::{Error, Result},
    member::Member,
};
use seawall_resilience::clock::millis;

use super::{SessionId, SessionsBuilder};

/// Most fields of a session.
const MAX_FIELDS: usize = 64;
/// Most bytes of all fields of a session.
const MAX_BYTES: usize = 4096;
/// Commands in one pipeline, and ids in one command.
pub(super) const SLICE: usize = 500;

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
    pub(super) settings: SessionsBuilder<M>,
}

impl<M: Member> Sessions<M> {
    pub(super) fn new(settings: SessionsBuilder<M>) -> Self {
        Sessions { settings }
    }

    /// Returns how long ago the last extension must be, in milliseconds.
    pub(super) fn slide_after(&self) -> u64 {
        millis(self.settings.idle / self.settings.slides)
    }

    pub(super) fn on_session(&self, name: &str, id: &SessionId) -> Result<(Vec<u8>, Cmd)> {
        let (key, mut command) = (self.key(id)?, cmd(name));
        command.arg(&key);
        Ok((key, command))
    }

    pub(super) fn key(&self, id: &SessionId) -> Result<Vec<u8>> {
        self.settings.handle.key("session", &(self.settings.name.as_str(), id.as_str()))
    }

    /// In the same slot as the session, for one script.
    pub(super) fn bar_key(&self, id: &SessionId) -> Result<Vec<u8>> {
        self.settings.handle.key("session-bar", &(self.settings.name.as_str(), id.as_str()))
    }

    pub(super) fn index(&self, user: &M) -> Result<Vec<u8>> {
        let user = user.to_member()?;
        self.settings.handle.key("session-of", &(self.settings.name.as_str(), &*user))
    }
}

/// Refuses fields that are too many, too large or named like the session's own.
pub(super) fn check(fields: &Fields) -> Result<()> {
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
