//! A server with keys whose sizes are known, because the test made them.

use seawall::{
    Seawall, cmd,
    survey::{End, Report, Survey},
};
use seawall_testkit::backend::{Backend, TestBackend};

/// A backend of the test's own, and a handle on it.
pub(crate) struct Ground {
    pub(crate) stand: TestBackend,
    pub(crate) seawall: Seawall,
}

impl Ground {
    pub(crate) async fn open(backend: Backend) -> Self {
        let stand = TestBackend::private(backend).expect("the backend starts");
        let patience = std::time::Duration::from_secs(20);
        let builder = Seawall::builder(stand.url()).response_timeout(patience);
        let seawall = builder.connect().await.expect("it answers");
        Ground { stand, seawall }
    }

    /// `count` keys: strings that grow with their number, hashes and sets among them. The largest are
    /// the strings with the highest numbers.
    pub(crate) async fn fill(&self, count: u64) {
        const BATCH: u64 = 2_000;
        let mut number = 0;
        while number < count {
            let mut commands = Vec::new();
            for number in number..count.min(number + BATCH) {
                let key = format!("fill:{}:{number}", number % 7);
                let mut command;
                match number % 10 {
                    8 => {
                        command = cmd("HSET");
                        command.arg(&key).arg("field").arg(number);
                    }
                    9 => {
                        command = cmd("SADD");
                        command.arg(&key).arg(number).arg("member");
                    }
                    _ => {
                        command = cmd("SET");
                        command.arg(&key).arg("x".repeat(size(number, count)));
                    }
                }
                if number % 2 == 0 && number % 10 < 8 {
                    command.arg("EX").arg(86_400);
                }
                commands.push((key.into_bytes(), command));
            }
            for reply in self.seawall.client().send_all(commands).await {
                reply.expect("it is written");
            }
            number += BATCH;
        }
    }

    /// The keys of the largest strings, the largest first.
    pub(crate) fn truth(count: u64, top: usize) -> Vec<String> {
        let strings = (0..count).rev().filter(|number| number % 10 < 8);
        strings.take(top).map(|number| format!("fill:{}:{number}", number % 7)).collect()
    }

    /// A whole survey.
    pub(crate) async fn survey(&self, survey: &Survey) -> Report {
        let surveyed = survey.run(|_| {}, std::future::pending()).await.expect("it begins");
        assert!(matches!(surveyed.end, End::Complete), "{:?}", surveyed.end);
        surveyed.report
    }

    /// Waits until every write is on the replicas too.
    pub(crate) async fn settle(&self) {
        let client = self.seawall.client();
        for slot in 0..64 {
            let key = format!("settle:{slot}");
            let mut connection = client.dedicated(key.as_bytes()).await.expect("a connection");
            let limit = std::time::Duration::from_secs(20);
            connection.send::<()>(cmd("SET").arg(&key).arg(1), limit).await.expect("it is written");
            let wait = cmd("WAIT").arg(1).arg(20_000).take();
            let reached: i64 = connection.send(&wait, limit * 2).await.expect("it answers");
            assert!(reached >= 1, "no replica follows");
            connection.send::<()>(cmd("DEL").arg(&key), limit).await.expect("it is removed");
        }
    }
}

/// Keys at the end that are large, each by more than an allocation class than the one before.
pub(crate) const LARGE: u64 = 26;

fn size(number: u64, count: u64) -> usize {
    match LARGE.checked_sub(count - number) {
        Some(step) => (11_000.0 * 1.3f64.powi(step as i32)) as usize,
        None => (number % 50) as usize,
    }
}
