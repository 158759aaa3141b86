//! The binary as a child process, and what its clients say and hear.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use seawall_testkit::{HttpAnswer, MarketProcess as Process};
use serde_json::Value;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A running `seawall serve` that ends with this value.
pub(crate) struct MarketProcess {
    process: Process,
    pub(crate) address: SocketAddr,
}

impl MarketProcess {
    /// Starts it on a free port and waits until it says where it is.
    pub(crate) fn start(data: &Path, args: &[&str]) -> Self {
        Self::start_with(data, args, &[])
    }

    /// The same with variables in its environment.
    pub(crate) fn start_with(data: &Path, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = command(data);
        let process = Process::start(command.args(args).envs(variables.iter().copied()));
        let process = process.expect("the binary starts");
        let address = process.address();
        MarketProcess { process, address }
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it runs");
    }

    /// Asks it to end; its exit code.
    pub(crate) fn terminate(self) -> Option<i32> {
        self.process.terminate().expect("it ends")
    }

    pub(crate) fn client(&self) -> Http {
        Http::connect(self.address).expect("it listens")
    }
}

/// The binary with its data in `data`, without settings from this environment.
pub(crate) fn command(data: &Path) -> Command {
    Process::command(env!("CARGO_BIN_EXE_seawall"), data)
}

/// One kept-alive connection, for somebody with a token or without.
pub(crate) struct Http(seawall_testkit::Http);

/// An answer, taken apart.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    pub(crate) fn text(&self) -> String {
        self.body["data"].as_str().unwrap_or_else(|| panic!("no text: {self:?}")).to_owned()
    }
}

impl From<HttpAnswer> for Answer {
    fn from(HttpAnswer { status, headers, body }: HttpAnswer) -> Self {
        let body = serde_json::from_slice(&body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
        Answer { status, headers, body }
    }
}

impl Http {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        seawall_testkit::Http::connect(address).map(Http)
    }

    pub(crate) fn get(&mut self, path: &str, token: &str) -> io::Result<Answer> {
        self.call("GET", path, token, "", "")
    }

    pub(crate) fn post(&mut self, path: &str, token: &str) -> io::Result<Answer> {
        self.call("POST", path, token, "", "")
    }

    pub(crate) fn json(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        body: &Value,
    ) -> io::Result<Answer> {
        self.json_with(method, path, token, body, &[])
    }

    /// The same with further headers.
    pub(crate) fn json_with(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> io::Result<Answer> {
        self.send(method, path, token, "application/json", &body.to_string(), headers)
    }

    pub(crate) fn call(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        kind: &str,
        body: &str,
    ) -> io::Result<Answer> {
        self.send(method, path, token, kind, body, &[])
    }

    fn send(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        kind: &str,
        body: &str,
        more: &[(&str, &str)],
    ) -> io::Result<Answer> {
        let bearer = format!("Bearer {token}");
        let mut headers = more.to_vec();
        if !token.is_empty() {
            headers.push(("authorization", &bearer));
        }
        if !kind.is_empty() {
            headers.push(("content-type", kind));
        }
        self.0.call(method, path, &headers, body.as_bytes()).map(Answer::from)
    }

    /// A token for a phone, by the code that echo mode returns.
    pub(crate) fn log_in(&mut self, phone: &str) -> String {
        self.try_log_in(phone).unwrap_or_else(|answer| panic!("{answer:?}"))
    }

    /// A token, or the answer that is none.
    fn try_log_in(&mut self, phone: &str) -> Result<String, Answer> {
        let form = "application/x-www-form-urlencoded";
        let asked = self.call("POST", "/user/code", "", form, &format!("phone={phone}"));
        let asked = asked.expect("an answer");
        let Some(code) = asked.body["data"]["code"].as_str() else { return Err(asked) };
        let body = serde_json::json!({ "phone": phone, "code": code }).to_string();
        let entered = self.call("POST", "/user/login", "", "application/json", &body);
        let entered = entered.expect("an answer");
        entered.body["data"].as_str().map(str::to_owned).ok_or(entered)
    }

    /// One of a crowd. A busy machine may tell some of them to come back later, and a phone is not sent
    /// two codes in a minute: then it is somebody else who comes.
    fn log_in_one_of_many(&mut self, number: usize) -> String {
        let mut last = None;
        for prefix in ["139", "138", "137", "136", "135"] {
            match self.try_log_in(&format!("{prefix}{number:08}")) {
                Ok(token) => return token,
                Err(answer) if answer.status == 503 => last = Some(answer),
                Err(answer) => panic!("{answer:?}"),
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        panic!("{last:?}")
    }

    /// Waits until an order has left the queue: its status.
    pub(crate) fn settled(&mut self, order: &str, token: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.get(&format!("/voucher-order/{order}"), token).expect("an answer");
            let status = answer.body["data"]["status"].as_str();
            match status.unwrap_or_else(|| panic!("order {order}: {answer:?}")) {
                "QUEUED" => assert!(Instant::now() < deadline, "{order} is still queued"),
                status => return status.to_owned(),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Units of a sale, by the database.
    pub(crate) fn stock(&mut self, voucher: &str) -> i64 {
        let list = self.get("/voucher/seckill/list", "").expect("an answer").body;
        let sales = list["data"].as_array().expect("a list");
        let sale = sales.iter().find(|sale| sale["id"] == voucher).expect("it is listed");
        sale["stock"].as_i64().expect("a number")
    }
}

/// Asserts success, and gives the data.
#[track_caller]
pub(crate) fn data(answer: io::Result<Answer>) -> Value {
    let answer = answer.expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body["data"].clone()
}

/// Asks until it is as it should be.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Logs many in, over several connections; a token each.
pub(crate) fn crowd(served: &MarketProcess, count: usize) -> Vec<String> {
    const CONNECTIONS: usize = 8;
    std::thread::scope(|scope| {
        let part = |start: usize| {
            let mut client = served.client();
            let phones = (start..count).step_by(CONNECTIONS);
            phones.map(|n| client.log_in_one_of_many(n)).collect::<Vec<_>>()
        };
        let parts: Vec<_> =
            (0..CONNECTIONS).map(|start| scope.spawn(move || part(start))).collect();
        parts.into_iter().flat_map(|part| part.join().expect("all are in")).collect()
    })
}
