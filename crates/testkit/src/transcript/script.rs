//! A transcript as parsed lines, numbered for messages.

use std::fmt;

use super::lexer::Lexer;
use super::pattern::Pattern;

/// A parsed transcript.
#[derive(Debug, Clone)]
pub struct Script {
    pub(super) sections: Vec<Section>,
}

#[derive(Debug, Clone)]
pub(super) struct Section {
    pub(super) title: String,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Clone)]
pub(super) struct Step {
    /// 1-based line number.
    pub(super) line: usize,
    /// 1-based number of the connection.
    pub(super) connection: usize,
    pub(super) action: Action,
}

#[derive(Debug, Clone)]
pub(super) enum Action {
    Send(Vec<Vec<u8>>),
    SendRaw(Vec<u8>),
    Expect(Pattern),
    ExpectSilence,
    ExpectClosed,
}

/// Maximum connections per section.
const MAX_CONNECTIONS: usize = 64;

/// A line of a transcript that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// 1-based line number.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for SyntaxError {}

impl Script {
    /// Parses a transcript.
    ///
    /// # Errors
    ///
    /// The first line that cannot be parsed.
    pub fn parse(source: &str) -> Result<Self, SyntaxError> {
        let mut sections: Vec<Section> = Vec::new();
        for (at, line) in source.lines().enumerate() {
            let number = at + 1;
            let fail = |message: String| SyntaxError { line: number, message };
            if let Some(title) = line.strip_prefix("== ") {
                sections.push(Section { title: title.trim().to_owned(), steps: Vec::new() });
                continue;
            }
            let Some((connection, action)) = parse_line(line).map_err(fail)? else { continue };
            let Some(section) = sections.last_mut() else {
                return Err(fail("a section begins with `== title`".into()));
            };
            section.steps.push(Step { line: number, connection, action });
        }
        Ok(Self { sections })
    }
}

/// Parses one line; `None` for a comment or an empty line.
pub(super) fn parse_line(line: &str) -> Result<Option<(usize, Action)>, String> {
    if line.trim().is_empty() || line.starts_with('#') || line.starts_with("== ") {
        return Ok(None);
    }
    if let Some(rest) = line.strip_prefix(">> ") {
        let (connection, rest) = connection(rest)?;
        let mut lexer = Lexer::new(rest);
        let bytes = lexer.words()?.concat();
        return Ok(Some((connection, Action::SendRaw(bytes))));
    }
    if let Some(rest) = line.strip_prefix("> ") {
        let (connection, rest) = connection(rest)?;
        let words = Lexer::new(rest).words()?;
        if words.is_empty() {
            return Err("a command needs a name".into());
        }
        return Ok(Some((connection, Action::Send(words))));
    }
    if let Some(rest) = line.strip_prefix("< ") {
        let (connection, rest) = connection(rest)?;
        let action = match rest.trim() {
            "silent" => Action::ExpectSilence,
            "closed" => Action::ExpectClosed,
            reply => Action::Expect(Pattern::parse(reply)?),
        };
        return Ok(Some((connection, action)));
    }
    Err("a line begins with `> `, `>> `, `< `, `== ` or `#`".into())
}

fn connection(rest: &str) -> Result<(usize, &str), String> {
    let Some(tail) = rest.trim_start().strip_prefix('@') else { return Ok((1, rest)) };
    let (number, tail) = tail.split_once(' ').unwrap_or((tail, ""));
    match number.parse() {
        Ok(number) if (1..=MAX_CONNECTIONS).contains(&number) => Ok((number, tail)),
        _ => Err(format!("connections are @1 to @{MAX_CONNECTIONS}")),
    }
}
