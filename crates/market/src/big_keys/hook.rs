//! Web hook of the big-key alarm: one JSON POST, retried a few times, each attempt bounded in time.
//!
//! Plain HTTP only, for example to a relay on this machine or a chat bridge in the same network.
//! The market contains no TLS client, and an alarm must not depend on certificates. An `https://`
//! URL is refused at start with this advice.

use std::{fmt, pin::pin, time::Duration};

use axum::body::{Body, Bytes};
use hyper::{Request, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Time limit of one attempt.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Number of attempts.
const ATTEMPTS: u32 = 3;
/// Pause before the second attempt; doubled before the third.
const PAUSE: Duration = Duration::from_millis(500);

/// Destination of alarms.
#[derive(Clone, PartialEq, Eq)]
pub struct Hook {
    authority: String,
    path: String,
}

impl Hook {
    /// Parses `http://HOST[:PORT]/PATH`.
    pub(crate) fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let sound = !authority.is_empty()
            && !authority.contains('@')
            && url.bytes().all(|byte| byte.is_ascii_graphic());
        sound.then(|| Hook { authority: authority.to_owned(), path: path.to_owned() })
    }

    fn address(&self) -> String {
        match self.authority.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => self.authority.clone(),
            _ => format!("{}:80", self.authority),
        }
    }

    /// Posts the alarm. Returns a message if no attempt succeeds.
    pub(super) async fn post(&self, body: &Bytes) -> Result<(), String> {
        let mut pause = PAUSE;
        let mut last = String::new();
        for attempt in 1..=ATTEMPTS {
            match tokio::time::timeout(ATTEMPT, self.attempt(body.clone())).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => last = error,
                Err(_) => last = format!("no answer within {ATTEMPT:?}"),
            }
            if attempt < ATTEMPTS {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
        }
        Err(last)
    }

    async fn attempt(&self, body: Bytes) -> Result<(), String> {
        let text = |error: &dyn fmt::Display| error.to_string();
        let stream = TcpStream::connect(self.address()).await.map_err(|error| text(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| text(&error))?;
        let request = Request::post(&self.path)
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .map_err(|error| text(&error))?;
        // The connection is driven here and ends with this attempt. It may close at the moment the
        // response arrives; the response counts then.
        let mut answer = pin!(sender.send_request(request));
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer,
            _ = connection => answer.await,
        };
        let answer = answer.map_err(|error| text(&error))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("it answered {status}")),
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The path of a hook is often a secret.
        f.debug_struct("Hook").field("authority", &self.authority).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_refused() {
        let hook = Hook::parse("http://127.0.0.1:9/a?b=c").expect("it is sound");
        assert_eq!((hook.address().as_str(), hook.path.as_str()), ("127.0.0.1:9", "/a?b=c"));
        assert_eq!(Hook::parse("http://relay").expect("it is sound").address(), "relay:80");
        for wrong in
            ["https://x/", "http://", "http:///x", "http://u@h/", "http://h/a b", "ftp://h"]
        {
            assert_eq!(Hook::parse(wrong), None, "{wrong}");
        }
    }
}
