//! `cargo xtask record`: completes transcripts from a private redis-server.

use std::fs;
use std::path::PathBuf;

use seawall_testkit::ServerProcess;
use seawall_testkit::transcript::{Script, play, record};

use crate::outcome::{Context, Failure, Outcome};

/// Records `files` in place and plays them once more, to detect unstable replies.
pub(crate) fn run(files: &[PathBuf]) -> Outcome {
    let server = ServerProcess::redis()?;
    for file in files {
        let shown = file.display();
        let source = fs::read_to_string(file).context(format!("cannot read {shown}"))?;
        let recorded = record(&source, &server.address()).context(format!("in {shown}"))?;
        if recorded != source {
            fs::write(file, &recorded).context(format!("cannot write {shown}"))?;
        }
        let script = Script::parse(&recorded).context(format!("in {shown}"))?;
        let summary = play(&script, &recorded, &server.address())?;
        if let Some(failure) = summary.failures.first() {
            return Err(Failure::new(format!(
                "{shown} does not repeat on redis-server itself; loosen this reply by hand: \
                 {failure}"
            )));
        }
        println!("ok    {shown}: {} replies in {} sections", summary.replies, summary.sections);
    }
    Ok(())
}
