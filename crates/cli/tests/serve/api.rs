//! The API against its own description: schemathesis draws requests from `/openapi.json`, good and bad
//! ones, and checks every answer against it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::client::MarketProcess;

/// Requests that are drawn for each operation, beside those that cover every bound of its input.
const EXAMPLES: &str = "5";
/// What an answer must be: no 5xx, and status, kind and shape as described.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance,unsupported_method,allow_header_conformance";

/// Where `cargo xtask test` puts programs of Python.
fn schemathesis() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| root.join("target"));
    target.join("clients/venv/bin/schemathesis")
}

/// Draws requests as somebody who is logged in.
fn answers_as_described(phone: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let served = MarketProcess::start(&folder.path().join("data"), &["--log", "error"]);
    let token = served.client().log_in(phone);
    let output = Command::new(schemathesis())
        .current_dir(folder.path())
        .args(["run", &format!("http://{}/openapi.json", served.address)])
        .args(["--header", &format!("authorization: Bearer {token}")])
        .args(["--checks", CHECKS, "--max-examples", EXAMPLES])
        .args(["--phases", "examples,coverage,fuzzing", "--generation-database", "none"])
        // Afterwards nobody would be logged in.
        .args(["--exclude-path", "/user/logout", "--continue-on-failure", "--no-color"])
        .output()
        .expect("`cargo xtask test` installs schemathesis");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("Coverage") && said.contains("passed"), "{said}");
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn every_answer_is_as_described_for_a_user() {
    answers_as_described("10000000001");
}

#[test]
fn every_answer_is_as_described_for_an_admin() {
    answers_as_described("10000000000");
}
