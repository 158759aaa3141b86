//! Every form of URL, and every place for a password.

use seawall::{
    Error, Seawall,
    client::{Capabilities, Flavour},
    cmd,
};
use seawall_testkit::{ServerBuilder, ServerProcess};

use crate::process::{Worker, task};

async fn works(seawall: Seawall) {
    let client = seawall.client();
    client.send(b"k", cmd("SET").arg("k").arg("v")).await.expect("written");
    let value: String = client.query(b"k", cmd("GET").arg("k")).await.expect("read");
    assert_eq!(value, "v");
    seawall.shutdown().await;
    assert!(matches!(client.send(b"k", cmd("GET").arg("k")).await, Err(Error::Closed)));
    let late = client.pubsub().subscribe(b"c", std::time::Duration::from_secs(5)).await;
    assert!(matches!(late, Err(Error::Closed)), "{late:?}");
}

#[tokio::test]
async fn an_embedded_folder_outlives_the_handle() {
    let dir = tempfile::tempdir().expect("a folder");
    let url = format!("embedded:{}", dir.path().display());
    works(Seawall::connect(&url).await.expect("opened")).await;
    let again = Seawall::connect(&url).await.expect("opened again");
    let value: String = again.client().query(b"k", cmd("GET").arg("k")).await.expect("read");
    assert_eq!(value, "v");
    assert_eq!(again.client().topology(), seawall::Topology::Single);
    again.shutdown().await;
}

#[tokio::test]
async fn a_folder_that_is_open_in_this_process_is_refused_and_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let url = format!("embedded:{}", dir.path().display());
    let seawall = Seawall::connect(&url).await.expect("opened");
    let error = Seawall::connect(&url).await.expect_err("it is open").to_string();
    assert!(error.contains("is in use by another server of this process"), "{error}");
    seawall.shutdown().await;
    let odd = Seawall::connect("embedded:?x").await.expect_err("no folder").to_string();
    assert!(odd.contains("write embedded: for an engine in memory"), "{odd}");
}

/// Whatever is kept of the handle: its folder is free as soon as `shutdown` returns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_folder_is_free_after_the_shutdown() {
    let dir = tempfile::tempdir().expect("a folder");
    let url = format!("embedded:{}", dir.path().display());
    let mut kept = Vec::new();
    for round in 0..20_u64 {
        let seawall = Seawall::connect(&url).await.expect("free");
        let lane = seawall.client().dedicated(b"n").await.expect("opened");
        let counted: u64 =
            seawall.client().query(b"n", cmd("INCR").arg("n")).await.expect("answered");
        assert_eq!(counted, round + 1);
        seawall.shutdown().await;
        kept.push((seawall, lane));
    }
    for (seawall, _) in &kept {
        let refused = seawall.client().send(b"n", cmd("INCR").arg("n")).await;
        assert!(refused.is_err(), "{refused:?}");
    }
}

#[tokio::test]
async fn passwords_come_from_the_url_the_builder_or_a_file_and_are_never_shown() {
    let server = ServerBuilder::redis().password("s3cret").unix_socket().start().expect("a server");
    let port = server.port();
    works(Seawall::connect(&format!("redis://:s3cret@127.0.0.1:{port}/2")).await.expect("in"))
        .await;
    let plain = format!("redis://127.0.0.1:{port}");
    works(Seawall::builder(&plain).password("s3cret").connect().await.expect("in")).await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "s3cret\n").expect("written");
    works(Seawall::builder(&plain).password_file(file.path()).connect().await.expect("in")).await;
    let socket = format!("unix:{}?db=1", server.socket().expect("it has one").display());
    works(Seawall::builder(&socket).password("s3cret").connect().await.expect("in")).await;

    let builder = Seawall::builder(&plain).password("wr0ng");
    assert!(!format!("{builder:?}").contains("wr0ng"));
    let error = builder.connect().await.expect_err("a wrong password");
    assert!(error.is_code("WRONGPASS") && !error.is_outage(), "{error}");
    assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error}");
    let error = Seawall::connect(&plain).await.expect_err("no password");
    assert!(error.is_code("NOAUTH"), "{error}");
}

#[tokio::test]
async fn passwords_come_from_the_environment() {
    // The variables of a process are its own: this test runs itself with others.
    const URL: &str = "SEAWALL_TEST_CHILD_URL";
    if let Some(url) = task(URL) {
        return works(Seawall::connect(&url).await.expect("in")).await;
    }
    let server = ServerBuilder::redis().password("s3cret").start().expect("a server");
    let url = format!("redis://127.0.0.1:{}", server.port());
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "s3cret\n").expect("written");
    let path = file.path().to_str().expect("plain");
    let cases = [
        ("SEAWALL_REDIS_PASSWORD", "s3cret", true),
        ("SEAWALL_REDIS_PASSWORD_FILE", path, true),
        ("SEAWALL_REDIS_PASSWORD", "wr0ng", false),
        ("SEAWALL_REDIS_PASSWORD_FILE", "/nowhere", false),
    ];
    for (variable, value, expected) in cases {
        let variables = [(URL, url.as_str()), (variable, value)];
        let child = Worker::start_with("ways_in::passwords_come_from_the_environment", &variables);
        assert_eq!(child.wait().success(), expected, "{variable}={value}");
    }
}

#[tokio::test]
async fn tls_wants_the_right_authority() {
    let server = ServerBuilder::redis().tls().start().expect("a server");
    let other = ServerBuilder::redis().tls().start().expect("a server");
    let (tls, wrong) = (server.tls().expect("it has"), other.tls().expect("it has"));
    let url = format!("rediss://localhost:{}", tls.port());
    works(Seawall::builder(&url).ca_file(tls.ca_path()).connect().await.expect("in")).await;
    let error =
        Seawall::builder(&url).ca_file(wrong.ca_path()).connect().await.expect_err("another CA");
    assert!(error.to_string().contains("certificate"), "{error}");
}

async fn capabilities(url: &str) -> Capabilities {
    let seawall = Seawall::connect(url).await.expect("in");
    let found = seawall.client().capabilities().await.expect("asked").clone();
    seawall.shutdown().await;
    found
}

#[tokio::test]
async fn servers_say_what_they_are() {
    let found = capabilities("embedded:").await;
    assert_eq!((found.flavour, found.functions), (Flavour::Seawall, true));
    assert!(found.sharded_messages && !found.field_lifetimes, "{found:?}");

    let server = ServerProcess::redis().expect("a server");
    let found = capabilities(&server.url()).await;
    assert_eq!((found.flavour, found.functions), (Flavour::Redis, found.version.0 >= 7));
    assert_eq!(found.sharded_messages, found.version.0 >= 7);

    let server = ServerProcess::valkey().expect("a server");
    let found = capabilities(&server.url()).await;
    assert_eq!((found.flavour, found.functions), (Flavour::Valkey, true));
    assert!(found.version >= (7, 2, 0) && found.sharded_messages, "{found:?}");
}
