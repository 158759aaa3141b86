//! Finds hot keys with the server's own tracker, `HOTKEYS`.
//!
//! Limit: tested only against its documented replies; no server that has it was available.

use std::{sync::Arc, time::Duration};

use redis::{FromRedisValue, Value, cmd};
use seawall_client::error::{Error, Result};

use super::{
    HotFound, HotKey, HotReport, HotSurvey, MAX_LISTEN, Source,
    end::ending,
    place::{COMMAND_LIMIT, places},
    top::Top,
};

impl HotSurvey {
    /// Finds hot keys with the server's own tracker, `HOTKEYS`, available from Redis 8.6 on.
    ///
    /// # Errors
    /// The errors of the servers; a tracker that another client has started is left alone.
    pub async fn by_tracker(
        &self,
        time: Duration,
        stop: impl Future<Output = ()>,
    ) -> Result<HotFound> {
        let (clock, started) = self.start();
        let seconds = time.as_secs().clamp(1, MAX_LISTEN.as_secs());
        let mut places = places(self.handle.client(), Source::Primary).await?;
        for place in &mut places {
            let mut start = cmd("HOTKEYS");
            start.arg("START").arg("METRICS").arg(2).arg("CPU").arg("NET");
            // It ends by itself, even if this process does not return.
            start.arg("COUNT").arg(self.top.clamp(1, 64)).arg("DURATION").arg(seconds);
            match place.connection.send::<Value>(&start, COMMAND_LIMIT).await {
                Err(Error::Refused { message, .. }) if message.contains("unknown command") => {
                    return Ok(HotFound::Unsupported(format!(
                        "{} has no HOTKEYS; Redis has it from 8.6 on",
                        place.name
                    )));
                }
                started => started?,
            };
        }
        let wait = async {
            self.handle.client().network_clock().sleep(Duration::from_secs(seconds)).await;
            Ok(())
        };
        let end = ending(wait, stop).await;
        let mut top = Top::new(self.top);
        for place in &mut places {
            let get: Value =
                place.connection.send(cmd("HOTKEYS").arg("GET"), COMMAND_LIMIT).await?;
            let tracked = read_tracker(&get, &place.name);
            for hot in tracked.into_iter().filter(|hot| self.wants(&hot.key)) {
                top.offer(hot.score, (0, Arc::clone(&hot.key)), hot);
            }
            // Frees the server's memory; a failure has no further effect.
            let _: Result<Value> =
                place.connection.send(cmd("HOTKEYS").arg("STOP"), COMMAND_LIMIT).await;
            let _: Result<Value> =
                place.connection.send(cmd("HOTKEYS").arg("RESET"), COMMAND_LIMIT).await;
        }
        let keys = top.into_sorted();
        let notes = vec!["score: microseconds of CPU time, by the server's HOTKEYS".to_owned()];
        let report = HotReport {
            examined: keys.len() as u64,
            keys,
            took: clock.now().since(started),
            notes,
        };
        Ok(HotFound::Found { report, end })
    }
}

/// Parses `HOTKEYS GET`: pairs of names and values, on a Cluster inside another array.
fn read_tracker(reply: &Value, node: &Arc<str>) -> Vec<HotKey> {
    let mut fields = pairs(reply);
    if let (true, Value::Array(parts)) = (fields.iter().all(|(name, _)| name.is_empty()), reply)
        && let Some(inner) = parts.first()
    {
        fields = pairs(inner);
    }
    let list = |wanted: &str| -> Vec<(Vec<u8>, u64)> {
        let found = fields.iter().find(|(name, _)| name == wanted);
        let list = found.map(|(_, list)| raw_pairs(list)).unwrap_or_default();
        list.into_iter()
            .filter_map(|(key, value)| {
                Some((Vec::from_redis_value_ref(key).ok()?, u64::from_redis_value_ref(value).ok()?))
            })
            .collect()
    };
    let mut keys: Vec<HotKey> = Vec::new();
    for (key, score) in list("by-cpu-time-us") {
        let node = Arc::clone(node);
        keys.push(HotKey { key: key.into(), node, score, reads: 0, writes: 0, net_bytes: 0 });
    }
    for (key, net_bytes) in list("by-net-bytes") {
        match keys.iter_mut().find(|hot| *hot.key == *key) {
            Some(hot) => hot.net_bytes = net_bytes,
            None => {
                let (key, node) = (key.into(), Arc::clone(node));
                keys.push(HotKey { key, node, score: 0, reads: 0, writes: 0, net_bytes });
            }
        }
    }
    keys
}

fn raw_pairs(value: &Value) -> Vec<(&Value, &Value)> {
    match value {
        Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
        Value::Array(flat) => flat.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
        _ => Vec::new(),
    }
}

fn pairs(value: &Value) -> Vec<(String, &Value)> {
    let named = |(name, value)| (String::from_redis_value_ref(name).unwrap_or_default(), value);
    raw_pairs(value).into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trackers_reply_is_read_flat_and_nested() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let flat = Value::Array(vec![
            text("tracking-active"),
            Value::Int(0),
            text("by-cpu-time-us"),
            Value::Array(vec![text("x"), Value::Int(104), text("y"), Value::Int(98)]),
            text("by-net-bytes"),
            Value::Array(vec![text("y"), Value::Int(7), text("z"), Value::Int(3)]),
        ]);
        let node: Arc<str> = "n".into();
        for reply in [Value::Array(vec![flat.clone()]), flat] {
            let keys = read_tracker(&reply, &node);
            let seen: Vec<_> =
                keys.iter().map(|hot| (&*hot.key, hot.score, hot.net_bytes)).collect();
            assert_eq!(seen, [(&b"x"[..], 104, 0), (b"y", 98, 7), (b"z", 0, 3)]);
        }
        assert!(read_tracker(&Value::Nil, &node).is_empty());
    }
}
