//! Reads all commands of the servers with `MONITOR`, for a bounded time.
//!
//! It slows the servers down considerably, so the bounds are hard. The commands are counted in
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

/// Longest time for which `MONITOR` may run.
pub const MAX_LISTEN: Duration = Duration::from_secs(60);
/// Most lines that are read in one survey.
pub const MAX_LINES: u64 = 2_000_000;

/// Bounds for `MONITOR`: a time and a number of lines; it ends at whichever comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// At most [`MAX_LISTEN`].
    pub time: Duration,
    /// At most [`MAX_LINES`].
    pub lines: u64,
}

/// The counted commands.
pub(super) struct Heard {
    /// Counts per primary.
    pub(super) counts: Vec<(Arc<str>, Counts)>,
    pub(super) lines: u64,
    /// Keys in those lines.
    pub(super) uses: u64,
}

/// Reads the commands of all primaries.
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
        let until = client.network_clock().sleep(bounds.time);
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
