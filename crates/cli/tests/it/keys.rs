//! `seawall keys`, as people run it: the binary against real servers and files.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use seawall_testkit::{Cluster, Reply, ServerProcess, TestDatabase};
use serde_json::Value;

/// The binary without settings from this environment, in an empty folder.
fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SEAWALL_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = program(folder);
    command.arg("keys").args(args);
    command
}

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn run(args: &[&str]) -> Said {
    let folder = tempfile::tempdir().expect("a folder");
    run_in(folder.path(), args)
}

fn run_in(folder: &Path, args: &[&str]) -> Said {
    let Output { status, stdout, stderr } = command(folder, args).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Said { code: status.code(), out: text(stdout), err: text(stderr) }
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.out)
        .unwrap_or_else(|error| panic!("{error}: {} {}", said.out, said.err))
}

/// A server with one key of each kind worth a row.
fn server() -> ServerProcess {
    let server = ServerProcess::redis().expect("it starts");
    let mut client = server.connect().expect("it answers");
    client.call(&["SET", "page:1", &"x".repeat(50_000)]).expect("written");
    client.call(&["SET", "page:2", "small", "EX", "1000"]).expect("written");
    let fill = "for i = 1, 12000 do redis.call('HSET', KEYS[1], i, i) end";
    client.call(&["EVAL", fill, "1", "cart:big,\"one\""]).expect("written");
    server
}

#[test]
fn big_keys_of_a_server_in_every_form() {
    let server = server();
    let url = server.url();
    let said = run(&["big", "--redis", &url]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(
        said.out.contains("3 keys") && said.out.contains("1 critical, 1 worth a look"),
        "{}",
        said.out
    );
    assert!(said.out.contains("page:1") && said.out.contains("SAMPLES 5"), "{}", said.out);
    assert_eq!(said.err, "", "no progress where there is no terminal");

    let said = run(&["big", "--redis", &url, "--output", "json", "--top", "1"]);
    let report = json(&said);
    assert_eq!(report["end"], "complete");
    assert_eq!(report["totals"]["keys"], 3);
    assert_eq!(report["largest"].as_array().expect("a list").len(), 1);
    assert_eq!(report["flagged"][0]["key"], "cart:big,\"one\"");
    assert_eq!(report["flagged"][0]["members"], 12_000);
    assert_eq!(report["byPrefix"]["page"]["keys"], 2);
    assert_eq!(report["totals"]["withoutLifetime"], 2);

    let folder = tempfile::tempdir().expect("a folder");
    let args = ["big", "--redis", &url, "--output", "csv", "--out", "big.csv", "--type", "hash"];
    let said = run_in(folder.path(), &args);
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "{}", said.err);
    let text = fs::read_to_string(folder.path().join("big.csv")).expect("it is written");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[1].starts_with("\"cart:big,\"\"one\"\"\",hash,"), "{text}");
    assert!(lines[1].contains(",12000,critical,,"), "{text}");
}

#[test]
fn findings_are_logged_and_the_table_is_made() {
    let server = server();
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["big", "--redis", &server.url(), "--log", "sqlite:log.db"];
    for _ in 0..2 {
        let said = run_in(folder.path(), &args);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.err.contains("2 rows inserted into big_key_log"), "{}", said.err);
    }
    let database = TestDatabase::create().expect("MariaDB answers");
    let login = database.url().strip_prefix("mysql://").and_then(|rest| rest.split_once('@'));
    let (login, place) = login.expect("user:password@place");
    let (user, password) = login.split_once(':').expect("user:password");
    let log = format!("mysql://{user}@{place}");
    for rows in ["2", "4"] {
        let mut command = command(folder.path(), &["big", "--redis", &server.url(), "--log", &log]);
        let said = command.env("SEAWALL_DATABASE_PASSWORD", password).output().expect("it runs");
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        let count = "SELECT COUNT(*) FROM big_key_log WHERE members >= 12000 AND bytes > 10000";
        assert_eq!(database.query(count).expect("the table is there").trim(), rows);
    }
    let said = run(&["big", "--redis", &server.url(), "--log", "mysql://host/db"]);
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.contains("sqlite:PATH") && said.err.contains("mysql://USER@HOST"),
        "{}",
        said.err
    );
}

#[test]
fn big_keys_of_a_file_equal_those_of_the_server() {
    let server = server();
    server.connect().expect("it answers").call(&["SAVE"]).expect("saved");
    let path = server.dir().join("dump.rdb");
    let file = path.to_str().expect("text");
    let report = json(&run(&["big", "--rdb", file, "--output", "json"]));
    assert_eq!((&report["end"], &report["totals"]["keys"]), (&"complete".into(), &3.into()));
    assert_eq!(report["flagged"][0]["members"], 12_000);

    let whole = fs::read(&path).expect("it is there");
    let folder = tempfile::tempdir().expect("a folder");
    let cut = folder.path().join("cut.rdb");
    fs::write(&cut, &whole[..whole.len() - 20]).expect("written");
    let said = run(&["big", "--rdb", cut.to_str().expect("text"), "--output", "json"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("is cut off at byte"), "{}", said.err);
    assert_eq!(json(&said)["end"], "failed", "what was found before is there");
    let said = run(&["big", "--rdb", "/no/such/file"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("/no/such/file"), "{}", said.err);
}

#[test]
fn wrong_input_is_named_and_nobody_there_is_another_code() {
    for (args, wanted) in [
        (&["big", "--redis", "memcached://x"][..], "allowed are"),
        (&["big", "--redis", "redis://:geheim@h"], "SEAWALL_REDIS_PASSWORD"),
        (&["big", "--redis", "embedded:"], "engine.sock"),
        (&["big"], "which Redis?"),
        (&["big", "--rate", "fast"], "--rate"),
        (&["big", "--redis", "redis://h", "--type", "tree"], "it takes string, list"),
        (&["big", "--redis", "redis://h", "--threshold", "x"], "hash.members=500,5000"),
        (&["big", "--redis", "redis://h", "--separator", "ab"], "one ASCII character"),
        (&["big", "--redis", "redis://h", "--top", "99999999"], "at most"),
        (&["big", "--redis", "redis://h", "--rdb", "f"], "--rdb"),
        (&["hot", "--redis", "redis://h", "--monitor", "61"], "1 to 60 seconds"),
        (&["delete"], "KEY"),
        (&["delete", "--redis", "redis://h", "k"], "--yes"),
        (&["delete", "--redis", "redis://h", "--yes", r"a\b"], r"written \\"),
        (&["delete", "--redis", "redis://h", "--match", "*", "--yes", "k"], "--match"),
        (&["delete", "--redis", "redis://h", "--type", "hash", "--yes"], "--match"),
        (&["hot", "--redis", "redis://h", "--lines", "5"], "--monitor"),
        (&["hot", "--redis", "redis://h", "--lines", "5", "--tracker", "5"], "--lines"),
        (&["hot", "--redis", "redis://h", "--lines", "5", "--fleet"], "--lines"),
        (&["hot", "--redis", "redis://h", "--prefix", "p"], "--fleet"),
        (&["hot", "--redis", "redis://h", "--prefix", "p", "--monitor", "5"], "--prefix"),
        (&["hot", "--redis", "redis://h", "--prefix", "p", "--tracker", "5"], "--prefix"),
        (&["skew", "--redis", "redis://h", "--lines", "5"], "--monitor"),
        (&["skew", "--output", "xml"], "table"),
    ] {
        let said = run(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(
            said.err.contains(wanted) && !said.err.contains("geheim"),
            "{args:?}: {}",
            said.err
        );
    }
    let said = run(&["big", "--redis", "redis://127.0.0.1:1"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("cannot be reached"), "{}", said.err);
    let help = run(&["big", "--help"]);
    assert!(help.out.trim_start().starts_with("Examples:"), "{}", help.out);
}

#[test]
fn an_interrupt_prints_what_was_found() {
    let server = server();
    let fill = "for i = 1, 5000 do redis.call('SET', 'k:' .. i, i) end";
    server.connect().expect("it answers").call(&["EVAL", fill, "0"]).expect("written");
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["big", "--redis", &server.url(), "--rate", "100", "--output", "json"];
    let mut command = command(folder.path(), &args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    // It scans once its connection shows a SCAN.
    let mut client = server.connect().expect("it answers");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let Reply::Bulk(clients) = client.call(&["CLIENT", "LIST"]).expect("it answers") else {
            panic!("CLIENT LIST is text");
        };
        let clients = String::from_utf8_lossy(&clients);
        if clients.contains("cmd=strlen") || clients.contains("cmd=scan") {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "it does not scan");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["end"], "interrupted");
    assert!(String::from_utf8_lossy(&output.stderr).contains("found so far"));
}

#[test]
fn a_cluster_is_asked_on_its_replicas_and_its_skew_is_shown() {
    let cluster = Cluster::start().expect("it starts");
    let url = cluster.url();
    let report = json(&run(&["big", "--redis", &url, "--output", "json"]));
    let asked = report["asked"].as_array().expect("a list");
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|one| one["role"] == "replica"), "{asked:?}");
    let skew = json(&run(&["skew", "--redis", &url, "--output", "json"]));
    assert_eq!(skew["nodes"].as_array().expect("a list").len(), 3);
    let shown = run(&["skew", "--redis", &url]);
    assert!(
        shown.code == Some(0) && shown.out.contains("largest share against the mean"),
        "{}",
        shown.out
    );
}

#[test]
fn hot_keys_say_what_to_set_and_are_shown() {
    let server = server();
    let url = server.url();
    let said = run(&["hot", "--redis", &url]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("allkeys-lfu") && said.err.contains("--monitor"), "{}", said.err);
    let mut client = server.connect().expect("it answers");
    client.call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]).expect("it is set");
    client.call(&["SET", "hot", "1"]).expect("written");
    for _ in 0..300 {
        client.call(&["GET", "hot"]).expect("read");
    }
    let report = json(&run(&["hot", "--redis", &url, "--output", "json"]));
    assert_eq!(report["keys"][0]["key"], "hot", "{report}");
    let fleet = json(&run(&["hot", "--redis", &url, "--fleet", "--output", "json"]));
    assert_eq!(fleet["keys"].as_array().map(Vec::len), Some(0), "nobody uses the cache: {fleet}");
    let said = run(&["hot", "--redis", &url, "--monitor", "1", "--output", "csv"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.starts_with("key,score,reads,writes") && said.err.contains("MONITOR costs"));
}

#[test]
fn keys_are_deleted_when_that_is_meant() {
    let server = server();
    let url = server.url();
    let said = run(&["delete", "--redis", &url, "--match", "page:*", "--dry-run"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(
        said.out.contains("2 keys match") && said.out.contains("nothing was deleted"),
        "{}",
        said.out
    );
    let said = run(&["delete", "--redis", &url, "--match", "page:*", "--yes"]);
    assert!(
        said.code == Some(0) && said.out.contains("2 keys deleted"),
        "{} {}",
        said.out,
        said.err
    );
    let said = run(&["delete", "--redis", &url, "cart:big,\"one\"", "nobody", "--yes"]);
    assert!(said.out.contains("1 keys deleted, 1 were not there"), "{}", said.out);
    let mut client = server.connect().expect("it answers");
    assert_eq!(client.call(&["DBSIZE"]).expect("it answers"), Reply::Int(0));
}

/// `--type` narrows a pattern; with names it must not be passed over.
#[test]
fn a_type_beside_names_deletes_nothing() {
    let server = server();
    let url = server.url();
    for args in [
        &["delete", "--redis", &url, "--type", "hash", "--yes", "page:1"][..],
        &["delete", "--redis", &url, "--yes", "page:1", "--type", "string"],
    ] {
        let said = run(args);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{}", said.err);
        assert!(said.err.contains("--type"), "{}", said.err);
    }
    let mut client = server.connect().expect("it answers");
    assert_eq!(client.call(&["DBSIZE"]).expect("it answers"), Reply::Int(3));
}

/// What `keys big` prints in any form is taken back as it is printed; so are bytes as they are.
#[test]
fn binary_keys_are_deleted_by_the_name_that_is_printed() {
    let keys = [
        &b"b\xffk"[..],
        br"c:\x41",
        br"w\\\dir",
        b"tab\tand\nline",
        b"caf\xc3\xa9 \xc2\x85",
        b"AAA",
    ];
    let server = ServerProcess::redis().expect("it starts");
    let url = server.url();
    let mut client = server.connect().expect("it answers");
    let mut fill = || {
        for key in keys {
            client.call(&[&b"SET"[..], key, &[b'x'; 100]]).expect("written");
        }
    };
    let mut check = server.connect().expect("it answers");
    let mut left = || check.call(&["DBSIZE"]).expect("it answers");
    let of_json = || {
        let report = json(&run(&["big", "--redis", &url, "--output", "json"]));
        let largest = report["largest"].as_array().expect("a list").clone();
        largest.iter().map(|one| one["key"].as_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    let of_table = || {
        let said = run(&["big", "--redis", &url]);
        let rows = said.out.lines().skip_while(|line| !line.contains("largest by memory")).skip(2);
        let rows = rows.take_while(|line| !line.is_empty());
        // The key is the last column, behind the address of its node.
        let behind =
            |line: &str| Some(line.split_once("127.0.0.1:")?.1.split_once("  ")?.1.to_owned());
        rows.map(|line| behind(line).expect("a node and a key")).collect::<Vec<_>>()
    };
    for (form, names) in [("json", &of_json as &dyn Fn() -> Vec<String>), ("table", &of_table)] {
        fill();
        assert_eq!(left(), Reply::Int(6));
        let names = names();
        assert_eq!(names.len(), 6, "{form}: {names:?}");
        let mut args = vec!["delete", "--redis", &url, "--yes"];
        args.extend(names.iter().map(String::as_str));
        let said = run(&args);
        assert!(
            said.out.contains("6 keys deleted, 0 were not there"),
            "{form}: {} {}",
            said.out,
            said.err
        );
        assert_eq!(left(), Reply::Int(0));
    }

    // One of them as bytes, and what would be deleted is said as it is printed elsewhere.
    fill();
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = OsStr::from_bytes(b"b\xffk");
    for (flag, wanted) in
        [("--dry-run", r"  b\xffk"), ("--yes", "1 keys deleted, 0 were not there")]
    {
        let mut command = command(folder.path(), &["delete", "--redis", &url, flag]);
        let said = command.arg(bytes).output().expect("it runs");
        let out = String::from_utf8(said.stdout).expect("text");
        assert!(said.status.success() && out.contains(wanted), "{out}");
    }
    assert_eq!(left(), Reply::Int(5));
    let said = run(&["delete", "--redis", &url, "--yes", r"\x41A\x41"]);
    assert!(said.out.contains("1 keys deleted"), "{} {}", said.out, said.err);
}

#[test]
fn findings_name_the_database_of_the_url() {
    let server = ServerProcess::redis().expect("it starts");
    let mut client = server.connect().expect("it answers");
    client.call(&["SELECT", "5"]).expect("it has sixteen");
    client.call(&["SET", "five", "1"]).expect("written");
    let url = format!("{}/5", server.url().trim_end_matches('/'));
    let report = json(&run(&["big", "--redis", &url, "--output", "json"]));
    assert_eq!(
        (&report["totals"]["keys"], &report["largest"][0]["database"]),
        (&1.into(), &5.into())
    );
    let said = run(&["big", "--redis", &url, "--output", "csv"]);
    let rows: Vec<Vec<_>> = said.out.lines().map(|line| line.split(',').collect()).collect();
    let column = rows[0].iter().position(|name| *name == "database").expect("it is there");
    assert_eq!((rows[1][0], rows[1][column]), ("five", "5"), "{}", said.out);
}

#[test]
fn without_a_url_the_embedded_engine_of_serve_is_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut serve = program(folder.path());
    let mut child = serve
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&data)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let out = BufReader::new(child.stdout.take().expect("it is piped"));
    let ready = out.lines().map_while(Result::ok).any(|line| line.contains("Page"));
    assert!(ready, "it serves");
    let data = data.to_str().expect("text");
    let said = run(&["big", "--data", data, "--output", "json"]);
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("no --redis: asking the embedded engine at"), "{}", said.err);
    assert!(json(&said)["totals"]["keys"].as_u64().expect("a number") > 0);
}
