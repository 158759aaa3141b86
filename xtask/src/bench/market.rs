//! `cargo xtask bench market`: compares the service with bare axum, on one redis-server, with wrk.
//!
//! Both sides take turns under the same load; the bare side runs twice, as its own control. The
//! market writes its orders into SQLite while it sells, on the same two cores; all of them are
//! written before the next turn begins.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use seawall_testkit::{Http, ServerProcess};
use serde_json::{Value, json};

use super::cpu;
use super::page::machine;
use super::ratios::{Report, draw, median, table};
use super::wrk::{self, Turn};
use crate::outcome::{Context, Failure, Outcome};
use crate::shell::{bar, dist_binary, root, target};

/// Buyers, and sales in which each of them buys; together more than is sold in all rounds.
const USERS: u64 = 5_000;
const SALES: u64 = 120;
/// Number of shards of the sales; one more order in each shows that the earlier ones are written.
const SHARDS: usize = 16;
/// Seconds of a turn, and of the peak.
const TURN: u32 = 2;
const PEAK: u32 = 5;
/// Maximum time for writing the orders.
const DRAIN_LIMIT: Duration = Duration::from_secs(600);
const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bench/orders.lua");

/// Measures and writes the page; a quick run leaves the documentation alone.
pub(super) fn run(quick: bool, rounds: usize) -> Outcome {
    wrk::ready()?;
    let binary = dist_binary("seawall-cli", "seawall")?;
    let bench = dist_binary("seawall-bench", "seawall-bench")?;
    let rounds = if quick { 1 } else { rounds };
    let (redis, beside) = (ServerProcess::redis()?, ServerProcess::redis()?);
    let data = tempfile::tempdir().context("no temporary folder")?;
    let market = MarketProcess::start(
        Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--sms", "echo", "--log", "warn"])
            .args(["--admin-phone", "19999999999"])
            .args(["--redis", &redis.url(), "--data"])
            .arg(data.path()),
        |line| {
            line.trim()
                .strip_prefix("Page")?
                .trim()
                .strip_prefix("http://")?
                .strip_suffix('/')
                .map(str::to_owned)
        },
    )?;
    let shop = Client::connect(market.address)?.http.call("GET", "/shop/1", &[], b"")?.body;
    let file = data.path().join("shop.json");
    fs::write(&file, shop)?;
    let bare = MarketProcess::start(
        Command::new(&bench).args(["bare", &beside.url()]).arg(&file),
        |line| Some(line.to_owned()),
    )?;

    let read = compare(
        ("a shop, from memory", "axum alone, the same bytes", 0.6),
        rounds,
        |_| wrk::turn(market.address, "/shop/1", TURN, None),
        |_| wrk::turn(bare.address, "/shop", TURN, None),
        || Ok(()),
    )?;
    // The market closes connections that were idle while shops were read.
    let crowd = Crowd::gather(&mut Client::connect(market.address)?, data.path())?;
    let order = compare(
        ("an order in a flash sale", "axum alone, one EVALSHA", 0.7),
        rounds,
        |at| crowd.buy(market.address, "market", at, TURN),
        |at| crowd.buy(bare.address, "bare", at, TURN),
        || crowd.written(&mut Client::connect(market.address)?).map(drop),
    )?;
    let reports = [read.report, order.report];
    let peak = crowd.buy(market.address, "market", order.used, PEAK)?;
    let began = Instant::now();
    crowd.written(&mut Client::connect(market.address)?)?;
    let drained = began.elapsed();
    let memory = cpu::resident_bytes(market.child.id())? as f64 / (1024.0 * 1024.0);

    let folder = if quick { target().join("bench") } else { root().join("docs") };
    fs::create_dir_all(&folder)?;
    let mut text = page(rounds);
    table(&mut text, &reports);
    let _ = write!(
        text,
        "\n## The peak\n\n| what | measured |\n| --- | ---: |\n| orders accepted, per second, for \
         {PEAK} s | **{:.0}** |\n| until all {} are in the database | **{:.1} s** |\n| memory of the \
         service then | **{memory:.0} MiB** |\n",
        peak.per_second,
        peak.requests,
        drained.as_secs_f64(),
    );
    let file = folder.join("benchmarks-market.md");
    fs::write(&file, &text).context(format!("cannot write {}", file.display()))?;
    draw(&reports, &folder.join("benchmarks-market.svg"))?;
    print!("{text}");
    println!("written to {}", file.display());
    Ok(())
}

fn page(rounds: usize) -> String {
    format!(
        "# Benchmarks of the market\n\nWritten by `cargo xtask bench market`; do not edit.\n\n{}\n\n\
         wrk with 64 connections on one thread, `dist` builds, redis-server and SQLite on the same \
         machine, metrics on. Both sides take turns of {TURN} s, {rounds} rounds; the ratio is the median \
         of the rounds' ratios, ours divided by theirs. The control is their side against itself: what \
         noise alone does.\n\n![Throughput, ours against axum alone](benchmarks-market.svg)\n\n",
        machine()
    )
}

/// Result of one subject.
struct Compared {
    report: Report,
    /// Requests that our side has sent.
    used: u64,
}

fn compare(
    (subject, against, goal): (&str, &str, f64),
    rounds: usize,
    ours: impl Fn(u64) -> Outcome<Turn>,
    theirs: impl Fn(u64) -> Outcome<Turn>,
    mut between: impl FnMut() -> Outcome,
) -> Outcome<Compared> {
    let progress = bar(subject, rounds as u64);
    let (mut our_at, mut their_at) = (0, 0);
    let (mut ours_all, mut theirs_all, mut ratios, mut controls) = (vec![], vec![], vec![], vec![]);
    for _ in 0..rounds {
        // Between two turns of theirs: if the machine slows down meanwhile, it affects both.
        let first = sound(theirs(their_at)?)?;
        their_at += first.requests + 1_000;
        let turn = sound(ours(our_at)?)?;
        our_at += turn.requests + 1_000;
        between()?;
        let second = sound(theirs(their_at)?)?;
        their_at += second.requests + 1_000;
        ours_all.push(turn.per_second);
        theirs_all.push(first.per_second);
        ratios.push(2.0 * turn.per_second / (first.per_second + second.per_second));
        controls.push(second.per_second / first.per_second);
        progress.inc(1);
    }
    progress.finish_and_clear();
    let report = Report {
        subject: subject.to_owned(),
        against: against.to_owned(),
        ours: median(ours_all),
        theirs: median(theirs_all),
        ratio: median(ratios),
        control: median(controls),
        cpu_ratio: None,
        goal: Some(goal),
    };
    Ok(Compared { report, used: our_at })
}

/// Accepts a turn only if nearly all its requests succeeded.
fn sound(turn: Turn) -> Outcome<Turn> {
    if turn.refused * 100 <= turn.requests {
        return Ok(turn);
    }
    Err(Failure::new(format!("{} of {} requests were refused", turn.refused, turn.requests)))
}

/// The buyers and what they buy.
struct Crowd {
    /// Files with one line each.
    tokens: String,
    sales: String,
    last_token: String,
    vouchers: Vec<String>,
}

impl Crowd {
    /// Logs users in and opens sales.
    fn gather(client: &mut Client, folder: &Path) -> Outcome<Self> {
        let progress = bar("logging in", USERS);
        let mut tokens = Vec::new();
        for user in 0..USERS {
            tokens.push(client.log_in(&format!("3{user:010}"))?);
            progress.inc(1);
        }
        progress.finish_and_clear();
        let admin = client.log_in("19999999999")?;
        let mut vouchers = Vec::new();
        for number in 0..SALES {
            vouchers.push(client.open_sale(&admin, number)?);
        }
        let last_token = client.log_in("39999999999")?;
        let keep = |name: &str, lines: &[String]| {
            let file = folder.join(name);
            fs::write(&file, lines.join("\n") + "\n")?;
            Ok::<_, Failure>(file.display().to_string())
        };
        let (tokens, sales) = (keep("tokens", &tokens)?, keep("sales", &vouchers)?);
        Ok(Crowd { tokens, sales, last_token, vouchers })
    }

    fn buy(&self, address: SocketAddr, side: &str, at: u64, seconds: u32) -> Outcome<Turn> {
        let args = [side.to_owned(), self.tokens.clone(), self.sales.clone(), at.to_string()];
        wrk::turn(address, "/", seconds, Some((SCRIPT, &args)))
    }

    /// Waits until everything that was ordered before is in the database.
    fn written(&self, client: &mut Client) -> Outcome<usize> {
        // The orders of one shard are written in order, so one more order in each shows that all
        // are written.
        let began = Instant::now();
        let mut waiting = Vec::new();
        let mut shards = std::collections::HashSet::new();
        for voucher in self.vouchers.iter().rev() {
            let shard = voucher.parse::<u64>().context("an id")? % SHARDS as u64;
            if shards.insert(shard) {
                waiting.push(client.order(voucher, &self.last_token)?);
            }
        }
        for order in &waiting {
            while client.status(order, &self.last_token)? == "QUEUED" {
                if began.elapsed() > DRAIN_LIMIT {
                    return Err(Failure::new("the orders are not written"));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            client.post(&format!("/voucher-order/{order}/cancel"), &self.last_token)?;
        }
        Ok(waiting.len())
    }
}

/// A client of the market's API.
struct Client {
    http: Http,
}

impl Client {
    fn connect(address: SocketAddr) -> Outcome<Self> {
        Ok(Client { http: Http::connect(address)? })
    }

    fn data(&mut self, call: (&str, &str, &[(&str, &str)], &[u8])) -> Outcome<Value> {
        let (method, path, headers, body) = call;
        let answer = self.http.call(method, path, headers, body)?;
        let value: Value = serde_json::from_slice(&answer.body).context("no JSON")?;
        if answer.status == 200 {
            return Ok(value["data"].clone());
        }
        Err(Failure::new(format!("{method} {path} answered {}: {value}", answer.status)))
    }

    fn log_in(&mut self, phone: &str) -> Outcome<String> {
        let form = format!("phone={phone}");
        let sent = self.data(("POST", "/user/code", &[("content-type", FORM)], form.as_bytes()))?;
        let body = json!({ "phone": phone, "code": sent["code"] }).to_string();
        let token =
            self.data(("POST", "/user/login", &[("content-type", JSON)], body.as_bytes()))?;
        Ok(token.as_str().unwrap_or_default().to_owned())
    }

    fn open_sale(&mut self, admin: &str, number: u64) -> Outcome<String> {
        let sale = json!({
            "shopId": "1", "title": format!("Sale {number}"), "subTitle": "", "rules": "",
            "payValue": 100, "actualValue": 200, "stock": 1_000_000,
            "beginTime": "2026-01-01T00:00:00+08:00", "endTime": "2099-01-01T00:00:00+08:00",
        });
        let headers = [("content-type", JSON), ("authorization", admin)];
        let id = self.data(("POST", "/voucher/seckill", &headers, sale.to_string().as_bytes()))?;
        Ok(id.as_str().unwrap_or_default().to_owned())
    }

    fn post(&mut self, path: &str, token: &str) -> Outcome<Value> {
        self.data(("POST", path, &[("authorization", token)], b""))
    }

    fn order(&mut self, voucher: &str, token: &str) -> Outcome<String> {
        let id = self.post(&format!("/voucher-order/seckill/{voucher}"), token)?;
        Ok(id.as_str().unwrap_or_default().to_owned())
    }

    fn status(&mut self, order: &str, token: &str) -> Outcome<String> {
        let path = format!("/voucher-order/{order}");
        let order = self.data(("GET", &path, &[("authorization", token)], b""))?;
        Ok(order["status"].as_str().unwrap_or_default().to_owned())
    }
}

/// A server process that is killed when the value is dropped.
struct MarketProcess {
    child: Child,
    address: SocketAddr,
}

impl MarketProcess {
    /// Starts a server that prints its address.
    fn start(command: &mut Command, address: impl Fn(&str) -> Option<String>) -> Outcome<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().ok_or_else(|| Failure::new("it is piped"))?;
        let mut lines = BufReader::new(out).lines().map_while(Result::ok);
        let found = lines.find_map(|line| address(&line)?.parse().ok());
        // Later output is read and discarded.
        std::thread::spawn(move || lines.for_each(drop));
        match found {
            Some(address) => Ok(MarketProcess { child, address }),
            None => {
                let _ = child.wait();
                Err(Failure::new("a server did not say where it listens"))
            }
        }
    }
}

impl Drop for MarketProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
