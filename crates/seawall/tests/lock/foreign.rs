//! Something else under the key of a lock: a mistake that is named, never a lock that is merely busy.

use std::time::Duration;

use seawall::{Error, Seawall, cmd, lock::Lock};

use crate::ground::{Ground, PATIENCE, on_each_backend, take};

on_each_backend! {
    a_string_under_the_key_of_any_lock_is_named
    another_type_under_the_key_of_any_lock_is_named
    a_foreign_fence_is_named_and_leaves_nothing_held
}

/// Every kind of lock, with the family that its key begins with.
fn kinds(seawall: &Seawall) -> [(&'static str, Lock); 5] {
    [
        ("lock", seawall.lock("x")),
        ("fair", seawall.fair_lock("x")),
        ("rw", seawall.rw_lock("x").read()),
        ("rw", seawall.rw_lock("x").write()),
        ("semaphore", seawall.semaphore("x", 3)),
    ]
}

async fn run(seawall: &Seawall, words: &[&[u8]]) {
    let mut command = cmd(str::from_utf8(words[0]).expect("a command's name"));
    words[1..].iter().for_each(|word| {
        command.arg(*word);
    });
    seawall.client().send(words[1], &command).await.expect("answered");
}

/// Who tries and who waits hears at once that the key is not a lock's, and which it is.
async fn is_named(lock: &Lock, key: &[u8]) {
    let waited = tokio::time::timeout(PATIENCE / 2, lock.acquire(PATIENCE)).await;
    let waited = waited.expect("who waits is told at once");
    for refused in [lock.try_acquire().await, waited] {
        let error = refused.expect_err("it is no lock");
        assert!(error.is_code("WRONGTYPE"), "{error}");
        assert!(error.to_string().contains(str::from_utf8(key).expect("text")), "{error}");
    }
}

async fn a_string_under_the_key_of_any_lock_is_named(ground: Ground) {
    let seawall = ground.connect().await;
    let ends = Duration::from_secs(600).as_millis().to_string();
    for (family, lock) in kinds(&seawall) {
        let key = ground.key(family, "x");
        for text in [&b"somebody else's"[..], b"", b"7", b"00ff:zz"] {
            run(&seawall, &[b"SET", &key, text]).await;
            is_named(&lock, &key).await;
            run(&seawall, &[b"SET", &key, text, b"PX", ends.as_bytes()]).await;
            is_named(&lock, &key).await;
        }
        run(&seawall, &[b"DEL", &key]).await;
        let _ = take(&lock).await.release().await.expect("answered");
    }
    // Several at once, of which one is not a lock.
    let key = ground.key("lock", "x");
    run(&seawall, &[b"SET", &key, b"text"]).await;
    let several = seawall.multi_lock(["a", "x"]);
    let waited = tokio::time::timeout(PATIENCE / 2, several.acquire(PATIENCE)).await;
    let error = waited.expect("told at once").expect_err("one is no lock");
    assert!(error.is_code("WRONGTYPE"), "{error}");
    ground.end([seawall]).await;
}

async fn another_type_under_the_key_of_any_lock_is_named(ground: Ground) {
    let seawall = ground.connect().await;
    for (family, lock) in kinds(&seawall) {
        let key = ground.key(family, "x");
        run(&seawall, &[b"RPUSH", &key, b"an element"]).await;
        is_named(&lock, &key).await;
        run(&seawall, &[b"DEL", &key]).await;
    }
    // A sorted set that never ends is none of a semaphore's, and loses no member to it.
    let key = ground.key("semaphore", "x");
    run(&seawall, &[b"ZADD", &key, b"1", b"somebody"]).await;
    is_named(&seawall.semaphore("x", 3), &key).await;
    let members: u64 =
        seawall.client().query(&key, cmd("ZCARD").arg(&key)).await.expect("answered");
    assert_eq!(members, 1);
    ground.end([seawall]).await;
}

async fn a_foreign_fence_is_named_and_leaves_nothing_held(ground: Ground) {
    let seawall = ground.connect().await;
    for (family, lock) in kinds(&seawall) {
        let key = ground.key(family, "x");
        let fence = [&key[..], b":fence"].concat();
        let readers = [&key[..], b":readers"].concat();
        for foreign in [&[b"SET", &fence[..], b"short"][..], &[b"RPUSH", &fence, b"an element"]] {
            run(&seawall, &[b"DEL", &fence]).await;
            run(&seawall, foreign).await;
            let error: Error = lock.try_acquire().await.expect_err("there is no token");
            assert!(error.is_code("WRONGTYPE"), "{error}");
            // A script that fails has done nothing: there is nothing to be given back.
            for key in [&key, &readers] {
                let there: u64 =
                    seawall.client().query(key, cmd("EXISTS").arg(key)).await.expect("answered");
                assert_eq!(there, 0, "{}", key.escape_ascii());
            }
        }
        run(&seawall, &[b"DEL", &fence]).await;
    }
    ground.end([seawall]).await;
}
