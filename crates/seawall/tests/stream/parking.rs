//! What cannot be handled is parked with its reason, while others go on, and can be driven again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::{
    cmd,
    stream::{Delivery, Drained, Fields, Outcome, Redriven, WorkerBuilder},
};

use crate::{
    eventually,
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    poison_is_parked_while_others_go_on
    a_parked_entry_is_driven_again_under_its_reference
    no_more_dead_letters_are_kept_than_the_limit_says
    what_is_parked_says_how_many_attempts_counted
    neither_many_fields_nor_a_decoder_that_panics_lose_an_entry
}

const POISON: u64 = 3;

fn quick(builder: WorkerBuilder<u64>) -> WorkerBuilder<u64> {
    builder.max_attempts(3).retry_delay(Duration::from_millis(2))
}

async fn poison_is_parked_while_others_go_on(setup: Setup) {
    let seawall = setup.connect().await;
    let stream = seawall.stream::<u64>("poison").expect("a name");
    for number in 0..20 {
        stream.append(&number).await.expect("appended");
    }
    let key = stream.key().to_vec();
    let mut foreign = cmd("XADD");
    foreign.arg(&key).arg("*").arg("data").arg("no number").arg("more").arg("fields");
    seawall.client().send(&key, &foreign).await.expect("appended");
    let handled = Arc::new(AtomicU64::new(0));
    let attempts = Arc::new(AtomicU64::new(0));
    let (count, tries) = (Arc::clone(&handled), Arc::clone(&attempts));
    let worker = quick(stream.worker("g")).concurrency(2).spawn(move |delivery: Delivery<u64>| {
        let (count, tries) = (Arc::clone(&count), Arc::clone(&tries));
        async move {
            match *delivery.payload() {
                POISON => {
                    tries.fetch_add(1, Ordering::SeqCst);
                    panic!("poison")
                }
                4 => return Outcome::Park("it can never be".to_owned()),
                5 => return Outcome::Retry(Duration::from_millis(1)),
                6 if delivery.attempt() < 3 => return Outcome::Failed("not yet".to_owned()),
                _ => {}
            }
            count.fetch_add(1, Ordering::SeqCst);
            Outcome::Done
        }
    });
    let worker = worker.expect("valid");
    eventually("all others are handled, four are parked", async || {
        handled.load(Ordering::SeqCst) == 17
            && stream.dead_letter_count().await.expect("answered") == 4
    })
    .await;
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
    let parked = stream.dead_letters(None).await.expect("answered");
    let of = |wanted: &str| {
        let found = parked.iter().find(|parked| parked.reason.contains(wanted));
        found.unwrap_or_else(|| panic!("{wanted} in {parked:?}"))
    };
    assert_eq!(of("panicked: poison").attempts, 3);
    assert_eq!(of("it can never be").attempts, 1);
    assert_eq!(of("not done after 3 attempts").attempts, 3);
    let foreign = of("not understood");
    assert_eq!(foreign.attempts, 0, "no handler was begun");
    assert_eq!(foreign.fields.get("more"), Some(&b"fields"[..]), "nothing of it is lost");
    assert_eq!(stream.dead_letters(Some(parked[3].id)).await.expect("answered"), []);
    eventually("nothing is pending", async || {
        worker.status().await.expect("answered").streams[0].pending == 0
    })
    .await;
    // Counted after the server has answered.
    eventually("all four are counted", async || worker.counts().dead_letters == 4).await;
    let _ = worker.shutdown().await;
    seawall.shutdown().await;
}

async fn a_parked_entry_is_driven_again_under_its_reference(setup: Setup) {
    let seawall = setup.connect().await;
    let stream = seawall.stream::<u64>("again").expect("a name");
    let broken = Arc::new(AtomicBool::new(true));
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let fails = Arc::clone(&broken);
    let worker = quick(stream.worker("g")).spawn(move |delivery: Delivery<u64>| {
        let outcome = if fails.load(Ordering::SeqCst) {
            Err("broken")
        } else {
            tell.send((delivery.reference(), delivery.attempt())).expect("the test listens");
            Ok(())
        };
        async move { outcome }
    });
    let worker = worker.expect("valid");
    let id = stream.append(&1).await.expect("appended");
    let _ = stream.append_once("own", &2).await.expect("appended");
    eventually("both are parked", async || {
        stream.dead_letter_count().await.expect("answered") == 2
    })
    .await;
    broken.store(false, Ordering::SeqCst);
    let mut parked = stream.dead_letters(None).await.expect("answered");
    parked.sort_by_key(|parked| parked.original);
    assert_eq!(parked[0].original, id);
    let ids: Vec<_> = parked.iter().map(|parked| parked.id).collect();
    let driven = stream.redrive(&ids).await.expect("answered");
    assert!(driven.iter().all(|driven| matches!(driven, Redriven::As(new) if *new > id)));
    let mut references = [told.recv().await.expect("handled"), told.recv().await.expect("handled")];
    references.sort();
    let mut expected = [(format!("again:{id}"), 1), ("again:own".to_owned(), 1)];
    expected.sort();
    assert_eq!(references, expected);
    let repeated = stream.redrive(&ids).await.expect("answered");
    assert_eq!(repeated, [Redriven::NotFound, Redriven::NotFound]);
    assert_eq!(stream.discard_dead_letters(&ids).await.expect("answered"), 0);
    let _ = worker.shutdown().await;
    seawall.shutdown().await;
}

async fn no_more_dead_letters_are_kept_than_the_limit_says(setup: Setup) {
    let seawall = setup.connect().await;
    for (limit, kept) in [(Some(0), 0), (Some(2), 2), (Some(u64::MAX), 4), (None, 4)] {
        let name = format!("limited-{limit:?}");
        let stream = seawall.stream::<u64>(&name).expect("a name");
        for number in 0..4 {
            stream.append(&number).await.expect("appended");
        }
        let mut builder = quick(stream.worker("g"));
        if let Some(limit) = limit {
            builder = builder.max_dead_letters(limit);
        }
        let parks = |_: Delivery<u64>| async { Outcome::Park("never".to_owned()) };
        let worker = builder.spawn(parks).expect("valid");
        eventually("all are given up", async || worker.counts().dead_letters == 4).await;
        let pending = worker.status().await.expect("answered").streams[0].pending;
        assert_eq!(worker.shutdown().await, Drained::Clean);
        let count = stream.dead_letter_count().await.expect("answered");
        assert_eq!((pending, count), (0, kept), "{name}");
    }
    seawall.shutdown().await;
}

/// Entries that earlier workers left behind, with what Redis noted of them. A counter of 2k + 2: begun
/// and not ended, after k attempts that count.
async fn what_is_parked_says_how_many_attempts_counted(setup: Setup) {
    let seawall = setup.connect().await;
    let stream = seawall.stream::<u64>("counted").expect("a name");
    let key = stream.key().to_vec();
    let send = async |words: &[&str]| {
        let mut command = cmd(words[0]);
        command.arg(&key);
        words[1..].iter().for_each(|word| {
            command.arg(*word);
        });
        seawall.client().send(&key, &command).await.expect("answered");
    };
    // The first was begun with others, the second ended its process as often as it may.
    let begun = [(stream.append(&1).await.expect("appended"), "2"), {
        (stream.append(&2).await.expect("appended"), "8")
    }];
    let mut create = cmd("XGROUP");
    create.arg("CREATE").arg(&key).arg("g").arg("0");
    seawall.client().send(&key, &create).await.expect("answered");
    let mut read = cmd("XREADGROUP");
    read.arg("GROUP").arg("g").arg("c").arg("STREAMS").arg(&key).arg(">");
    seawall.client().send(&key, &read).await.expect("answered");
    for (id, counter) in &begun {
        let id = id.to_string();
        send(&["XCLAIM", "g", "c", "0", &id, "RETRYCOUNT", counter, "JUSTID"]).await;
    }
    let tried = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&tried);
    let worker = quick(stream.worker("g").consumer("c")).spawn(move |_: Delivery<u64>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Outcome::Failed("never".to_owned()) }
    });
    let worker = worker.expect("valid");
    eventually("both are parked", async || {
        stream.dead_letter_count().await.expect("answered") == 2
    })
    .await;
    let _ = worker.shutdown().await;
    let parked = stream.dead_letters(None).await.expect("answered");
    let of = |id| parked.iter().find(|parked| parked.original == id).expect("it is parked");
    assert_eq!(tried.load(Ordering::SeqCst), 3, "the first alone, as often as is allowed");
    assert_eq!((of(begun[0].0).attempts, &*of(begun[0].0).reason), (3, "never"));
    let aborted = of(begun[1].0);
    assert!(aborted.reason.contains("after 3 attempts that count"), "{aborted:?}");
    assert_eq!(aborted.attempts, 3);
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_never_done_is_tried_as_often_as_the_limit_says() {
    let seawall = seawall::Seawall::connect("embedded:").await.expect("in");
    let stream = seawall.stream::<u64>("limit").expect("a name");
    stream.append(&POISON).await.expect("appended");
    let tried = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&tried);
    let worker = quick(stream.worker("g")).spawn(move |_: Delivery<u64>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Outcome::Retry(Duration::ZERO) }
    });
    let worker = worker.expect("valid");
    eventually("it is parked, or tried too often", async || {
        stream.dead_letter_count().await.expect("answered") == 1 || tried.load(Ordering::SeqCst) > 3
    })
    .await;
    let _ = worker.shutdown().await;
    seawall.shutdown().await;
    assert_eq!(tried.load(Ordering::SeqCst), 3, "attempts");
}

async fn neither_many_fields_nor_a_decoder_that_panics_lose_an_entry(setup: Setup) {
    const MANY: usize = 5_000;
    let seawall = setup.connect().await;
    let key = setup.entry("orders:{many}");
    // A decoder as anybody may write it: it counts on what is not always there.
    let stream = seawall.stream_at(key.clone(), |fields: &Fields| {
        Ok(u64::from(fields.get("data").expect("all have data")[2]))
    });
    let stream = stream.expect("a hash tag");
    let mut many = cmd("XADD");
    many.arg(&key).arg("*");
    for number in 0..MANY {
        many.arg(format!("name {number}")).arg(format!("{number}"));
    }
    let mut good = cmd("XADD");
    good.arg(&key).arg("*").arg("data").arg("abc");
    for add in [&many, &good] {
        seawall.client().send(key.as_bytes(), add).await.expect("appended");
    }
    let handled = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&handled);
    let worker = quick(stream.worker("g"))
        .claim_idle(Duration::MAX)
        .spawn(move |delivery: Delivery<u64>| {
            count.fetch_add(*delivery.payload(), Ordering::SeqCst);
            async { Outcome::Done }
        })
        .expect("settings that make sense");
    // DeadLetter, driven again, and parked again: whole each time.
    for _ in 0..2 {
        eventually("it is parked", async || {
            stream.dead_letter_count().await.expect("answered") == 1
        })
        .await;
        let parked = stream.dead_letters(None).await.expect("answered").remove(0);
        assert_eq!(parked.reason, "not understood: its decoder panicked: all have data");
        let names = parked.fields.iter().filter(|(name, _)| name.starts_with(b"name "));
        assert!(
            names.eq((0..MANY)
                .map(|n| (format!("name {n}"), n.to_string()))
                .collect::<Vec<_>>()
                .iter()
                .map(|(name, value)| (name.as_bytes(), value.as_bytes())))
        );
        let again = stream.redrive(&[parked.id]).await.expect("answered");
        assert!(matches!(again[..], [Redriven::As(_)]), "{again:?}");
    }
    eventually("it is parked", async || stream.dead_letter_count().await.expect("answered") == 1)
        .await;
    assert_eq!(handled.load(Ordering::SeqCst), u64::from(b'c'));
    assert_eq!(worker.shutdown().await, Drained::Clean);
    seawall.shutdown().await;
}
