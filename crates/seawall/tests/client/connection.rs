//! The handle's connection for the application's own commands, through the traits of the `redis` crate.

use std::{collections::HashMap, time::Duration};

use futures_util::future::join_all;
use seawall::{
    Seawall, Topology,
    redis::{self, AsyncCommands, ErrorKind, RedisResult, cmd, pipe},
};
use seawall_testkit::{
    ServerBuilder, ServerProcess,
    proxy::{FaultProxy, On},
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    commands_and_pipelines_reach_the_server_of_their_key
    an_error_reply_keeps_its_code
    what_others_would_notice_is_refused
    atomic_pipelines_are_atomic
    a_script_is_loaded_where_it_is_missing
}

async fn commands_and_pipelines_reach_the_server_of_their_key(setup: Setup) {
    let seawall = setup.connect().await;
    let connection = seawall.connection();
    // So many that a Cluster has some of them on each node.
    let work = (0..60).map(|number| {
        let mut connection = connection.clone();
        let (key, hash) = (format!("own:{number}"), format!("own-hash:{number}"));
        async move {
            let () = connection.set_ex(&key, number, 60).await.expect("stored");
            let read: u64 = connection.get(&key).await.expect("there");
            let () = connection.hset(&hash, "f", number).await.expect("stored");
            let all: HashMap<String, u64> = connection.hgetall(&hash).await.expect("there");
            assert_eq!((read, all["f"]), (number, number));
        }
    });
    join_all(work).await;
    let mut pipeline = pipe();
    for number in 0..60 {
        pipeline.get(format!("own:{number}"));
    }
    let all: Vec<u64> = pipeline.query_async(&mut connection.clone()).await.expect("answered");
    assert_eq!(all, (0..60).collect::<Vec<_>>());
    let script = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    let mut eval = cmd("EVAL");
    eval.arg(script).arg(1).arg("own:7").arg(10);
    assert_eq!(eval.query_async::<u64>(&mut connection.clone()).await.expect("run"), 17);
    seawall.shutdown().await;
    let after: RedisResult<u64> = connection.clone().get("own:7").await;
    assert!(after.expect_err("the handle has ended").is_io_error());
}

async fn an_error_reply_keeps_its_code(setup: Setup) {
    let seawall = setup.connect().await;
    let mut connection = seawall.connection();
    let () = connection.set("own-text", "tea").await.expect("stored");
    let error = connection.lpush::<_, _, u64>("own-text", 1).await.expect_err("no list");
    assert_eq!(error.code(), Some("WRONGTYPE"));
    let mut pipeline = pipe();
    pipeline.incr("own-text", 1).get("own-text");
    let error =
        pipeline.query_async::<(u64, String)>(&mut connection).await.expect_err("no number");
    assert!(error.to_string().contains("not an integer"), "{error}");
    assert_eq!(connection.get::<_, String>("own-text").await.expect("there"), "tea");
    seawall.shutdown().await;
}

async fn what_others_would_notice_is_refused(setup: Setup) {
    let seawall = setup.connect().await;
    let mut connection = seawall.connection();
    let error =
        connection.blpop::<_, Option<String>>("own-list", 1.0).await.expect_err("it blocks");
    assert_eq!(error.kind(), ErrorKind::InvalidClientConfig);
    assert!(error.to_string().contains("BLPOP would block the connection"), "{error}");
    for mut command in [cmd("SELECT"), cmd("subscribe"), cmd("WATCH"), cmd("REPLCONF")] {
        let refused = command.arg("1").query_async::<()>(&mut connection).await;
        assert_eq!(refused.expect_err("refused").kind(), ErrorKind::InvalidClientConfig);
    }
    let mut pipeline = pipe();
    pipeline.set("own-first", 1).cmd("MULTI");
    assert!(pipeline.query_async::<()>(&mut connection).await.is_err());
    let nothing: Option<u64> = connection.get("own-first").await.expect("answered");
    assert_eq!(nothing, None, "of a pipeline that is refused nothing is sent");
    seawall.shutdown().await;
}

/// As the `redis` crate runs a script: by its digest, and after `NOSCRIPT` it is loaded.
async fn a_script_is_loaded_where_it_is_missing(setup: Setup) {
    let seawall = setup.connect().await;
    let mut connection = seawall.connection();
    let text = format!("return ARGV[1] .. '{:x}'", rand::random::<u64>());
    let evalsha = |digest: &str, key: &str| {
        let mut command = cmd("EVALSHA");
        command.arg(digest).arg(1).arg(key).arg("tea");
        command
    };
    let missing = evalsha(&"0".repeat(40), "own").query_async::<String>(&mut connection).await;
    let missing = missing.expect_err("it does not exist");
    assert_eq!(missing.kind(), ErrorKind::Server(redis::ServerErrorKind::NoScript));
    let digest: String =
        cmd("SCRIPT").arg("LOAD").arg(&text).query_async(&mut connection).await.expect("loaded");
    for number in 0..20 {
        let command = evalsha(&digest, &format!("own:{number}"));
        let said: String = command.query_async(&mut connection).await.expect("every server has it");
        assert!(said.starts_with("tea"), "{said}");
    }
    seawall.shutdown().await;
}

async fn atomic_pipelines_are_atomic(setup: Setup) {
    let seawall = setup.connect().await;
    let connection = seawall.connection();
    if seawall.client().topology() == Topology::Cluster {
        let mut pipeline = pipe();
        pipeline.atomic().incr("own-a", 1);
        let error = pipeline.query_async::<(u64,)>(&mut connection.clone()).await;
        assert!(error.expect_err("refused").to_string().contains("use a script"));
        return seawall.shutdown().await;
    }
    // Two counters that move together, and readers that always see them equal.
    let writers = (0..8).map(|_| async {
        for _ in 0..50 {
            let mut pipeline = pipe();
            pipeline.atomic().incr("own-a", 1).incr("own-b", 1);
            let (a, b): (u64, u64) =
                pipeline.query_async(&mut connection.clone()).await.expect("answered");
            assert_eq!(a, b);
        }
    });
    let others = (0..8).map(|_| async {
        for _ in 0..50 {
            let both: (Option<u64>, Option<u64>) =
                connection.clone().mget(&["own-a", "own-b"]).await.expect("answered");
            assert_eq!(both.0, both.1);
        }
    });
    tokio::join!(join_all(writers), join_all(others));
    let mut pipeline = pipe();
    pipeline.atomic().incr("own-a", 1).cmd("NOSUCH");
    assert!(pipeline.query_async::<(u64,)>(&mut connection.clone()).await.is_err());
    assert_eq!(connection.clone().get::<_, u64>("own-a").await.expect("there"), 400);
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_and_a_command_that_was_not_sent_are_told_apart() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let seawall = Seawall::connect(&proxy.url()).await.expect("in");
    let mut connection = seawall.connection();
    proxy.drop_reply(On::any().key_prefix("own").once());
    let lost = connection.incr::<_, _, u64>("own", 1).await.expect_err("its reply is lost");
    assert!(lost.is_timeout() && !lost.is_connection_refusal(), "{lost:?}");
    assert_eq!(connection.incr::<_, _, u64>("own", 1).await.expect("answered"), 2);
    proxy.down();
    crate::eventually::eventually("nothing is sent", async || {
        let gone = connection.clone().incr::<_, _, u64>("own", 1).await.expect_err("no server");
        gone.is_connection_refusal() && !gone.is_timeout()
    })
    .await;
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_takes_over_the_settings_of_a_redis_client() {
    let server = ServerProcess::redis().expect("a server");
    let mut operator = server.connect().expect("connected");
    operator
        .call(&["ACL", "SETUSER", "ann", "on", ">s3:cret/", "~*", "&*", "+@all"])
        .expect("answered");
    let url = format!("redis://ann:s3%3Acret%2F@127.0.0.1:{}/3", server.port());
    let client = redis::Client::open(url).expect("a URL");
    let builder = Seawall::builder_like(&client).expect("settings");
    let seawall = builder.response_timeout(Duration::from_secs(30)).connect().await.expect("in");
    let mut connection = seawall.connection();
    let who: String =
        cmd("ACL").arg("WHOAMI").query_async(&mut connection).await.expect("answered");
    assert_eq!((who.as_str(), seawall.client().database()), ("ann", 3));
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_over_tls_stays_over_tls_or_is_refused() {
    let server = ServerBuilder::redis().tls().start().expect("a server");
    let tls = server.tls().expect("it has");
    let url = format!("rediss://localhost:{}/1", tls.port());
    let client = redis::Client::open(url.as_str()).expect("a URL");
    let trusting = Seawall::builder_like(&client).expect("settings").ca_file(tls.ca_path());
    let seawall = trusting.connect().await.expect("in");
    let mut connection = seawall.connection();
    connection.set::<_, _, ()>("k", "v").await.expect("written");
    assert_eq!(connection.get::<_, String>("k").await.expect("read"), "v");
    assert_eq!(seawall.client().database(), 1);
    seawall.shutdown().await;

    // The machine does not trust the authority of this server: neither must the handle.
    let strict = Seawall::builder_like(&client).expect("settings").connect().await;
    let error = strict.expect_err("a stranger's certificate").to_string();
    assert!(error.contains("certificate"), "{error}");

    let authority = std::fs::read(tls.ca_path()).expect("a file");
    let own = redis::TlsCertificates { client_tls: None, root_cert: Some(authority) };
    let own = redis::Client::build_with_tls(url.as_str(), own).expect("settings");
    let error = Seawall::builder_like(&own).expect_err("they would be lost").to_string();
    assert!(error.contains("use a rediss:// URL, with ca_file"), "{error}");

    let unchecked = redis::Client::open(format!("{url}#insecure")).expect("a URL");
    let error = Seawall::builder_like(&unchecked).expect_err("it checks nothing").to_string();
    assert!(error.contains("checks no certificate"), "{error}");
    let info = client.get_connection_info();
    let mut address = info.addr().clone();
    address.set_danger_accept_invalid_hostnames(true);
    let unchecked = redis::Client::open(info.clone().set_addr(address)).expect("an address");
    let error = Seawall::builder_like(&unchecked).expect_err("any name will do").to_string();
    assert!(error.contains("unchecked host names are not supported"), "{error}");
}
