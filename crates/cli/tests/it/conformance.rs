//! Plays `conformance/*.txt` against the engine and against redis-server.
//!
//! Each file is recorded from redis-server 7.0.15 (`cargo xtask record`), so a failure there means
//! that a line was edited by hand or depends on time.

use std::fs;
use std::path::Path;

use seawall_testkit::ServerProcess;
use seawall_testkit::transcript::{Script, play};

use crate::{redis, seawall};

fn play_all(start: fn() -> ServerProcess) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let mut wrong = Vec::new();
    let mut replies = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ext| ext != "txt") {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let source = fs::read_to_string(&path).unwrap();
        let script = Script::parse(&source).unwrap_or_else(|error| panic!("{name}, {error}"));
        // A new server for each file: one that goes down takes no other file with it.
        let server = start();
        match play(&script, &source, &server.address()) {
            Ok(summary) => {
                replies += summary.replies;
                wrong.extend(summary.failures.iter().map(|failure| format!("{name}, {failure}")));
            }
            Err(error) => wrong.push(format!("{name}: {error}; {}", server.log())),
        }
    }
    assert!(replies > 0, "no transcript was found");
    assert!(wrong.is_empty(), "{} sections differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn transcripts_hold_on_redis_server() {
    play_all(redis);
}

#[test]
fn transcripts_hold_on_the_engine() {
    play_all(seawall);
}
