//! Carts in Redis: one script per change, over the keys of one user.
//!
//! Each call carries a deadline by the server's clock, after which it has no effect. So a caller
//! that gave up and went to the database can be sure that its change is not executed later, when a
//! stalled server resumes.

use std::time::Duration;

use seawall::{
    Error, Result, Script, Seawall,
    client::ScriptInvocation,
    stream::{Fields, Stream},
};

use super::{
    MAX_COUNT, MAX_SKUS,
    aside::columns,
    item::{Change, Item, Name, Refused},
    outage::PATIENCE,
    store::Kept,
};
use crate::keys::{self, CartKeys};

/// Lifetime of an unused cart in Redis; far longer than the database may lag behind.
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// Maximum changes of one group of users that may wait for the database.
const MAX_WAITING: u64 = 100_000;
/// Newest changes that a reloaded cart searches for its own.
const RECENT_CHANGES: usize = 1_000;

static CHANGE: Script =
    Script::new(concat!(include_str!("script/shared.lua"), include_str!("script/change.lua")));
static READ: Script =
    Script::new(concat!(include_str!("script/shared.lua"), include_str!("script/read.lua")));
static MERGE: Script =
    Script::new(concat!(include_str!("script/shared.lua"), include_str!("script/merge.lua")));

/// Reply of a cart script.
#[derive(Debug)]
pub(super) enum Answer<T> {
    Done(T),
    /// The cart must be loaded first.
    Absent,
    Refused(Refused),
}

/// A state on its way to the database.
#[derive(Debug, Clone)]
pub(super) struct Noted {
    pub(super) user: u64,
    pub(super) item: Item,
    /// Pending changes up to this number are included.
    pub(super) replayed: i64,
    /// Name of the change that made it, if it has one.
    pub(super) name: Option<Name>,
}

#[derive(Debug)]
pub(super) struct RedisCarts {
    seawall: Seawall,
    streams: Vec<Stream<Noted>>,
}

impl RedisCarts {
    pub(super) fn new(seawall: &Seawall) -> Result<Self> {
        let streams =
            keys::cart_changes().map(|key| seawall.stream_at(key, noted)).collect::<Result<_>>()?;
        Ok(RedisCarts { seawall: seawall.clone(), streams })
    }

    /// Returns the streams of changes, for the worker.
    pub(super) fn streams(&self) -> Vec<Stream<Noted>> {
        self.streams.clone()
    }

    fn call(&self, script: &'static Script, user: u64) -> ScriptInvocation {
        let CartKeys(keys) = CartKeys::of(user);
        let limit = i64::try_from(PATIENCE.as_millis()).unwrap_or(i64::MAX);
        let deadline = self.seawall.client().server_millis() + limit;
        script.on(&keys).arg(deadline).arg(LIFETIME.as_millis() as u64)
    }

    async fn run(&self, call: &ScriptInvocation) -> Result<Answer<Vec<String>>> {
        let words: Vec<String> = self.seawall.client().eval(call).await?;
        let refused = |refused| Ok(Answer::Refused(refused));
        match words.first().map(String::as_str) {
            Some("OK") => Ok(Answer::Done(words.into_iter().skip(1).collect())),
            Some("ABSENT") => Ok(Answer::Absent),
            Some("NONE") => refused(Refused::NoSuchItem),
            Some("FULL") => refused(Refused::Full),
            Some("MANY") => refused(Refused::TooMany),
            Some("BUSY") => refused(Refused::Busy),
            Some("LATE") => Err(Error::Unavailable("it was answered too late".into())),
            _ => Err(Error::Unexpected(format!("{words:?} is no answer of a cart").into())),
        }
    }

    /// Executes a change. Returns the states appended for the database.
    pub(super) async fn change(&self, user: u64, change: &Change) -> Result<Answer<Vec<Noted>>> {
        let call = self.call(&CHANGE, user).arg(user).arg(MAX_WAITING);
        let or_nothing = |value: Option<u32>| value.map_or(String::new(), |it| it.to_string());
        let call = match change {
            Change::Add { sku, count, price, name } => {
                let call = call.arg("ADD").arg(sku).arg(count).arg(price);
                call.arg(MAX_SKUS).arg(MAX_COUNT).arg(name.as_str())
            }
            Change::Set { sku, count, selected } => call
                .arg("SET")
                .arg(sku)
                .arg(or_nothing(*count))
                .arg(or_nothing(selected.map(u32::from))),
            Change::Remove { sku } => call.arg("DROP").arg(sku),
            Change::Take { items } => {
                let each = |call: ScriptInvocation, (sku, version): &(u64, i64)| {
                    call.arg(sku).arg(version)
                };
                items.iter().fold(call.arg("TAKE"), each)
            }
        };
        let words = match self.run(&call).await? {
            Answer::Done(words) => words,
            Answer::Absent => return Ok(Answer::Absent),
            Answer::Refused(refused) => return Ok(Answer::Refused(refused)),
        };
        let name = if let Change::Add { name, .. } = change { Some(name) } else { None };
        let noted: Option<Vec<Noted>> =
            words.chunks(7).map(|words| answered(user, words, name)).collect();
        noted
            .map(Answer::Done)
            .ok_or_else(|| Error::Unexpected("a change of a cart is not one".into()))
    }

    /// Returns a cart, the newest item first.
    pub(super) async fn read(&self, user: u64) -> Result<Answer<Vec<Item>>> {
        let words = match self.run(&self.call(&READ, user)).await? {
            Answer::Done(words) => words,
            Answer::Absent => return Ok(Answer::Absent),
            Answer::Refused(refused) => return Ok(Answer::Refused(refused)),
        };
        let items: Option<Vec<Item>> = words.chunks(3).map(item).collect();
        items
            .map(Answer::Done)
            .ok_or_else(|| Error::Unexpected("an item of a cart is not one".into()))
    }

    /// Merges rows of the database where they are newer, adds names with their times, and executes
    /// pending changes.
    pub(super) async fn merge(
        &self,
        user: u64,
        kept: &Kept,
        names: &[(String, i64)],
    ) -> Result<()> {
        let mut call = self.call(&MERGE, user).arg(user).arg(RECENT_CHANGES);
        call = call.arg(MAX_SKUS).arg(MAX_COUNT);
        call = call.arg(names.len()).arg(kept.rows.len()).arg(kept.last);
        for (name, time) in names {
            call = call.arg(name).arg(*time);
        }
        for row in &kept.rows {
            call = call
                .arg(row.sku)
                .arg(row.count)
                .arg(u8::from(row.selected))
                .arg(row.add_price)
                .arg(row.added)
                .arg(row.version);
        }
        for change in &kept.pending {
            let (count, selected, price, added, bought) = columns(change);
            call = call.arg(change.seq).arg(change.what.word()).arg(change.sku).arg(count);
            call = call.arg(selected).arg(price).arg(added).arg(bought).arg(&change.name);
        }
        self.run(&call).await.map(drop)
    }
}

/// Parses SKU, count, selected, price, added, version and replayed.
fn answered(user: u64, words: &[String], name: Option<&Name>) -> Option<Noted> {
    let [sku, count, selected, price, added, version, replayed] = words else { return None };
    let item = Item {
        sku: sku.parse().ok()?,
        count: count.parse().ok()?,
        selected: selected == "1",
        add_price: price.parse().ok()?,
        added: added.parse().ok()?,
        version: version.parse().ok()?,
    };
    Some(Noted { user, item, replayed: replayed.parse().ok()?, name: name.cloned() })
}

/// Parses SKU, count, and "selected price added version".
fn item(words: &[String]) -> Option<Item> {
    let [sku, count, detail] = words else { return None };
    let mut detail = detail.split(' ');
    let mut number = || detail.next()?.parse::<i64>().ok();
    Some(Item {
        sku: sku.parse().ok()?,
        count: count.parse().ok()?,
        selected: number()? == 1,
        add_price: number()?,
        added: number()?,
        version: number()?,
    })
}

fn noted(fields: &Fields) -> Result<Noted, String> {
    let number = |name: &str| -> Result<i64, String> {
        let text = fields.get(name).and_then(|value| std::str::from_utf8(value).ok());
        text.and_then(|text| text.parse().ok()).ok_or_else(|| format!("no number in `{name}`"))
    };
    let id = |name| u64::try_from(number(name)?).map_err(|error| error.to_string());
    let name = fields.get("submission").and_then(|name| std::str::from_utf8(name).ok());
    Ok(Noted {
        user: id("user")?,
        item: Item {
            sku: id("sku")?,
            count: u32::try_from(number("count")?).map_err(|error| error.to_string())?,
            selected: number("selected")? == 1,
            add_price: number("price")?,
            added: number("added")?,
            version: number("version")?,
        },
        // Entries of older releases lack this field.
        replayed: if fields.get("replayed").is_some() { number("replayed")? } else { 0 },
        name: name.and_then(Name::parse),
    })
}
