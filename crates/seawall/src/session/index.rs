//! The index of a user's sessions: entering a session, and ending the oldest of too many.

use redis::{Value, cmd};
use seawall_client::{client::Script, error::Result, member::Member};
use seawall_resilience::clock::millis;

use super::{SessionId, Sessions, store::SLICE};

/// How long opening a session may take, in milliseconds.
const HALF_OPEN_FOR: i64 = 60_000;

static INDEX: Script = Script::with_time(include_str!("script/index.lua"));
static DROP: Script = Script::new(include_str!("script/drop.lua"));

/// State of a session, to be entered in the index.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// It is being opened, with the longest lifetime from now.
    Opening,
    /// It is being restored, and ends at this time or after the longest lifetime from now.
    Returning(i64),
    /// It was opened, unless its entry was removed meanwhile.
    Open,
    /// It was restored, and ends as entered before.
    Back(i64),
}

/// Outcome of entering a session in its user's index.
pub(super) enum Entered {
    /// The entry exists.
    There {
        /// When the session ends at the latest.
        until: i64,
        /// Its score without the half; not earlier than its end.
        score: i64,
    },
    /// Its entry was removed while it was being opened, or it was the oldest of too many.
    Ended,
}

impl<M: Member> Sessions<M> {
    /// Enters a session in its user's index.
    ///
    /// A session that is open now ends the oldest others if there are too many; one that was
    /// restored may be the oldest itself.
    pub(super) async fn enter(&self, user: &M, id: &SessionId, step: Step) -> Result<Entered> {
        let (settings, client) = (&self.settings, self.settings.handle.client());
        let index = self.index(user)?;
        let call = INDEX.on(&[&index]).arg(id.as_str());
        let call = call.arg(millis(settings.longest)).arg(settings.most);
        let call = match step {
            Step::Opening => call.arg("").arg(0),
            Step::Returning(until) => call.arg(until).arg(0),
            Step::Open => call.arg("").arg(1),
            Step::Back(until) => call.arg(until).arg(2),
        };
        let mut reply = client.eval::<Vec<Value>>(&call).await?.into_iter();
        let mut number = || redis::from_redis_value::<i64>(reply.next().unwrap_or(Value::Int(0)));
        let (until, score) = (number()?, number()?);
        if until <= 0 {
            return Ok(Entered::Ended);
        }
        if let Some(all) = reply.next() {
            let spared = matches!(step, Step::Open).then_some(id);
            let all = entries(redis::from_redis_value(all)?);
            if self.end_oldest(&index, &all, spared).await?.iter().any(|(ended, _)| ended == id) {
                return Ok(Entered::Ended);
            }
        }
        Ok(Entered::There { until, score })
    }

    /// Ends the oldest of a user's open sessions, as many as are over the limit, and returns them.
    ///
    /// Sessions that expired do not count, nor do sessions that are being opened: they count, and
    /// end others, once they are open. So if several are opened at once, each ends only those that
    /// were open before it, and never itself.
    async fn end_oldest(
        &self,
        index: &[u8],
        all: &[(SessionId, f64)],
        spared: Option<&SessionId>,
    ) -> Result<Vec<(SessionId, f64)>> {
        let client = self.settings.handle.client();
        let now = client.server_millis();
        let newest = now + millis(self.settings.longest).cast_signed();
        let young = (newest - HALF_OPEN_FOR) as f64..(newest + HALF_OPEN_FOR) as f64;
        let (mut live, mut gone) = (Vec::new(), Vec::new());
        for slice in all.chunks(SLICE) {
            let commands = slice.iter().map(|(id, _)| self.on_session("EXISTS", id));
            let replies = client.send_all(commands.collect::<Result<_>>()?).await;
            for (entry, reply) in slice.iter().zip(replies) {
                let is_there = redis::from_redis_value::<u8>(reply?)? == 1;
                // The process that began to open a session may have died.
                match (is_half_open(entry) && young.contains(&entry.1), is_there) {
                    (true, _) => {}
                    (false, true) => live.push(entry.clone()),
                    (false, false) => gone.push(entry.clone()),
                }
            }
        }
        // Ordered by their ends. Sessions that end later than any that is opened now are the
        // oldest: they were opened when the longest lifetime was longer.
        live.sort_by_key(|(_, score)| *score < young.end);
        let over = live.len().saturating_sub(self.settings.most);
        live.retain(|(id, _)| Some(id) != spared);
        live.truncate(over);
        self.drop_entries(index, &gone).await?;
        self.bar_all(&live, now).await?;
        self.end(index, &live).await?;
        Ok(live)
    }

    /// Bars sessions that end for good from being restored, for as long as they could have lived.
    async fn bar_all(&self, ids: &[(SessionId, f64)], now: i64) -> Result<()> {
        for slice in ids.chunks(SLICE) {
            let mut commands = Vec::with_capacity(slice.len());
            for (id, until) in slice {
                let (key, mut command) = (self.bar_key(id)?, cmd("SET"));
                command.arg(&key).arg(1).arg("PX").arg((*until as i64 - now).max(1));
                commands.push((key, command));
            }
            for reply in self.settings.handle.client().send_all(commands).await {
                reply?;
            }
        }
        Ok(())
    }

    /// Deletes sessions and then removes them from the index, so that a failure leaves them in the
    /// index. Returns how many existed.
    pub(super) async fn end(&self, index: &[u8], ids: &[(SessionId, f64)]) -> Result<usize> {
        let client = self.settings.handle.client();
        let mut live = 0;
        for slice in ids.chunks(SLICE) {
            let commands = slice.iter().map(|(id, _)| self.on_session("DEL", id));
            for reply in client.send_all(commands.collect::<Result<_>>()?).await {
                live += redis::from_redis_value::<usize>(reply?)?;
            }
            self.drop_entries(index, slice).await?;
        }
        Ok(live)
    }

    /// Removes sessions from the index, unless they were entered again since.
    pub(super) async fn drop_entries(&self, index: &[u8], ids: &[(SessionId, f64)]) -> Result<()> {
        for slice in ids.chunks(SLICE) {
            let mut call = DROP.on(&[index]);
            for (id, score) in slice {
                call = call.arg(id.as_str()).arg(*score);
            }
            self.settings.handle.client().run(&call).await?;
        }
        Ok(())
    }

    /// Returns the entries of a user's index with their scores, oldest first.
    pub(super) async fn indexed(&self, index: &[u8]) -> Result<Vec<(SessionId, f64)>> {
        let mut command = cmd("ZRANGE");
        // The index is limited to the number of sessions per user, at most 1,000.
        command.arg(index).arg(0).arg(-1).arg("WITHSCORES");
        Ok(entries(self.settings.handle.client().query(index, &command).await?))
    }
}

/// Returns `true` if an entry of the index belongs to a session that was being opened.
fn is_half_open((_, score): &(SessionId, f64)) -> bool {
    score.fract() != 0.0
}

fn entries(named: Vec<(String, f64)>) -> Vec<(SessionId, f64)> {
    named.into_iter().filter_map(|(id, score)| Some((SessionId::parse(&id)?, score))).collect()
}
