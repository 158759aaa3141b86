//! Carts in Redis: one script for each change, over the keys of one user.
//!
//! Each call carries a time, by the server's clock, after which it does nothing any more. So a caller
//! that gave up and went to the database need not fear that its change is carried out later, when a
//! server that was stuck wakes up.

use std::time::Duration;

use seawall::{
    Error, Result, Script, Seawall,
    link::Call,
    stream::{Fields, Stream},
};

use super::{
    MAX_COUNT, MAX_SKUS,
    item::{Change, Item, Refused},
    outage::PATIENCE,
};
use crate::{
    keys::{self, CartKeys},
    submissions::IdempotencyKey,
};

/// How long a cart that nobody looks at stays in Redis; far longer than the database may be behind.
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// Most changes of one group of users that may wait for the database.
const MAX_WAITING: u64 = 100_000;
/// Changes that a cart which is loaded anew looks for its own among.
const RECENT_CHANGES: usize = 1_000;

static CHANGE: Script =
    Script::new(concat!(include_str!("script/shared.lua"), include_str!("script/change.lua")));
static READ: Script =
    Script::new(concat!(include_str!("script/shared.lua"), include_str!("script/read.lua")));
static MERGE: Script =
    Script::new(concat!(include_str!("script/shared.lua"), include_str!("script/merge.lua")));

/// What Redis says.
#[derive(Debug)]
pub(super) enum Answer<T> {
    Done(T),
    /// The cart has to be loaded first.
    Absent,
    Refused(Refused),
}

/// A change on its way to the database.
#[derive(Debug, Clone)]
pub(super) struct Noted {
    pub(super) user: u64,
    pub(super) item: Item,
    /// The submission that made it.
    pub(super) submission: Option<IdempotencyKey>,
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

    /// The streams of changes, for the worker.
    pub(super) fn streams(&self) -> Vec<Stream<Noted>> {
        self.streams.clone()
    }

    fn call(&self, script: &'static Script, user: u64) -> Call {
        let CartKeys(keys) = CartKeys::of(user);
        let limit = i64::try_from(PATIENCE.as_millis()).unwrap_or(i64::MAX);
        let deadline = self.seawall.link().server_millis() + limit;
        script.on(&keys).arg(deadline).arg(LIFETIME.as_millis() as u64)
    }

    async fn run(&self, call: &Call) -> Result<Answer<Vec<String>>> {
        let words: Vec<String> = self.seawall.link().eval(call).await?;
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

    /// Carries out a change.
    pub(super) async fn change(&self, user: u64, change: &Change) -> Result<Answer<()>> {
        let call = self.call(&CHANGE, user).arg(user).arg(MAX_WAITING);
        let or_nothing = |value: Option<u32>| value.map_or(String::new(), |it| it.to_string());
        let call = match change {
            Change::Add { sku, count, price, submission } => {
                let call = call.arg("ADD").arg(sku).arg(count).arg(price);
                let name = submission.as_ref().map_or("", IdempotencyKey::as_str);
                call.arg(MAX_SKUS).arg(MAX_COUNT).arg(name)
            }
            Change::Set { sku, count, selected } => call
                .arg("SET")
                .arg(sku)
                .arg(or_nothing(*count))
                .arg(or_nothing(selected.map(u32::from))),
            Change::Remove { sku } => call.arg("DROP").arg(sku),
            Change::Take { items } => {
                let each = |call: Call, (sku, version): &(u64, i64)| call.arg(sku).arg(version);
                items.iter().fold(call.arg("TAKE"), each)
            }
        };
        Ok(match self.run(&call).await? {
            Answer::Done(_) => Answer::Done(()),
            Answer::Absent => Answer::Absent,
            Answer::Refused(refused) => Answer::Refused(refused),
        })
    }

    /// A cart, the newest item first.
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

    /// Brings rows of the database in, where they are newer, and submissions with their times.
    pub(super) async fn merge(
        &self,
        user: u64,
        rows: &[Item],
        submissions: &[(String, i64)],
    ) -> Result<()> {
        let mut call = self.call(&MERGE, user).arg(user).arg(RECENT_CHANGES);
        call = call.arg(submissions.len());
        for (name, time) in submissions {
            call = call.arg(name).arg(*time);
        }
        for row in rows {
            call = call
                .arg(row.sku)
                .arg(row.count)
                .arg(u8::from(row.selected))
                .arg(row.add_price)
                .arg(row.added)
                .arg(row.version);
        }
        self.run(&call).await.map(drop)
    }
}

/// SKU, count, and "selected price added version".
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
    let submission = fields.get("submission").and_then(|name| std::str::from_utf8(name).ok());
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
        submission: submission.filter(|name| !name.is_empty()).and_then(|name| {
            // What a script noted was checked before.
            IdempotencyKey::parse(name).ok()
        }),
    })
}
