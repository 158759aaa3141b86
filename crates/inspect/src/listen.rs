//! Listening to everything that servers are told (`MONITOR`), for a bounded time.
//!
//! It costs the servers a good part of their speed, so the bounds are hard; what was heard is counted in
//! bounded memory (`monitor.rs`).

use std::{sync::Arc, time::Duration};

use futures_util::{
    StreamExt as _,
    stream::{select_all, unfold},
};
use seawall_client::{
    Handle,
    client::Monitored,
    error::{Error, Result},
};

use super::{
    end::{End, ending},
    monitor::{Commands, Counts, parse},
};

/// The longest that a server may be listened to.
pub const MAX_LISTEN: Duration = Duration::from_secs(60);
/// The most lines that are read in one go.
pub const MAX_LINES: u64 = 2_000_000;

/// How long a server is listened to, and how many lines are taken; whatever ends first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// At most [`MAX_LISTEN`].
    pub time: Duration,
    /// At most [`MAX_LINES`].
    pub lines: u64,
}

/// What was heard.
pub(super) struct Heard {
    /// By primary.
    pub(super) counts: Vec<(Arc<str>, Counts)>,
    pub(super) lines: u64,
    /// Keys in those lines.
    pub(super) uses: u64,
}

/// Listens to all primaries.
pub(super) async fn listen(
    handle: &Handle,
    bounds: Listen,
    stop: impl Future<Output = ()>,
) -> Result<(Heard, End)> {
    if bounds.time > MAX_LISTEN || bounds.lines > MAX_LINES || bounds.lines == 0 {
        return Err(Error::Invalid(format!(
            "MONITOR is heard for at most {MAX_LISTEN:?} and {MAX_LINES} lines"
        )));
    }
    let client = handle.client();
    let primaries = client.primaries().await?;
    let mut heard = Heard { counts: Vec::new(), lines: 0, uses: 0 };
    let mut streams = Vec::new();
    let mut commands = Commands::default();
    for (index, address) in primaries.iter().enumerate() {
        if index == 0 {
            commands = Commands::ask(&mut client.dedicated_at(address.clone()).await?).await?;
        }
        let lines = client.monitor_at(address).await?;
        let next = move |mut lines: Monitored| async move {
            let line = lines.next().await?;
            Some(((index, line), lines))
        };
        streams.push(unfold(lines, next).boxed());
        heard.counts.push((address.to_string().into(), Counts::default()));
    }
    let mut lines = select_all(streams);
    let work = async {
        let until = tokio::time::sleep(bounds.time);
        tokio::pin!(until);
        while heard.lines < bounds.lines {
            let (index, line) = tokio::select! {
                biased;
                () = &mut until => break,
                line = lines.next() => match line {
                    Some(line) => line,
                    None => return Err(Error::Unavailable("MONITOR ended".into())),
                },
            };
            heard.lines += 1;
            let Some(arguments) = parse(&line) else { continue };
            let (access, keys) = commands.keys(&arguments);
            for key in keys {
                heard.uses += 1;
                heard.counts[index].1.add(key, access);
            }
        }
        Ok(())
    };
    let end = ending(work, stop).await;
    Ok((heard, end))
}
