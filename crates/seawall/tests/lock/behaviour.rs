//! The mutex: exclusion, hand-over, renewal, loss, re-entrance.

use std::{
    error::Error as _,
    io,
    time::{Duration, Instant},
};

use seawall::{
    Cmd, Seawall, cmd,
    lock::{Extension, Release, With, WithError},
};

use crate::ground::{Ground, PATIENCE, assert_busy, eventually, on_each_backend, take, wait_for};

on_each_backend! {
    one_holds_and_hands_over
    a_lease_is_renewed_as_long_as_it_is_held
    a_fixed_lease_ends_and_the_holder_is_told_before
    a_deleted_key_is_a_loss_and_stays_deleted
    a_dropped_guard_gives_back
    an_owner_enters_again
    with_runs_once_and_always_gives_back
    names_are_any_bytes
}

const SHORT: Duration = Duration::from_millis(1_200);

async fn exists(handle: &Seawall, key: &[u8]) -> bool {
    handle.client().query::<i64>(key, cmd("EXISTS").arg(key)).await.expect("answered") == 1
}

fn del(key: &[u8]) -> Cmd {
    cmd("DEL").arg(key).clone()
}

async fn one_holds_and_hands_over(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    let first = take(&a.lock("x")).await;
    assert_busy(&b.lock("x")).await;
    let waiting = tokio::spawn({
        let lock = b.lock("x");
        async move { wait_for(&lock).await }
    });
    eventually("the waiter listens", async || b.client().pubsub().channels() == 1).await;
    let (token, released) = (first.token(), first.release().await.expect("answered"));
    assert_eq!(released, Release::Released);
    let second = waiting.await.expect("it waited");
    assert!(second.token() > token, "{} after {token}", second.token());
    assert_eq!(second.token().sequence, 2);
    assert_eq!(second.release().await.expect("answered"), Release::Released);
    assert!(!exists(&a, &ground.key("lock", "x")).await);
    ground.end([a, b]).await;
}

async fn a_lease_is_renewed_as_long_as_it_is_held(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    let guard = take(&a.lock("x").lease_ttl(SHORT)).await;
    let began = Instant::now();
    while began.elapsed() < SHORT * 3 {
        assert_busy(&b.lock("x")).await;
        assert!(!guard.is_lost());
        tokio::time::sleep(SHORT / 10).await;
    }
    assert_eq!(guard.extend(Duration::from_secs(40)).await.expect("answered"), Extension::Extended);
    assert!(guard.valid_for() > Duration::from_secs(30));
    assert_eq!(guard.release().await.expect("answered"), Release::Released);
    assert_eq!(a.renewed_locks(), 0);
    ground.end([a, b]).await;
}

async fn a_fixed_lease_ends_and_the_holder_is_told_before(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    let guard = take(&a.lock("x").lease_ttl(SHORT).fixed()).await;
    assert_eq!(a.renewed_locks(), 0);
    let key = ground.key("lock", "x");
    guard.lost().await;
    // Told before the lease ends; the server may be a moment late, never early.
    assert!(guard.is_lost() && guard.valid_for().is_zero());
    let token = guard.token();
    let next = wait_for(&b.lock("x").poll_interval(Duration::from_millis(50))).await;
    assert!(next.token() > token);
    assert_eq!(guard.extend(SHORT).await.expect("answered"), Extension::AlreadyLost);
    assert_eq!(guard.release().await.expect("answered"), Release::AlreadyLost);
    assert!(exists(&a, &key).await, "giving back what was lost takes nothing from the next");
    assert_eq!(next.release().await.expect("answered"), Release::Released);
    ground.end([a, b]).await;
}

async fn a_deleted_key_is_a_loss_and_stays_deleted(ground: Ground) {
    let a = ground.connect().await;
    let key = ground.key("lock", "x");
    let guard = take(&a.lock("x").lease_ttl(SHORT)).await;
    a.client().send(&key, &del(&key)).await.expect("answered");
    tokio::time::timeout(PATIENCE, guard.lost()).await.expect("the renewal notices");
    assert!(!exists(&a, &key).await, "a renewal makes nothing");
    assert_eq!(a.renewed_locks(), 0);
    let other = take(&a.lock("x")).await;
    assert!(guard.is_lost(), "lost is for ever");
    assert_eq!(guard.release().await.expect("answered"), Release::AlreadyLost);
    assert_eq!(other.release().await.expect("answered"), Release::Released);
    ground.end([a]).await;
}

async fn a_dropped_guard_gives_back(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    drop(take(&a.lock("x")).await);
    let guard = wait_for(&b.lock("x")).await;
    // A shutdown gives back what was dropped before it.
    drop(guard);
    b.shutdown().await;
    let _guard = take(&a.lock("x")).await;
    assert_eq!(a.renewed_locks(), 1);
    ground.end([a]).await;
}

async fn an_owner_enters_again(ground: Ground) {
    let (a, b) = (ground.connect().await, ground.connect().await);
    let first = take(&a.lock("x").lease_ttl(SHORT)).await;
    let inner = first.reenter();
    assert_eq!(inner.release().await.expect("no trip at all"), Release::StillHeld);
    // In another process, by the owner's id.
    let owner = first.owner().to_string().parse().expect("an id");
    let elsewhere = take(&b.lock("x").owner(owner).lease_ttl(SHORT)).await;
    assert_eq!(elsewhere.token(), first.token());
    assert_busy(&b.lock("x")).await;
    assert_eq!(first.release().await.expect("answered"), Release::Released);
    // The other hold is renewed on its own.
    tokio::time::sleep(SHORT * 2).await;
    assert!(!elsewhere.is_lost());
    assert_busy(&a.lock("x")).await;
    assert_eq!(elsewhere.release().await.expect("answered"), Release::Released);
    let _free = take(&a.lock("x")).await;
    ground.end([a, b]).await;
}

async fn with_runs_once_and_always_gives_back(ground: Ground) {
    let a = ground.connect().await;
    let lock = a.lock("x").lease_ttl(SHORT);
    let done = lock.with(PATIENCE, |guard| async move { guard.token().sequence }).await;
    assert_eq!(done.expect("answered"), With::Done(1));
    let held = take(&lock).await;
    let busy = lock.with(Duration::ZERO, |_guard| async { unreachable!("it is held") }).await;
    assert_eq!(busy.expect("answered"), With::<()>::Busy);
    let busy = lock.try_with(Duration::ZERO, |_guard| async { Ok::<_, io::Error>(()) }).await;
    assert!(matches!(busy, Err(WithError::Busy)), "{busy:?}");
    assert_eq!(held.release().await.expect("answered"), Release::Released);
    let key = ground.key("lock", "x");
    let lost = lock.with(PATIENCE, |_guard| async {
        a.client().send(&key, &del(&key)).await.expect("answered");
        std::future::pending::<()>().await;
    });
    assert_eq!(lost.await.expect("answered"), With::Lost(None));
    let lost = lock.try_with(PATIENCE, |_guard| async {
        a.client().send(&key, &del(&key)).await.expect("answered");
        std::future::pending::<io::Result<()>>().await
    });
    assert!(matches!(lost.await, Err(WithError::Lost)));
    let own = lock.try_with(PATIENCE, |_guard| async { Err::<(), _>(io::Error::other("own")) });
    let own = own.await.expect_err("the body failed");
    assert_eq!(own.source().map(ToString::to_string).as_deref(), Some("own"), "{own:?}");
    let token = lock.try_with(PATIENCE, async |guard| Ok::<_, io::Error>(guard.token().sequence));
    assert!(token.await.is_ok_and(|sequence| sequence > 1));
    let panics = tokio::spawn({
        let lock = lock.clone();
        async move { lock.with(PATIENCE, |_guard| async { panic!("as planned") }).await.map(drop) }
    });
    assert!(panics.await.expect_err("it panicked").is_panic());
    let again = wait_for(&lock).await;
    assert_eq!(again.release().await.expect("answered"), Release::Released);
    ground.end([a]).await;
}

async fn names_are_any_bytes(ground: Ground) {
    let a = ground.connect().await;
    for name in [&b"{}"[..], b"a{b}c", b"\0\r\n", &[0xff; 200]] {
        let guard = take(&a.lock(name)).await;
        assert_busy(&a.lock(name)).await;
        assert_eq!(guard.release().await.expect("answered"), Release::Released);
    }
    let pair = take(&a.lock(("order", 42))).await;
    assert_busy(&a.lock(("order", 42))).await;
    let _other = take(&a.lock("order:42")).await;
    drop(pair);
    let error = a.lock("").try_acquire().await.expect_err("refused").to_string();
    assert!(error.contains("empty"), "{error}");
    let error = a.lock("x").lease_ttl(Duration::ZERO).acquire(PATIENCE).await.expect_err("refused");
    assert!(error.to_string().contains("lease"), "{error}");
    ground.end([a]).await;
}

/// Options with which waiting would never end, overflow or mean something else are refused by name.
#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let a = Seawall::connect("embedded:").await.expect("connected");
    let held = take(&a.fair_lock("x")).await;
    let mut primaries = vec![a.clone()];
    for _ in 0..2 {
        primaries.push(Seawall::connect("embedded:").await.expect("connected"));
    }
    let quorum = Seawall::quorum_lock(&primaries, "x").expect("three");
    for pause in [Duration::ZERO, Duration::from_hours(25), Duration::MAX] {
        let error = a.fair_lock("x").poll_interval(pause).acquire(PATIENCE).await;
        assert!(error.expect_err("refused").to_string().contains("poll_interval"));
        let error = a.multi_lock(["x"]).poll_interval(pause).acquire(PATIENCE).await;
        assert!(error.expect_err("refused").to_string().contains("poll_interval"));
        let error = quorum.clone().poll_interval(pause).acquire(PATIENCE).await;
        assert!(error.expect_err("refused").to_string().contains("poll_interval"));
    }
    // No limit at all is what WAIT takes zero for.
    for limit in [Duration::ZERO, Duration::from_micros(1), Duration::MAX] {
        let error = a.lock("x").replicas(1, limit).try_acquire().await.expect_err("refused");
        assert!(error.to_string().contains("replicas"), "{error}");
    }
    // A wait without end is one.
    let waiting = tokio::spawn({
        let lock = a.fair_lock("x").poll_interval(Duration::from_nanos(1));
        async move { lock.acquire(Duration::MAX).await.expect("answered").acquired() }
    });
    assert_eq!(held.release().await.expect("answered"), Release::Released);
    drop(waiting.await.expect("it waited").expect("it came free"));
    for primary in &primaries {
        primary.shutdown().await;
    }
}
