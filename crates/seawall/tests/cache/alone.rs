//! Readers that load by themselves when others are busy always have a loader to do it with.

use std::{io, time::Duration};

use seawall::cache::{Cache, Loaded, WhenBusy};

use crate::setup::{Setup, on_every_backend};

const READS: u64 = 300;

/// The reader asks for the lease and gives up waiting for it at the same moment: whichever comes first
/// has the loader, and the reader its answer.
async fn a_reader_that_does_not_wait_is_answered(setup: Setup) {
    let seawall = setup.connect().await;
    let builder = seawall.cache("alone").when_busy(WhenBusy::Load).wait_budget(Duration::ZERO);
    let cache: Cache<u64, u64> = builder.local_max_bytes(0).build().expect("options agree");
    for key in 0..READS {
        let load = move || async move {
            tokio::time::sleep(Duration::from_millis(key % 3)).await;
            Ok::<_, io::Error>(Loaded::Found(key))
        };
        let read = cache.get_or_load(&key, load).await.expect("nothing is slow");
        assert_eq!(read.value.as_deref(), Some(&key));
    }
    seawall.shutdown().await;
}

on_every_backend! {
    without sentinel:
    a_reader_that_does_not_wait_is_answered
}
