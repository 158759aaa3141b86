//! Sends damaged bytes to two servers and compares the answers.
//!
//! Commands are encoded correctly and then damaged in a few places: wrong lengths, bytes that are
//! missing, doubled or changed, truncated endings. Both servers get the same bytes on a new
//! connection and must send the same before either side closes it. The commands are harmless, so
//! that no damage can turn one into something that stops a server.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::report::Found;
use crate::builder::ServerBuilder;
use crate::client::encode;
use crate::process::ServerProcess;
use crate::reply::Escaped;
use crate::rng::Rng;

/// Maximum time for a server to answer and close the connection.
const PATIENCE: Duration = Duration::from_secs(60);

const COMMANDS: [&[&str]; 8] = [
    &["PING"],
    &["ECHO", "words"],
    &["SET", "k", "value"],
    &["GET", "k"],
    &["STRLEN", "k"],
    &["MGET", "k", "none", "k"],
    &["EXISTS", "k"],
    &["GETRANGE", "k", "0", "-1"],
];

/// Sends `rounds` damaged dialogues to both servers. Returns the first few that differ.
///
/// # Errors
///
/// If a server cannot be started or reached.
pub fn damaged_bytes(
    redis: &ServerBuilder,
    ours: &ServerBuilder,
    seed: u64,
    rounds: u64,
) -> io::Result<Vec<Found>> {
    const MOST: usize = 5;
    let (redis, ours) = (redis.start()?, ours.start()?);
    let mut rng = Rng::new(seed);
    let mut found = Vec::new();
    for episode in 0..rounds {
        let wire = damaged(&mut rng);
        let theirs = answer(&redis, &wire)?;
        let mine = answer(&ours, &wire).map_err(|error| {
            let shown = Escaped(&wire);
            io::Error::new(error.kind(), format!("{error} after {shown}: {}", ours.log()))
        })?;
        if theirs != mine {
            found.push(Found {
                episode,
                commands: vec![format!("raw \"{}\"", Escaped(&wire))],
                redis: Escaped(&theirs).to_string(),
                ours: Escaped(&mine).to_string(),
            });
            if found.len() == MOST {
                break;
            }
        }
    }
    Ok(found)
}

/// Returns everything that a server sends for `wire` until the connection ends.
fn answer(server: &ServerProcess, wire: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port()))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(wire)?;
    match stream.shutdown(Shutdown::Write) {
        // The server was faster and has closed the connection; its answer can still be read.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
        outcome => outcome?,
    }
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Ok(_) => Ok(said),
        // A server that closes with unread input resets the connection; its answer counts.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(said),
        Err(error) => Err(error),
    }
}

fn damaged(rng: &mut Rng) -> Vec<u8> {
    let mut wire = Vec::new();
    for _ in 0..1 + rng.below(4) {
        let command = rng.pick(&COMMANDS);
        if rng.chance(20) {
            wire.extend_from_slice(command.join(" ").as_bytes());
            wire.extend_from_slice(b"\r\n");
        } else {
            encode(&mut wire, command);
        }
    }
    for _ in 0..rng.below(4) {
        damage(&mut wire, rng);
    }
    // Redis: 7.0 searches for the end of a header as in a C string, so after a NUL it waits for
    // ever.
    wire.retain(|&byte| byte != 0);
    wire
}

fn damage(wire: &mut Vec<u8>, rng: &mut Rng) {
    const BYTES: &[u8] = b"*$:+-\r\n0123456789 '\"\\x\xff";
    if wire.is_empty() {
        return;
    }
    let at = rng.below(wire.len());
    match rng.below(7) {
        0 => wire[at] = *rng.pick(BYTES),
        1 => wire.insert(at, *rng.pick(BYTES)),
        2 => drop(wire.remove(at)),
        3 => wire.truncate(at),
        4 => {
            let end = (at + 1 + rng.below(8)).min(wire.len());
            let piece = wire[at..end].to_vec();
            wire.splice(at..at, piece);
        }
        5 => lie_about_a_length(wire, rng),
        _ => {
            let flipped = wire[at] ^ (1 << rng.below(8));
            wire[at] = flipped;
        }
    }
}

/// Replaces the number after some `*` or `$`.
fn lie_about_a_length(wire: &mut Vec<u8>, rng: &mut Rng) {
    const LIES: [&str; 12] = [
        "0",
        "-1",
        "-2",
        "1",
        "2",
        "99",
        "1048577",
        "536870913",
        "9223372036854775807",
        "99999999999999999999",
        "x",
        "",
    ];
    let marks: Vec<usize> = (0..wire.len()).filter(|&at| matches!(wire[at], b'*' | b'$')).collect();
    if marks.is_empty() {
        return;
    }
    let start = rng.pick(&marks) + 1;
    let digits = wire[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    wire.splice(start..start + digits, rng.pick(&LIES).bytes());
}
