//! Settings and subjects that make no sense, and those that look as if.

use std::time::Duration;

use seawall::{
    Error,
    limit::{Policy, Rate, Window},
    testing::TestServer,
};

#[tokio::test]
async fn contradictions_are_named_when_building() {
    let test_server = TestServer::start().await.expect("it starts");
    let refused = |policy: Policy, word: &str| {
        let error = test_server.seawall().limiter("x", policy).build().expect_err("makes no sense");
        assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains(word), "{error}");
    };
    refused(Rate::per_second(0).into(), "rate of 0");
    refused(Rate::per_second(1).burst(0).into(), "burst of 0");
    refused(Rate::of(1, Duration::ZERO).into(), "period");
    refused(Rate::of(1, Duration::MAX).into(), "period");
    refused(Rate::per_day(7).burst(u64::MAX).into(), "exactly");
    refused(Rate::per_day(7).burst(1 << 40).into(), "exactly");
    refused(Window::of(0, Duration::from_secs(1)).into(), "window of 0");
    refused(Window::of(1, Duration::ZERO).into(), "window");
    refused(Window::of(u64::MAX, Duration::from_secs(1)).into(), "exactly");
    let limiter = || test_server.seawall().limiter("x", Rate::per_second(1));
    for (builder, word) in [
        (limiter().instances(0), "instances"),
        (limiter().redis_timeout(Duration::ZERO), "redis_timeout"),
        (limiter().subjects(0), "subjects"),
        (test_server.seawall().limiter("", Rate::per_second(1)), "empty"),
    ] {
        let error = builder.build().expect_err("makes no sense").to_string();
        assert!(error.contains(word), "{error}");
    }
    test_server.shutdown().await;
}

#[tokio::test]
async fn subjects_are_bytes_and_stay_apart() {
    let test_server = TestServer::start().await.expect("it starts");
    let limiter = test_server.seawall().limiter("a:{b}", Rate::per_hour(1)).build().expect("valid");
    let subjects: [&[u8]; 6] = [b"x", b"{x}", b"x}", b"\0\xff\r\n", b"x:y", b"x%3Ay"];
    for subject in subjects {
        assert!(limiter.check(subject, 1).await.expect("valid").is_allowed(), "{subject:?}");
        assert!(!limiter.check(subject, 1).await.expect("valid").is_allowed(), "{subject:?}");
    }
    assert!(matches!(limiter.check("", 1).await, Err(Error::Invalid(_))));
    assert!(matches!(limiter.check(&vec![b'x'; 10_000], 1).await, Err(Error::Invalid(_))));
    let error = limiter.check("y", 2).await.expect_err("never allowed").to_string();
    assert!(error.contains("never"), "{error}");
    assert!(limiter.check("y", u64::MAX).await.is_err());

    // A local one never asks Redis.
    let local =
        test_server.seawall().limiter("local", Rate::per_second(2)).local().build().expect("valid");
    test_server.faults().begin_outage();
    let mut admitted = 0;
    for _ in 0..10 {
        admitted += u64::from(local.check("x", 1).await.expect("valid").is_allowed());
    }
    assert_eq!(admitted, 2);
    test_server.faults().end_outage();
    test_server.shutdown().await;
    assert!(matches!(limiter.check("z", 1).await, Err(Error::Closed)));
}
