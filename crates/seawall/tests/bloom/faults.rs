//! Replies that never come in the middle of a rebuild: the filter stays whole and can be built again.

use std::time::Duration;

use seawall::{
    Seawall,
    bloom::{Answer, BloomSink, Rebuild},
    cmd,
};
use seawall_testkit::{
    ServerProcess,
    proxy::{FaultProxy, On},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_at_any_step_costs_no_key() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_millis(200));
    let seawall = builder.connect().await.expect("connected");
    let stream =
        |sink: BloomSink<u64>| async move { sink.add_many(&(0..500).collect::<Vec<_>>()).await };
    let filter = seawall.bloom::<u64>("f", 1_000).build().expect("valid");
    let first = filter.rebuild(1_000, stream).await.expect("answered");
    assert!(matches!(first, Rebuild::Done { .. }));
    let keys: Vec<u64> = (0..500).collect();
    let mut interrupted = 0;
    for step in 1..=12 {
        let rule = proxy.drop_reply(On::any().when(not_of_the_connection).nth(step));
        let built = filter.rebuild(1_000, stream).await;
        proxy.remove(rule);
        interrupted += usize::from(built.is_err());
        // Whatever happened: nothing is denied, here and in another process.
        let fresh = seawall.bloom::<u64>("f", 1_000).build().expect("valid");
        for filter in [&filter, &fresh] {
            let mut answers = filter.contains_many(&keys).await;
            for _ in 0..20 {
                if answers.as_ref().is_err_and(seawall::Error::is_outage) {
                    answers = filter.contains_many(&keys).await;
                }
            }
            let answers = answers.expect("answered");
            assert!(answers.iter().all(|answer| *answer == Answer::Possible), "step {step}");
        }
        // A build that was left behind ends by itself after a minute; here its lease is cut short.
        let cut = seawall.client().send(b"", cmd("HDEL").arg("bloom:{f}").arg("until")).await;
        cut.expect("answered");
    }
    assert!(interrupted >= 5, "{interrupted} builds were interrupted");
    let last = filter.rebuild(1_000, stream).await.expect("answered");
    assert!(matches!(last, Rebuild::Done { .. }));
    let left: Vec<String> =
        seawall.client().query(b"", cmd("KEYS").arg("bloom:*")).await.expect("names");
    assert_eq!(left.len(), 2, "the hash and one part: {left:?}");
    seawall.shutdown().await;
}

/// Leaves what a new connection says alone.
fn not_of_the_connection(command: &[Vec<u8>]) -> bool {
    let name = command.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
    !matches!(&*name, b"HELLO" | b"CLIENT" | b"TIME" | b"SELECT" | b"INFO" | b"ROLE")
}
