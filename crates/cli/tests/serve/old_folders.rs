//! Folders that releases called 0.1.0 have left: today's program opens them and finds everything.
//!
//! `folders/*.tar.gz` were made by `seawall serve` of that day: of 2026-11-16 with eleven of the market's
//! migrations, ended by SIGKILL right after the last change; of 2026-11-18, the last one before the
//! toolkit was cut into crates, ended by SIGTERM. Both were filled in the same way, over HTTP and through
//! the engine's socket; `ids.json` has the ids that the market chose.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use seawall_testkit::{Address, Client, Reply};
use serde_json::{Value, json};

use crate::client::{MarketProcess, data, eventually};

/// What the keys must hold: a command, and its reply in one line.
const KEYS: [(&str, &str); 30] = [
    ("GET old:string", "kept"),
    ("STRLEN old:big", "20000"),
    ("GET old:number", "42"),
    ("EXPIRETIME old:expires", "4102444800"),
    ("EXISTS old:gone", "0"),
    ("LLEN old:list", "299"),
    ("LRANGE old:list 0 1", "e1 e2"),
    ("LINDEX old:list -1", "e299"),
    ("HLEN old:hash", "199"),
    ("HMGET old:hash f0 f1 f199", "(nil) 1 199"),
    ("HGETALL old:small-hash", "a 1 b 2"),
    ("SCARD old:set", "200"),
    ("SMISMEMBER old:set m0 m199 m200", "1 1 0"),
    ("SMEMBERS old:integers", "1 2 3 500"),
    ("OBJECT ENCODING old:integers", "intset"),
    ("ZCARD old:zset", "200"),
    ("ZRANGE old:zset -2 -1 WITHSCORES", "z199 199.5 z7 1007.5"),
    ("GEOSEARCH old:geo FROMLONLAT 120.15 30.26 BYRADIUS 1 km", "pier"),
    ("GETBIT old:bits 1000", "1"),
    ("BITCOUNT old:bits", "1"),
    ("PFCOUNT old:hll", "100"),
    ("XLEN old:stream", "4"),
    ("XRANGE old:stream 3-1 4-1", "3-1 n 3 4-1 n 4"),
    ("XPENDING old:stream readers", "1 3-1 3-1 ann 1"),
    ("XREADGROUP GROUP readers bob COUNT 1 STREAMS old:stream >", "old:stream 4-1 n 4"),
    ("GET old:script", "by a script"),
    ("GET old:multi", "1"),
    ("LRANGE old:multi-list 0 -1", "a b"),
    ("SELECT 3", "OK"),
    ("GET old:elsewhere", "in database 3"),
];

fn unpack(name: &str, into: &Path) -> PathBuf {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/folders").join(name);
    let mut tar = Command::new("tar");
    let status = tar.arg("-xzf").arg(&archive).arg("-C").arg(into).status().expect("tar runs");
    assert!(status.success(), "{}", archive.display());
    into.join("seawall-data")
}

fn line(reply: &Reply) -> String {
    match reply {
        Reply::Array(items) => items.iter().map(line).collect::<Vec<_>>().join(" "),
        Reply::Int(number) => number.to_string(),
        nil if nil.is_nil() => "(nil)".to_owned(),
        other => String::from_utf8_lossy(other.as_bytes().unwrap_or_default()).into_owned(),
    }
}

fn check_log(folder: &Path) {
    let mut check = Command::new(env!("CARGO_BIN_EXE_seawall"));
    let out = check.args(["engine", "--check"]).arg(folder).output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said} {}", String::from_utf8_lossy(&out.stderr));
}

fn check_keys(folder: &Path) {
    let address = Address::Unix(folder.join("engine.sock"));
    let mut client = Client::connect(&address).expect("the engine listens");
    for (command, expected) in KEYS {
        let words: Vec<&str> = command.split(' ').collect();
        let reply = client.call(&words).expect("an answer");
        assert_eq!(line(&reply), expected, "{command}");
    }
}

/// Checks that the database has what migrations since the older folder have made: SQLite keeps their text.
fn check_schema(folder: &Path) {
    let file = fs::read(folder.join("market.db")).expect("a database");
    let made = [
        "INDEX voucher_order_of_user",
        "INDEX follow_by_time",
        "TABLE session_end",
        "search_name VARCHAR",
        "TABLE debt",
        "TABLE cart_pending",
    ];
    for made in made {
        let found = file.windows(made.len()).any(|bytes| bytes == made.as_bytes());
        assert!(found, "no {made}: a migration did not run");
    }
}

/// Checks what was done in the market, and does some more. Returns the id of a new note.
fn check_market(market: &MarketProcess, ids: &Value) -> String {
    let id = |name: &str| ids[name].as_str().unwrap_or_else(|| panic!("no {name}")).to_owned();
    let mut http = market.client();
    let (ada, ben) = (http.log_in("13900000001"), http.log_in("13900000002"));

    let me = data(http.get("/user/me", &ada));
    assert_eq!((&me["id"], &me["nickName"]), (&json!(id("user")), &json!("Old Ada")));
    let paid = data(http.get(&format!("/voucher-order/{}", id("paid")), &ada));
    assert_eq!((&paid["status"], &paid["voucherId"]), (&json!("PAID"), &json!("1")));
    let listed = data(http.get("/voucher-order", &ada));
    assert!(listed.to_string().contains(&id("paid")), "{listed}");
    let goods = data(http.get(&format!("/order/{}", id("goods")), &ada));
    assert_eq!((&goods["status"], &goods["total"]), (&json!("PAID"), &json!(7200)));
    let cart = data(http.get("/cart", &ada));
    assert_eq!((&cart[0]["skuId"], &cart[0]["count"]), (&json!("3"), &json!(5)), "{cart}");
    assert_eq!(http.stock("1"), 99);

    let note = data(http.get(&format!("/blog/{}", id("note")), &ben));
    assert_eq!((&note["title"], &note["liked"]), (&json!("An old note"), &json!(1)), "{note}");
    let comments = data(http.get(&format!("/blog/{}/comments", id("note")), &ben));
    assert!(comments.to_string().contains("An old comment."), "{comments}");
    let follows = data(http.get(&format!("/follow/or/not/{}", id("user")), &ben));
    assert_eq!(follows, json!(true));
    let feed = || data(market.client().get("/blog/of/follow?lastId=9000000000000", &ben));
    eventually("the feed has the old note", || feed().to_string().contains(&id("note")));
    let days = data(http.get("/user/sign?month=2026-11", &ada));
    assert!(days.to_string().contains("19"), "{days}");
    // Names in small letters came with the migration 16.
    let found = data(http.get("/shop/of/name?name=HARBOUR", ""));
    assert!(found.to_string().to_lowercase().contains("harbour"), "{found}");

    let new = json!({ "title": "A new note", "content": "In the old folder." });
    let new = data(http.json("POST", "/blog", &ada, &new));
    eventually("the feed has the new note", || feed().to_string().contains("A new note"));
    new.as_str().expect("an id").to_owned()
}

fn opens(name: &str) {
    let place = tempfile::tempdir().expect("a folder");
    let folder = unpack(name, place.path());
    let ids = fs::read_to_string(folder.join("ids.json")).expect("it is in the archive");
    let ids: Value = serde_json::from_str(&ids).expect("JSON");
    check_log(&folder);
    let market = MarketProcess::start(&folder, &[]);
    check_keys(&folder);
    let new = check_market(&market, &ids);
    assert_eq!(market.terminate(), Some(0));
    check_log(&folder);
    check_schema(&folder);
    let market = MarketProcess::start(&folder, &[]);
    let note = data(market.client().get(&format!("/blog/{new}"), ""));
    assert_eq!(note["title"], "A new note");
    assert_eq!(market.terminate(), Some(0));
}

#[test]
fn a_folder_that_was_killed_before_later_migrations_opens() {
    opens("0.1.0-of-2026-11-16.tar.gz");
}

#[test]
fn a_folder_of_the_last_day_before_the_crates_opens() {
    opens("0.1.0-of-2026-11-18.tar.gz");
}
