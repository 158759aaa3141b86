//! Starting, stopping and listening.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use seawall_testkit::{Address, Client, free_port};

use crate::{SEAWALL, seawall, seawall_builder};

#[test]
fn sigterm_ends_the_engine_within_a_second() {
    let mut server = seawall();
    let mut client = server.connect().unwrap();
    assert_eq!(client.call(&["PING"]).unwrap().text(), "PONG");
    let status = server.terminate(Duration::from_secs(1)).unwrap();
    assert!(status.success(), "{status}: {}", server.log());
    assert!(client.read().is_err());
}

#[test]
fn it_says_when_it_is_ready() {
    let server = seawall();
    assert!(server.log().to_lowercase().contains("ready"), "{}", server.log());
}

#[test]
fn a_unix_socket_serves_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.sock");
    let server = seawall_builder().arg_path("--unixsocket", &path).start().unwrap();
    let mut client = Client::connect(&Address::Unix(path)).unwrap();
    assert_eq!(client.call(&["SET", "k", "v"]).unwrap().text(), "OK");
    assert_eq!(server.connect().unwrap().call(&["GET", "k"]).unwrap().text(), "v");
}

#[test]
fn a_password_file_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, "secret\n").unwrap();
    // A password that others can read is none, and the program says so.
    let open = seawall_builder().arg_path("--requirepass-file", &path).start().unwrap_err();
    assert!(open.to_string().contains("chmod 600"), "{open}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let server = seawall_builder().arg_path("--requirepass-file", &path).start().unwrap();
    let mut client = server.connect().unwrap();
    assert!(client.call(&["GET", "k"]).unwrap().text().starts_with("NOAUTH"));
    assert!(client.call(&["AUTH", "wrong"]).unwrap().text().starts_with("WRONGPASS"));
    assert_eq!(client.call(&["AUTH", "secret"]).unwrap().text(), "OK");
    assert!(client.call(&["GET", "k"]).unwrap().is_nil());
}

#[test]
fn another_address_without_a_password_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = Command::new(SEAWALL)
        .args(["engine", "--bind", "0.0.0.0", "--port", &free_port().unwrap().to_string(), "--dir"])
        .arg(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).to_lowercase();
    assert!(!out.status.success());
    assert!(said.contains("password"), "{said}");
}

#[test]
fn acknowledged_writes_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let builder = seawall_testkit::ServerBuilder::seawall(SEAWALL)
        .args(["--appendonly", "yes", "--appendfsync", "always"])
        .dir(folder.path());
    let mut server = builder.start().unwrap();
    let mut client = server.connect().unwrap();
    for n in 0..200 {
        let reply = client.call(&["RPUSH", "list", &n.to_string()]).unwrap();
        assert_eq!(reply.as_int(), Some(n + 1));
    }
    server.kill().unwrap();
    drop(server);
    let server = builder.start().unwrap();
    let mut client = server.connect().unwrap();
    assert_eq!(client.call(&["LLEN", "list"]).unwrap().as_int(), Some(200));
    assert_eq!(client.call(&["LINDEX", "list", "-1"]).unwrap().text(), "199");
}
