//! redis-py, ioredis and redis-cli against the binary, and against redis-server first: a script
//! that fails there is wrong itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use seawall_testkit::ServerProcess;

use crate::{redis, seawall};

/// Where `cargo xtask test` puts the clients.
fn clients() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    target.unwrap_or_else(|| root.join("target")).join("clients")
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients").join(name)
}

fn check(what: &str, command: &mut Command) {
    let hint = "`cargo xtask test` installs the clients";
    let out: Output = command.output().unwrap_or_else(|e| panic!("{what}: {e}; {hint}"));
    assert!(
        out.status.success(),
        "{what} failed ({hint}):\n{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
}

fn redis_py(server: &ServerProcess) {
    let python = clients().join("venv/bin/python");
    let mut command = Command::new(python);
    check("redis-py", command.arg(script("redis_py.py")).arg(server.port().to_string()));
}

fn ioredis(server: &ServerProcess) {
    let mut command = Command::new("node");
    command.env("NODE_PATH", clients().join("node/node_modules"));
    check("ioredis", command.arg(script("ioredis.js")).arg(server.port().to_string()));
}

/// What `redis-cli` prints for some arguments and input.
fn redis_cli(server: &ServerProcess, args: &[&str], input: &str) -> String {
    use std::io::Write;
    use std::process::Stdio;
    let mut child = Command::new("redis-cli")
        .args(["-p", &server.port().to_string()])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

#[test]
fn redis_py_is_content() {
    redis_py(&redis());
    redis_py(&seawall());
}

#[test]
fn ioredis_is_content() {
    ioredis(&redis());
    ioredis(&seawall());
}

#[test]
fn redis_cli_prints_the_same_for_both() {
    let (theirs, ours) = (redis(), seawall());
    let dialogues: [(&[&str], &str); 9] = [
        (&["SET", "k", "v"], ""),
        (&["--no-raw", "GET", "k"], ""),
        (&[], "RPUSH l a b c\nLRANGE l 0 -1\nLPOP nothing\nNOSUCH x\nMULTI\nINCR n\nEXEC\n"),
        (
            &["-3", "--no-raw"],
            "HSET h f v\nHGETALL h\nSADD s x\nSMEMBERS s\nZADD z 1.5 m\nZSCORE z m\n",
        ),
        (&["--eval", "/dev/stdin", "a", "b", ",", "x"], "return {KEYS[1], KEYS[2], ARGV[1]}"),
        (&["-x", "SET", "piped"], "from the input"),
        (&["--csv", "LRANGE", "l", "0", "-1"], ""),
        (&["-n", "3", "DBSIZE"], ""),
        (&["--scan", "--pattern", "piped"], ""),
    ];
    for (args, input) in dialogues {
        let expected = redis_cli(&theirs, args, input);
        assert_eq!(redis_cli(&ours, args, input), expected, "redis-cli {args:?}");
    }
    let wire = "*3\r\n$3\r\nSET\r\n$1\r\np\r\n$1\r\n1\r\n".repeat(100);
    let piped = redis_cli(&ours, &["--pipe"], &wire);
    assert!(piped.contains("errors: 0, replies: 100"), "{piped}");
    let big = redis_cli(&ours, &["--bigkeys"], "");
    assert!(big.contains("Biggest"), "{big}");
}
