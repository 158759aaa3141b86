//! Reads the output of `MONITOR`, a connection that delivers only lines of text.
//!
//! The reply parser is not used, because these lines are not replies to our commands. A line may be
//! as long as the longest command, so only its beginning is kept.

use redis::Pipeline;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::transport::ByteStream;
use crate::error::{Error, Result};

/// Maximum number of bytes kept per line.
const LINE: usize = 16 << 10;

/// A connection in `MONITOR` mode.
pub struct Monitored {
    stream: BufReader<Box<dyn ByteStream>>,
}

impl Monitored {
    /// Sends a greeting whose last command is `MONITOR`.
    pub(super) async fn over(stream: Box<dyn ByteStream>, greeting: &Pipeline) -> Result<Self> {
        let mut monitored = Monitored { stream: BufReader::new(stream) };
        monitored.stream.write_all(&greeting.get_packed_pipeline()).await?;
        monitored.stream.flush().await?;
        for _ in 0..greeting.len() {
            let line = monitored.line().await?.ok_or(Error::Unavailable("it hung up".into()))?;
            if let Some(refusal) = line.strip_prefix('-') {
                let (code, message) = refusal.split_once(' ').unwrap_or((refusal, ""));
                return Err(Error::Refused { code: code.into(), message: message.into() });
            }
        }
        Ok(monitored)
    }

    /// Returns the next line, or `None` when the connection ends.
    pub async fn next(&mut self) -> Option<String> {
        let line = self.line().await.ok().flatten()?;
        Some(line.trim_start_matches('+').to_owned())
    }

    async fn line(&mut self) -> Result<Option<String>> {
        let mut line = Vec::new();
        loop {
            let some = self.stream.fill_buf().await?;
            if some.is_empty() {
                return Ok(None);
            }
            let end = some.iter().position(|&byte| byte == b'\n');
            let part = end.unwrap_or(some.len());
            let room = LINE.saturating_sub(line.len());
            line.extend_from_slice(&some[..part.min(room)]);
            let used = end.map_or(part, |end| end + 1);
            self.stream.consume(used);
            if end.is_some() {
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
        }
    }
}
