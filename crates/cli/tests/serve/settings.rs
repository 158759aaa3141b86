//! Settings that are wrong, and an orderly end.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _, process::Output};

use crate::client::{MarketProcess, command};

fn run(args: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let mut command = command(dir.path());
    command.args(args).envs(variables.iter().copied()).stderr(std::process::Stdio::piped());
    let Output { status, stderr, .. } = command.output().expect("it runs");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn wrong_settings_end_the_program_with_a_sentence() {
    let (code, said) = run(&["--listen", "nowhere"], &[]);
    assert_eq!(code, Some(2));
    assert!(said.contains("--listen cannot be 'nowhere': it takes an address"), "{said}");
    let (code, said) = run(&["--redis", "memcached://x"], &[]);
    assert_eq!(code, Some(2));
    assert!(said.contains("memcached") && said.contains("allowed are embedded:"), "{said}");
    let (code, said) = run(&["--sms", "fax"], &[]);
    assert!(code == Some(2) && said.contains("log or echo"), "{said}");
    let (code, said) = run(&[], &[("SEAWALL_SMS", "fax")]);
    assert!(code == Some(2) && said.contains("SEAWALL_SMS cannot be 'fax'"), "{said}");
    let (code, said) = run(&["--database", "mysql://h/d"], &[]);
    assert!(code == Some(2) && said.contains("sqlite:PATH"), "{said}");
    let (code, said) = run(&["--config", "/no/such/file"], &[]);
    assert!(code == Some(2) && said.contains("/no/such/file"), "{said}");
}

#[test]
fn passwords_in_arguments_are_refused() {
    for args in [["--redis", "redis://:geheim@127.0.0.1:1"], ["--redis-password", "geheim"]] {
        let (code, said) = run(&args, &[]);
        assert_eq!(code, Some(2));
        assert!(said.contains("SEAWALL_REDIS_PASSWORD"), "{said}");
        assert!(said.contains("--redis-password-file"), "{said}");
        assert!(!said.contains("geheim"), "{said}");
    }
}

#[test]
fn what_cannot_be_reached_is_named() {
    let (code, said) = run(&["--redis", "redis://127.0.0.1:1"], &[]);
    assert_eq!(code, Some(1));
    assert!(said.contains("--redis"), "{said}");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let (code, said) = run(&["--listen", &address], &[]);
    assert_eq!(code, Some(1));
    assert!(said.contains("is taken by another program"), "{said}");
}

#[test]
fn it_ends_in_order_keeps_its_data_private_and_comes_back() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = dir.path().join("data");
    let served = MarketProcess::start(&data, &[]);
    let mut client = served.client();
    let token = client.log_in("10000000001");
    let order = client.post("/voucher-order/seckill/1", &token).expect("an answer").text();
    let mode = fs::metadata(&data).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o077, 0, "nobody else reads phones and sessions");
    let page = client.get("/", "").expect("an answer");
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    let metrics = client.get("/metrics", "").expect("an answer").body;
    let metrics = metrics.as_str().expect("text");
    for line in ["market_requests_total{status=\"2xx\"} 4", "market_request_seconds_count 4"] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    assert_eq!(served.terminate(), Some(0), "also with a connection open");

    let served = MarketProcess::start(&data, &["--no-demo"]);
    let mut client = served.client();
    assert_eq!(client.get("/user/me", &token).expect("an answer").status, 200);
    assert_eq!(client.settled(&order, &token), "UNPAID");
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn without_demo_data_it_starts_empty() {
    let dir = tempfile::tempdir().expect("a folder");
    let served = MarketProcess::start(dir.path(), &["--no-demo"]);
    let mut client = served.client();
    assert_eq!(client.get("/shop/1", "").expect("an answer").status, 404);
    let list = client.get("/voucher/seckill/list", "").expect("an answer").body;
    assert_eq!(list["data"], serde_json::json!([]));
    assert_eq!(served.terminate(), Some(0));
}
