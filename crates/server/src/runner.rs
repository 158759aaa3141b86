//! A thread for scripts of in-process callers.
//!
//! Such a caller feeds the engine on its own thread, which as a rule drives many tasks and their
//! timers. A script that does not end would hold them all, and no time-out could be noticed. So a
//! script that is not known to end soon runs here; the reply wakes whoever waits for it. The thread is
//! started by the first such script and ends with the server.

use std::{
    sync::{
        Arc, Mutex, Weak,
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
};

use seawall_engine::Script;

use crate::hub::{Hub, lock};

/// Runs scripts on a thread of its own.
#[derive(Default)]
pub(crate) struct Runner {
    thread: Mutex<Option<(Sender<Script>, JoinHandle<()>)>>,
}

impl Runner {
    /// Runs a script there. Where no thread can be had it is run here.
    pub(crate) fn run(&self, hub: &Arc<Hub>, script: Script) {
        let mut running = lock(&self.thread);
        if running.is_none() {
            *running = start(Arc::downgrade(hub));
        }
        let rest = match &*running {
            Some((queue, _)) => queue.send(script).err().map(|refused| refused.0),
            None => Some(script),
        };
        drop(running);
        if let Some(script) = rest {
            hub.run_script(script);
        }
    }

    /// Waits for the script that runs, which was told to end.
    pub(crate) fn end(&self) {
        let Some((queue, thread)) = lock(&self.thread).take() else { return };
        drop(queue);
        // A panic in it was a bug of ours; its script is not answered.
        let _ = thread.join();
    }
}

fn start(hub: Weak<Hub>) -> Option<(Sender<Script>, JoinHandle<()>)> {
    let (queue, scripts) = channel::<Script>();
    let work = move || {
        for script in scripts {
            if let Some(hub) = hub.upgrade() {
                hub.run_script(script);
            }
        }
    };
    let thread = thread::Builder::new().name("seawall-scripts".into()).spawn(work).ok()?;
    Some((queue, thread))
}
