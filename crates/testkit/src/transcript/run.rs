//! Plays a transcript against a server.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

use super::script::{Action, Script, Section, Step};
use crate::client::{Address, Client};
use crate::reply::{Escaped, Reply};

/// Maximum time for an expected reply.
const REPLY_LIMIT: Duration = Duration::from_secs(5);
/// How long the connection must stay silent, after the server has shown that it is done.
const SILENCE: Duration = Duration::from_millis(10);

/// What was checked, and what was wrong.
#[derive(Debug, Default)]
pub struct Summary {
    /// Sections played.
    pub sections: usize,
    /// Replies compared.
    pub replies: usize,
    /// One for each failed section; the rest of such a section is not played.
    pub failures: Vec<Failure>,
}

/// The first wrong reply of a section.
#[derive(Debug)]
pub struct Failure {
    /// The line of the expected reply, counted from 1.
    pub line: usize,
    /// The title of the section.
    pub section: String,
    /// The last command on that connection.
    pub command: String,
    /// What the transcript expects.
    pub expected: String,
    /// What the server sent.
    pub got: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "line {}, in \"{}\":", self.line, self.section)?;
        writeln!(f, "  command  {}", self.command)?;
        writeln!(f, "  expected {}", self.expected)?;
        write!(f, "  got      {}", self.got)
    }
}

/// Plays every section of `script` against the server at `address`.
///
/// # Errors
///
/// If the server is gone; wrong replies are in [`Summary::failures`].
pub fn play(script: &Script, source: &str, address: &Address) -> io::Result<Summary> {
    let lines: Vec<&str> = source.lines().collect();
    let mut summary = Summary::default();
    for section in &script.sections {
        summary.sections += 1;
        let mut stage = Stage::new(address)?;
        match stage.play(section, &lines) {
            Ok(replies) => summary.replies += replies,
            Err(failure) => summary.failures.push(*failure),
        }
    }
    Ok(summary)
}

/// The connections of one section.
pub(super) struct Stage<'a> {
    address: &'a Address,
    control: Client,
    pub(super) connections: BTreeMap<usize, Client>,
    last_command: BTreeMap<usize, String>,
}

impl<'a> Stage<'a> {
    /// Empties the server and opens the first connection.
    pub(super) fn new(address: &'a Address) -> io::Result<Self> {
        let mut control = Client::connect(address)?;
        for reset in [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"], &["FUNCTION", "FLUSH"]] {
            control.call(reset)?;
        }
        Ok(Self { address, control, connections: BTreeMap::new(), last_command: BTreeMap::new() })
    }

    pub(super) fn connection(&mut self, number: usize) -> io::Result<&mut Client> {
        if !self.connections.contains_key(&number) {
            let mut client = Client::connect(self.address)?;
            client.set_timeout(REPLY_LIMIT)?;
            self.connections.insert(number, client);
        }
        Ok(self.connections.get_mut(&number).expect("inserted above"))
    }

    /// Sends the step's command. Returns `false` if the step expects a reply instead.
    pub(super) fn send(&mut self, step: &Step) -> io::Result<bool> {
        let client = self.connection(step.connection)?;
        let shown = match &step.action {
            Action::Send(words) => {
                client.send(words)?;
                words.iter().map(|w| Escaped(w).to_string()).collect::<Vec<_>>().join(" ")
            }
            Action::SendRaw(bytes) => {
                client.send_raw(bytes)?;
                Escaped(bytes).to_string()
            }
            _ => return Ok(false),
        };
        self.last_command.insert(step.connection, shown);
        Ok(true)
    }

    /// Waits until the server has processed everything sent before: it serves its clients in turn.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        for _ in 0..2 {
            self.control.call(&["PING"])?;
        }
        Ok(())
    }

    fn play(&mut self, section: &Section, lines: &[&str]) -> Result<usize, Box<Failure>> {
        let mut replies = 0;
        for step in &section.steps {
            let outcome = self.step(step);
            let sends = matches!(step.action, Action::Send(_) | Action::SendRaw(_));
            replies += usize::from(!sends);
            let got = match outcome {
                Ok(None) => continue,
                Ok(Some(reply)) => reply.to_string(),
                Err(error) => error.to_string(),
            };
            let expected = lines.get(step.line - 1).copied().unwrap_or_default();
            return Err(self.failure(section, step, expected, got));
        }
        self.nothing_left(section)?;
        Ok(replies)
    }

    /// Plays one step. Returns the reply if it is wrong.
    fn step(&mut self, step: &Step) -> io::Result<Option<Reply>> {
        if self.send(step)? {
            return Ok(None);
        }
        match &step.action {
            Action::Expect(pattern) => {
                let reply = self.connection(step.connection)?.read()?;
                Ok(if pattern.matches(&reply) { None } else { Some(reply) })
            }
            Action::ExpectSilence => {
                self.settle()?;
                self.connection(step.connection)?.read_within(SILENCE)
            }
            _ => match self.connection(step.connection)?.read() {
                Err(error) if closed(&error) => Ok(None),
                Err(error) => Err(error),
                Ok(reply) => Ok(Some(reply)),
            },
        }
    }

    /// Fails if a reply is left over: an unexpected reply is as wrong as a missing one.
    fn nothing_left(&mut self, section: &Section) -> Result<(), Box<Failure>> {
        let numbers: Vec<usize> = self.connections.keys().copied().collect();
        for number in numbers {
            let left =
                self.connection(number).and_then(|c| c.read_within(Duration::from_millis(1)));
            if let Ok(Some(reply)) = left {
                let Some(step) = section.steps.last() else { return Ok(()) };
                let step = Step { connection: number, ..step.clone() };
                return Err(self.failure(section, &step, "no further reply", reply.to_string()));
            }
        }
        Ok(())
    }

    fn failure(&self, section: &Section, step: &Step, expected: &str, got: String) -> Box<Failure> {
        Box::new(Failure {
            line: step.line,
            section: section.title.clone(),
            command: self.last_command.get(&step.connection).cloned().unwrap_or_default(),
            expected: expected.to_owned(),
            got,
        })
    }
}

/// Returns `true` if the error means that the other side closed the connection.
pub(super) fn closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}
