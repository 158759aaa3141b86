//! Callers that give up in the middle of a write leave nothing behind that others wait for.

use std::{future::poll_fn, io, pin::pin, task::Poll, time::Duration};

use seawall::cache::{Cache, Loaded};

use crate::setup::{Setup, on_every_backend};

/// More polls than a put needs on any backend.
const MOST_POLLS: u64 = 8;

/// Polls so often, then gives up.
async fn leave_after<T>(polls: u64, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut left) = (pin!(work), polls);
    poll_fn(move |context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// A put takes the entry's lease first. A caller that leaves then must not keep readers waiting until
/// it ends, which takes two time-outs of a reply.
async fn a_put_that_is_given_up_keeps_nobody_waiting(setup: Setup) {
    let (writer, reader) = (setup.connect().await, setup.connect().await);
    let build = |handle: &seawall::Seawall| -> Cache<u64, u64> {
        let builder = handle.cache("left").loader_timeout(Duration::from_secs(2));
        builder.read_timeout(Duration::from_secs(5)).clearable().build().expect("options agree")
    };
    let (writes, reads) = (build(&writer), build(&reader));
    let mut given_up = 0;
    // On a busy machine replies may come before a poll ends: then it takes more puts until one is given up.
    for key in 0..1_000 {
        if key >= MOST_POLLS && given_up > 0 {
            break;
        }
        let polls = key % MOST_POLLS;
        given_up += u64::from(leave_after(polls, writes.put(&key, &7)).await.is_none());
        let load = || async { Ok::<_, io::Error>(Loaded::Found(7)) };
        let read = reads.get_or_load(&key, load).await.expect("nobody is loading");
        assert_eq!(read.value.as_deref(), Some(&7));
    }
    assert!(given_up > 0, "every put was done at the first poll");
    writer.shutdown().await;
    reader.shutdown().await;
}

on_every_backend! {
    without sentinel:
    a_put_that_is_given_up_keeps_nobody_waiting
}
