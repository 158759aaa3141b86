//! Handles what commands request from the host: saving, rewriting the log, new settings, shutdown.

use seawall_engine::{HostRequest, SessionId};

use crate::{
    hub::Hub,
    journal::{Begun, Journal, JournalError},
    notice::Level,
};

/// A job for the log.
type Task = fn(&dyn Journal) -> Result<(), JournalError>;

impl Hub {
    /// Handles the engine's requests. Returns `true` if settings have changed.
    pub(crate) fn handle(&self, requests: Vec<HostRequest>) -> bool {
        let mut changed = false;
        for request in requests {
            match request {
                HostRequest::Save(session) => self.persist(session, "OK", |log| log.save()),
                HostRequest::BackgroundSave(session) => {
                    self.begin(session, "Background saving", |log| log.begin_save(false));
                }
                HostRequest::ScheduleSave(session) => {
                    self.begin(session, "Background saving", |log| log.begin_save(true));
                }
                HostRequest::Rewrite(session) => {
                    let what = "Background append only file rewriting";
                    self.begin(session, what, |log| log.begin_rewrite());
                }
                HostRequest::Reload(session) => self.persist(session, "OK", |log| log.reload()),
                HostRequest::Shutdown { session, save } => self.shut_down(session, save),
                HostRequest::SettingsChanged => changed = true,
                HostRequest::RewriteConfig(session) => {
                    self.answer(session, Err("ERR The server is running without a config file"));
                }
                HostRequest::Log { level, text } => {
                    let level = match level {
                        0 => Level::Debug,
                        1 => Level::Verbose,
                        2 => Level::Notice,
                        _ => Level::Warning,
                    };
                    self.notices.tell(level, format_args!("{text}"));
                }
                // The engine may add requests later; the session that asked must not wait for ever.
                _ => {}
            }
        }
        if changed && let Some(journal) = &self.journal {
            let settings = self.core.engine().settings().clone();
            journal.settings_changed(&settings);
        }
        changed
    }

    /// Lets the log begin a job, updates INFO, and answers the session that asked.
    fn begin(
        &self,
        session: SessionId,
        what: &str,
        task: fn(&dyn Journal) -> Result<Begun, JournalError>,
    ) {
        let result = self.with_log(task);
        if let Some(journal) = &self.journal {
            journal.describe(&mut self.core.engine());
        }
        match result {
            Ok(Begun::Now) => self.answer(session, Ok(&format!("{what} started"))),
            Ok(Begun::Later) => self.answer(session, Ok(&format!("{what} scheduled"))),
            Err(error) => self.answer(session, Err(&format!("ERR {error}"))),
        }
    }

    fn with_log<T>(
        &self,
        task: fn(&dyn Journal) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        match &self.journal {
            Some(journal) => task(journal.as_ref()),
            None => Err(JournalError("nothing is kept: there is no data directory".into())),
        }
    }

    /// Lets the log run a job and answers the session that asked.
    fn persist(&self, session: SessionId, done: &str, task: Task) {
        match self.with_log(task) {
            Ok(()) => self.answer(session, Ok(done)),
            Err(error) => self.answer(session, Err(&format!("ERR {error}"))),
        }
    }

    fn answer(&self, session: SessionId, result: Result<&str, &str>) {
        self.core.engine().answer(session, result);
    }

    /// Stops the server, after a snapshot if requested.
    fn shut_down(&self, session: SessionId, save: Option<bool>) {
        if save == Some(true)
            && let Some(journal) = &self.journal
            && let Err(error) = journal.save()
        {
            let text = format_args!("not ending, because saving failed: {error}");
            self.notices.tell(Level::Warning, text);
            self.answer(session, Err("ERR Errors trying to SHUTDOWN. Check logs."));
            return;
        }
        if save == Some(false)
            && let Some(journal) = &self.journal
        {
            journal.end_without_save();
        }
        self.notices.tell(Level::Notice, format_args!("ending by SHUTDOWN"));
        self.stop();
    }
}
