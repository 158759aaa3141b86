//! A private MariaDB: it answers, keeps databases apart, and survives what tests do to it.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;

use seawall_testkit::{MariaDb, NodeState, TestDatabase};

/// How long something may take that must happen.
const LIMIT: Duration = Duration::from_secs(30);
/// How long nothing is waited for.
const SILENCE: Duration = Duration::from_millis(200);

fn name_in(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

#[test]
fn a_private_server_answers_and_is_set_up_for_tests() {
    let server = MariaDb::start().unwrap();
    assert!(server.url().starts_with("mysql://seawall:"), "{}", server.url());
    assert!(server.url().ends_with(&format!("@127.0.0.1:{}/", server.port())));
    let settings = "SELECT @@character_set_server, @@max_connections, @@log_bin, \
                    @@innodb_flush_log_at_trx_commit, @@innodb_flush_method";
    assert_eq!(server.query(settings).unwrap(), "utf8mb4\t500\t0\t2\tnosync\n");
    let plugin = "SELECT plugin FROM mysql.user WHERE user = 'seawall'";
    assert_eq!(server.query(plugin).unwrap(), "mysql_native_password\n");
    let error = server.query("SELECT nonsense").unwrap_err();
    assert!(error.to_string().contains("nonsense"), "{error}");
}

#[test]
fn databases_are_empty_and_apart() {
    let server = MariaDb::shared().unwrap();
    let (one, other) = (server.database().unwrap(), server.database().unwrap());
    assert_ne!(one, other);
    assert!(one.starts_with(&server.url()));
    let (one, other) = (name_in(&one), name_in(&other));
    let make = format!("CREATE TABLE {one}.t (word TEXT); INSERT INTO {one}.t VALUES ('鲜花 🌷')");
    server.query(&make).unwrap();
    assert_eq!(server.query(&format!("SELECT word FROM {one}.t")).unwrap(), "鲜花 🌷\n");
    assert_eq!(server.query(&format!("SHOW TABLES IN {other}")).unwrap(), "");
    server.query(&format!("DROP DATABASE {one}; DROP DATABASE {other}")).unwrap();
}

#[test]
fn a_database_of_a_test_is_gone_with_its_value() {
    let keeper = TestDatabase::create().unwrap();
    let shared = keeper.url().strip_suffix(keeper.name()).unwrap().to_owned();
    assert_eq!(shared, keeper.server().url());
    keeper.query("CREATE TABLE t (n INT)").unwrap();
    assert_eq!(keeper.query("SHOW TABLES").unwrap(), "t\n");
    let gone = TestDatabase::create().unwrap();
    let (name, same_server) = (gone.name().to_owned(), gone.server().url() == shared);
    drop(gone);
    let known = keeper.server().query("SHOW DATABASES").unwrap();
    assert!(known.lines().any(|known| known == keeper.name()));
    assert!(!known.lines().any(|known| known == name), "{name} stayed; shared: {same_server}");
}

#[test]
fn a_killed_server_comes_back_with_its_data_on_its_port() {
    for builder in [MariaDb::builder(), MariaDb::builder().durable()] {
        let server = builder.start().unwrap();
        let database = server.database().unwrap();
        let table = format!("{}.t", name_in(&database));
        server
            .query(&format!("CREATE TABLE {table} (n INT); INSERT INTO {table} VALUES (7)"))
            .unwrap();
        let (url, pid) = (server.url(), server.pid().unwrap());
        server.kill().unwrap();
        assert_eq!(server.state(), NodeState::Dead);
        assert_eq!(server.query("SELECT 1").unwrap_err().kind(), ErrorKind::NotConnected);
        assert!(server.pause().is_err(), "its id is nobody's");
        server.restart().unwrap();
        assert_eq!((server.state(), server.url()), (NodeState::Running, url));
        assert_ne!(server.pid().unwrap(), pid);
        assert_eq!(server.query(&format!("SELECT n FROM {table}")).unwrap(), "7\n");
    }
}

#[test]
fn a_paused_server_is_silent_until_it_goes_on() {
    let server = MariaDb::start().unwrap();
    server.pause().unwrap();
    assert_eq!(server.state(), NodeState::Paused);
    let mut word = [0; 1];
    // The system takes the connection; the server, which has the first word, says nothing.
    let mut silent = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    silent.set_read_timeout(Some(SILENCE)).unwrap();
    let error = silent.read(&mut word).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    server.resume().unwrap();
    silent.set_read_timeout(Some(LIMIT)).unwrap();
    assert_eq!(silent.read(&mut word).unwrap(), 1);
    assert_eq!(server.query("SELECT 1").unwrap(), "1\n");
}

#[test]
fn a_dropped_server_is_gone_even_when_it_was_paused() {
    for state in [NodeState::Running, NodeState::Paused] {
        let server = MariaDb::start().unwrap();
        let port = server.port();
        if state == NodeState::Paused {
            server.pause().unwrap();
        }
        drop(server);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "{state:?}");
    }
}

#[test]
fn an_option_that_is_none_says_why() {
    let error = MariaDb::builder().args(["--no-such-option"]).start().unwrap_err();
    assert!(error.to_string().contains("no-such-option"), "{error}");
}
