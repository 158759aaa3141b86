//! Settings and payloads that make no sense are refused with a sentence; none of them panics.

use std::time::Duration;

use seawall::{
    Error, Seawall,
    stream::{Delivery, MAX_PAYLOAD_BYTES, Outcome, WorkerBuilder},
};

fn refused<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Invalid(text)) => text,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was accepted"),
    }
}

#[tokio::test]
async fn contradictions_are_named() {
    let seawall = Seawall::connect("embedded:").await.expect("in");
    let stream = seawall.stream::<u64>("s").expect("a name");
    let start = |builder: WorkerBuilder<u64>| {
        refused(builder.spawn(|_: Delivery<u64>| async { Outcome::Done }))
    };
    let worker = || stream.worker("g");
    assert!(start(seawall.stream_worker("g", [])).contains("without streams"));
    let twice = seawall.stream_worker("g", [stream.clone(), stream.clone()]);
    assert!(start(twice).contains("named twice"));
    assert!(start(stream.worker("")).contains("need a name"));
    assert!(start(worker().consumer("")).contains("need a name"));
    assert!(start(worker().batch_size(0)).contains("batch"));
    assert!(start(worker().concurrency(0)).contains("concurrency"));
    assert!(start(worker().concurrency(usize::MAX)).contains("concurrency"));
    assert!(start(worker().claim_idle(Duration::ZERO)).contains("claim_idle"));
    assert!(start(worker().max_attempts(0)).contains("max_attempts"));
    seawall.shutdown().await;
}

#[tokio::test]
async fn names_and_payloads_have_limits() {
    let seawall = Seawall::connect("embedded:").await.expect("in");
    assert!(refused(seawall.stream::<u64>("")).contains("empty"));
    assert!(refused(seawall.stream::<u64>("x".repeat(5_000))).contains("longer"));
    assert!(refused(seawall.stream_at("orders", |_| Ok(1))).contains("hash tag"));
    assert!(refused(seawall.stream_at("orders:{}", |_| Ok(1))).contains("hash tag"));
    let strange = seawall.stream::<String>("{a}:b%}\u{0}").expect("bytes are bytes");
    strange.append(&"{}".to_owned()).await.expect("appended");
    let huge = "x".repeat(MAX_PAYLOAD_BYTES);
    assert!(refused(strange.append(&huge).await).contains("longer"));
    assert!(refused(strange.append_once("", &"x".to_owned()).await).contains("empty"));
    assert_eq!(strange.len().await.expect("answered"), 1);
    seawall.shutdown().await;
}

#[tokio::test]
async fn what_others_append_is_understood_by_a_decoder() {
    let seawall = Seawall::connect("embedded:").await.expect("in");
    let stream = seawall.stream_at("orders:{sale:3}", |fields| {
        let order = fields.get("order").ok_or("no order")?;
        std::str::from_utf8(order)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
            .ok_or("no number".to_owned())
    });
    let stream = stream.expect("a hash tag");
    let client = seawall.client();
    for order in ["7", "x"] {
        let mut add = seawall::cmd("XADD");
        add.arg("orders:{sale:3}").arg("*").arg("user").arg(1).arg("order").arg(order);
        client.send(b"orders:{sale:3}", &add).await.expect("appended");
    }
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let worker = stream.worker("orders").spawn(move |delivery: Delivery<u64>| {
        tell.send(delivery.into_payload()).expect("the test listens");
        async { Outcome::Done }
    });
    let worker = worker.expect("valid");
    assert_eq!(told.recv().await, Some(7));
    crate::eventually("the other is parked", async || {
        stream.dead_letter_count().await.expect("answered") == 1
    })
    .await;
    assert!(stream.dead_letters(None).await.expect("answered")[0].reason.contains("no number"));
    let _ = worker.shutdown().await;
    seawall.shutdown().await;
}
