//! Fills in the replies of a transcript from a server that is known to be right.
//!
//! Only commands without replies are recorded; existing replies stay as they were written, so
//! patterns survive. A line `< unordered` or `< pairs` alone is completed.

use std::io;
use std::time::Duration;

use super::run::{Stage, closed};
use super::script::{Action, Step, parse_line};
use crate::client::Address;
use crate::reply::Reply;

/// Time after which a command without a reply counts as blocked.
const PATIENCE: Duration = Duration::from_millis(150);

/// Returns the text of `source`, with missing replies filled in from the server at `address`.
///
/// # Errors
///
/// If a line cannot be parsed or the server is gone.
pub fn record(source: &str, address: &Address) -> io::Result<String> {
    let mut out = String::with_capacity(source.len() * 2);
    let mut stage = Stage::new(address)?;
    let lines: Vec<&str> = source.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        out.push_str(line);
        out.push('\n');
        if line.starts_with("== ") {
            stage = Stage::new(address)?;
        }
        let fail = |message: String| io::Error::other(format!("line {at}: {message}"));
        let Some((connection, action)) = parse_line(line).map_err(fail)? else { continue };
        stage.send(&Step { line: at, connection, action })?;

        // Replies that the file has are read and skipped; missing ones are written.
        let mut described = false;
        while let Some(expected) = lines.get(at).filter(|line| line.starts_with("< ")) {
            at += 1;
            described = true;
            if let Some(word @ ("unordered" | "pairs")) = expected.strip_prefix("< ") {
                if let Some(reply) = next_reply(&mut stage, connection)? {
                    out.push_str(&format!("< {word} {reply}\n"));
                }
                continue;
            }
            out.push_str(expected);
            out.push('\n');
            let fail = |message: String| io::Error::other(format!("line {at}: {message}"));
            if let Some((from, Action::Expect(_))) = parse_line(expected).map_err(fail)? {
                stage.connection(from)?.read()?;
            }
        }
        if !described {
            write_missing(&mut out, &mut stage, connection)?;
        }
    }
    Ok(out)
}

fn next_reply(stage: &mut Stage<'_>, connection: usize) -> io::Result<Option<Reply>> {
    stage.connection(connection)?.read_within(PATIENCE)
}

/// Writes everything that arrived after one command: its own replies first, then those on other
/// connections.
fn write_missing(out: &mut String, stage: &mut Stage<'_>, sender: usize) -> io::Result<()> {
    let mut order: Vec<usize> = vec![sender];
    order.extend(stage.connections.keys().copied().filter(|&number| number != sender));
    for number in order {
        let mark = if number == 1 { String::new() } else { format!("@{number} ") };
        let mut patience = if number == sender { PATIENCE } else { Duration::from_millis(5) };
        loop {
            match stage.connection(number)?.read_within(patience) {
                Ok(Some(reply)) => out.push_str(&format!("< {mark}{reply}\n")),
                Ok(None) => break,
                Err(error) if closed(&error) => {
                    if number == sender {
                        out.push_str(&format!("< {mark}closed\n"));
                    }
                    break;
                }
                Err(error) => return Err(error),
            }
            patience = Duration::from_millis(2);
        }
    }
    Ok(())
}
