//! What a worker does when nothing is broken.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use seawall::{
    cmd,
    stream::{Appended, Delivery, Drained, Outcome, Retention, Start},
};

use crate::{
    eventually,
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    every_entry_of_many_streams_is_handled_once_by_many_workers
    a_batch_goes_together_and_a_bad_one_alone
    a_reference_is_appended_once
    a_deleted_stream_is_made_again
    two_groups_see_everything
}

/// What handlers saw, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<u64>>>);

impl Seen {
    fn note(&self, number: u64) {
        self.0.lock().expect("no panic").push(number);
    }

    fn all(&self) -> Vec<u64> {
        self.0.lock().expect("no panic").clone()
    }

    fn count(&self) -> usize {
        self.0.lock().expect("no panic").len()
    }
}

async fn every_entry_of_many_streams_is_handled_once_by_many_workers(setup: Setup) {
    const STREAMS: u64 = 16;
    const EACH: u64 = 25;
    let (one, other) = (setup.connect().await, setup.connect().await);
    let seen = Seen::default();
    let streams = |seawall: &seawall::Seawall| {
        (0..STREAMS)
            .map(|n| seawall.stream::<u64>(format!("sale-{n}")).expect("a name"))
            .collect::<Vec<_>>()
    };
    for (number, stream) in streams(&one).iter().enumerate() {
        let numbers: Vec<u64> = (0..EACH).map(|n| number as u64 * EACH + n).collect();
        for id in stream.append_all(&numbers).await.expect("valid") {
            id.expect("appended");
        }
    }
    let mut workers = Vec::new();
    for (handle, name) in [(&one, "a"), (&one, "b"), (&other, "c")] {
        let seen = seen.clone();
        let builder = handle.stream_worker("orders", streams(handle)).consumer(name).batch_size(32);
        let run = builder.spawn(move |delivery: Delivery<u64>| {
            let seen = seen.clone();
            async move {
                assert_eq!(delivery.attempt(), 1);
                seen.note(*delivery.payload());
                Outcome::Done
            }
        });
        workers.push(run.expect("valid"));
    }
    eventually("all are handled", async || seen.count() as u64 == STREAMS * EACH).await;
    let all: BTreeSet<u64> = seen.all().into_iter().collect();
    assert_eq!(all, (0..STREAMS * EACH).collect());
    eventually("all are settled, and dropped", async || {
        let status = workers[0].status().await.expect("answered");
        assert_eq!(status.streams.len() as u64, STREAMS);
        status.streams.iter().all(|stream| {
            stream.pending == 0 && stream.lag.is_none_or(|lag| lag == 0) && stream.dead_letters == 0
        })
    })
    .await;
    let mut handled = 0;
    for worker in workers {
        eventually("nothing is in hand", async || {
            worker.status().await.expect("answered").in_hand == 0
        })
        .await;
        handled += worker.counts().handled;
        assert_eq!(worker.shutdown().await, Drained::Clean);
    }
    assert_eq!(handled, STREAMS * EACH);
    for stream in streams(&one) {
        stream.trim(Retention::Unsettled).await.expect("answered");
        assert!(stream.is_empty().await.expect("answered"));
    }
    other.shutdown().await;
    one.shutdown().await;
}

async fn a_batch_goes_together_and_a_bad_one_alone(setup: Setup) {
    let seawall = setup.connect().await;
    let stream = seawall.stream::<u64>("batches").expect("a name");
    let appended = stream.append_all(&(0..40).collect::<Vec<_>>()).await.expect("valid");
    assert!(appended.iter().all(Result::is_ok));
    let (committed, largest) = (Seen::default(), Arc::new(AtomicUsize::new(0)));
    let (ledger, most) = (committed.clone(), Arc::clone(&largest));
    let builder = stream.worker("batches").batch_size(20).retry_delay(Duration::from_millis(5));
    let worker = builder.max_attempts(3).spawn_batches(move |batch: Vec<Delivery<u64>>| {
        most.fetch_max(batch.len(), Ordering::SeqCst);
        let bad = batch.iter().any(|delivery| *delivery.payload() == 13);
        if !bad {
            // One transaction: all or none.
            batch.iter().for_each(|delivery| ledger.note(*delivery.payload()));
        }
        async move { if bad { Err("13 is refused") } else { Ok(()) } }
    });
    let worker = worker.expect("valid");
    eventually("all but one are committed, that one is parked", async || {
        committed.count() == 39 && stream.dead_letter_count().await.expect("answered") == 1
    })
    .await;
    assert!(largest.load(Ordering::SeqCst) > 1, "entries went together");
    let parked = stream.dead_letters(None).await.expect("answered");
    assert_eq!((parked[0].reason.as_str(), parked[0].attempts), ("13 is refused", 3));
    assert_eq!(stream.read_dead_letter(&parked[0]), Ok(13));
    let all: BTreeSet<u64> = committed.all().into_iter().collect();
    assert_eq!(all, (0..40).filter(|number| *number != 13).collect());
    assert_eq!(worker.shutdown().await, Drained::Clean);
    seawall.shutdown().await;
}

async fn a_reference_is_appended_once(setup: Setup) {
    let seawall = setup.connect().await;
    let stream = seawall.stream::<u64>("once").expect("a name");
    let first = stream.append_once(&("order", 7), &1).await.expect("appended");
    let Appended::Now(id) = first else { panic!("{first:?}") };
    let again = stream.append_once(&("order", 7), &1).await.expect("answered");
    assert_eq!(again, Appended::Before(id));
    let other = stream.append_once(&("order", 8), &2).await.expect("appended");
    assert!(other.id() > id);
    assert_eq!(stream.len().await.expect("answered"), 2);
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let worker = stream.worker("g").concurrency(1).spawn(move |delivery: Delivery<u64>| {
        tell.send(delivery.reference()).expect("the test listens");
        async { Outcome::Done }
    });
    let worker = worker.expect("valid");
    assert_eq!(told.recv().await.as_deref(), Some("once:order:7"));
    assert_eq!(told.recv().await.as_deref(), Some("once:order:8"));
    let _ = worker.shutdown().await;
    seawall.shutdown().await;
}

async fn a_deleted_stream_is_made_again(setup: Setup) {
    let seawall = setup.connect().await;
    let stream = seawall.stream::<u64>("deleted").expect("a name");
    let seen = Seen::default();
    let noted = seen.clone();
    let worker = stream.worker("g").claim_idle(Duration::from_millis(400)).spawn(move |delivery| {
        noted.note(delivery.into_payload());
        async { Outcome::Done }
    });
    let worker = worker.expect("valid");
    for number in 0..3 {
        stream.append(&number).await.expect("appended");
        eventually("it is handled", async || seen.count() as u64 == number + 1).await;
        let key = stream.key().to_vec();
        seawall.client().send(&key, cmd("DEL").arg(&key)).await.expect("deleted");
    }
    assert_eq!(seen.all(), [0, 1, 2]);
    let _ = worker.shutdown().await;
    seawall.shutdown().await;
}

async fn two_groups_see_everything(setup: Setup) {
    let seawall = setup.connect().await;
    let stream = seawall.stream::<u64>("shared").expect("a name");
    stream.append(&1).await.expect("appended");
    let run = |group: &str, start: Start| {
        let seen = Seen::default();
        let noted = seen.clone();
        let worker = stream.worker(group).start(start).spawn(move |delivery: Delivery<u64>| {
            noted.note(delivery.into_payload());
            async { Outcome::Done }
        });
        (worker.expect("valid"), seen)
    };
    let (all, all_seen) = run("all", Start::Beginning);
    let (new, new_seen) = run("new", Start::Now);
    eventually("the second group is there", async || {
        stream.status("new").await.expect("answered").lag.is_some()
    })
    .await;
    stream.append(&2).await.expect("appended");
    eventually("the first has both", async || all_seen.count() == 2).await;
    eventually("the second has what is new", async || new_seen.all() == [2]).await;
    let (_, _) = (all.shutdown().await, new.shutdown().await);
    let consumers = stream.status("all").await.expect("answered").consumers;
    assert_eq!(consumers, 0, "a name that was made up is not left behind");
    seawall.shutdown().await;
}
