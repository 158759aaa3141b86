//! A thread that frees large values, so that no client waits for it.
//!
//! It is started by the first large value and ends with the server.

use std::{
    sync::{
        OnceLock,
        mpsc::{Sender, channel},
    },
    thread,
};

use seawall_engine::Garbage;

/// Drops garbage on its own thread.
#[derive(Default)]
pub(crate) struct Cleaner {
    queue: OnceLock<Sender<Vec<Garbage>>>,
}

impl Cleaner {
    /// Hands garbage over. If no thread can be started, drops it immediately.
    pub(crate) fn drop_later(&self, garbage: Vec<Garbage>) {
        let queue = self.queue.get_or_init(|| {
            let (sender, receiver) = channel::<Vec<Garbage>>();
            let work = move || receiver.into_iter().for_each(drop);
            // Without a thread the receiver is gone, and sending drops what is sent.
            let _ = thread::Builder::new().name("seawall-cleaner".into()).spawn(work);
            sender
        });
        let _ = queue.send(garbage);
    }
}
