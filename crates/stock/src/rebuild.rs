//! Rebuilds a lost shard, or the whole inventory, from a ledger.
//!
//! Each shard changes in one step: it is closed under a new epoch, its new records are written
//! beside the old ones, and one script swaps them. Movements that were sent under the old epoch are
//! refused; the handle that sent them learns the new epoch and repeats them.
//!
//! The received units of a shard are always its share of all receipts. Units that the ledger calls
//! sold or held go to the home of their reference. If all shards are rebuilt and a home has too few
//! units, the rest become parts at other shards. If one shard is rebuilt, the records of the others
//! say which of its units are parts.
//!
//! A gathering that is in progress while one shard is rebuilt may have taken a part there that no
//! home has recorded yet. So once the shard is closed, every gathering at the other shards is ended
//! before they are read. A gathering committed before that is read with its parts; one that begins
//! later finds the shard closed, or rebuilt. For the same reason two shards are not rebuilt at the
//! same time, unless all are: each rebuild would read what the other is about to replace.

use std::collections::BTreeMap;

use redis::cmd;
use seawall_client::{
    client::Script,
    error::{Error, Result},
};
use seawall_resilience::clock::millis;

use super::{
    inventory::{Inner, Inventory},
    ledger::{Book, Ledger, Receipt},
    levels::Levels,
    receive::share,
    record::{Part, Record, Standing},
    reference::Reference,
    sale::eval_again,
};

/// Records per command of a rebuild.
const RECORDS_A_STEP: usize = 200;
/// Due time of a field that is not a record itself.
const NOT_DUE: i64 = -1;

static REBUILD: Script = Script::with_time(include_str!("script/rebuild.lua"));
static CEASE: Script =
    Script::with_time(concat!(include_str!("script/shard.lua"), include_str!("script/cease.lua")));

/// The planned contents of a shard.
#[derive(Default)]
struct Plan {
    levels: Levels,
    /// The attempt of holds that are placed anew.
    attempt: u64,
    /// Field, record, and due time. The due time is 0 for a part that asks its home, and for a hold
    /// whose parts are told.
    records: Vec<(String, String, i64)>,
}

impl Inventory {
    /// Rebuilds all shards from a ledger. All shards must be reachable. Sales are refused
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the ledger has sold or held more than it received, or has more units
    /// than can be counted exactly (2⁵² for each shard, and in one movement);
    /// [`Error::Unavailable`] if the ledger or a shard cannot be reached. Shards that were closed
    /// but still have their data are opened again.
    pub async fn rebuild(&self, ledger: &impl Ledger) -> Result<()> {
        self.inner.rebuild(&(0..self.shards()).collect::<Vec<_>>(), ledger).await
    }

    /// Rebuilds one lost shard. The others continue and must be reachable. Holds that are being
    /// gathered meanwhile start over.
    ///
    /// If a hold was gathered longer ago than references are remembered, its parts cannot be
    /// attributed any more; use [`Inventory::rebuild`] then.
    ///
    /// # Errors
    /// As [`Inventory::rebuild`]; [`Error::Unavailable`] also while another shard is being rebuilt.
    pub async fn rebuild_shard(&self, shard: usize, ledger: &impl Ledger) -> Result<()> {
        if shard >= self.shards() {
            return Err(Error::Invalid(format!("there is no shard {shard}")));
        }
        self.inner.rebuild(&[shard], ledger).await
    }
}

impl Inner {
    async fn rebuild(&self, shards: &[usize], ledger: &impl Ledger) -> Result<()> {
        let mut epochs = Vec::new();
        let mut outcome = Ok(());
        for shard in shards {
            match self.step(*shard, "BEGIN", &[]).await {
                Ok(epoch) => epochs.push((*shard, epoch)),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        let plans = match outcome {
            Ok(()) => self.plan(&epochs, ledger).await,
            Err(error) => Err(error),
        };
        let plans = match plans {
            Ok(plans) => plans,
            Err(error) => {
                for (shard, epoch) in epochs {
                    // A shard that cannot be opened again stays closed, and can be rebuilt.
                    let _ = self.step(shard, "ABORT", &[epoch]).await;
                }
                return Err(error);
            }
        };
        for ((shard, epoch), plan) in epochs.into_iter().zip(plans) {
            for records in plan.records.chunks(RECORDS_A_STEP) {
                let mut arguments = vec![epoch.clone()];
                for (field, record, due) in records {
                    arguments.extend([field.clone(), record.clone(), due.to_string()]);
                }
                self.step(shard, "ADD", &arguments).await?;
            }
            let Levels { received, held, sold, .. } = plan.levels;
            let numbers = [received, held, sold].map(|number| number.to_string());
            let arguments = [vec![epoch], numbers.to_vec()].concat();
            self.step(shard, "FINISH", &arguments).await?;
            tracing::info!(sku = %self.name, shard, received, held, sold, "rebuilt from the ledger");
        }
        Ok(())
    }

    async fn step(&self, shard: usize, step: &str, arguments: &[String]) -> Result<String> {
        let mut call = REBUILD.on(&self.shards[shard].keys).arg(step);
        for argument in arguments {
            call = call.arg(argument);
        }
        let (word, epoch): (String, String) = eval_again(&self.client, &call).await?;
        match word.as_str() {
            "OK" => Ok(epoch),
            _ => Err(Error::Unavailable(
                format!("shard {shard} of {} is being rebuilt by another process", self.name)
                    .into(),
            )),
        }
    }

    /// Plans the contents of the shards that are closed under these epochs, in order.
    async fn plan(&self, epochs: &[(usize, String)], ledger: &impl Ledger) -> Result<Vec<Plan>> {
        let book = Book::read(ledger, self.shards.len()).await?;
        let count = self.shards.len();
        let forgotten = self.client.server_millis().saturating_add(millis(self.kept).cast_signed());
        let plan = |(shard, epoch): &(usize, String)| {
            let epoch: u64 = epoch.parse().map_err(|_| Error::unexpected("not an epoch"))?;
            // Above every past attempt and below every future one: see begin.lua.
            Ok((*shard, Plan { attempt: epoch * 1000 + 999, ..Plan::default() }))
        };
        let mut plans: BTreeMap<usize, Plan> = epochs.iter().map(plan).collect::<Result<_>>()?;
        for (shard, plan) in &mut plans {
            for (receipt, Receipt { units, .. }) in &book.receipts {
                let share = share(*units, *shard, count);
                plan.levels.received += share;
                let record = format!("I {share} {forgotten} {units} -");
                plan.records.push((format!("r:{receipt}"), record, forgotten));
            }
        }
        if epochs.len() == count {
            place(&book, &mut plans, forgotten, count)?;
        } else {
            for plan in &mut plans {
                self.place_one(&book, plan, forgotten).await?;
            }
        }
        for (shard, plan) in &plans {
            if plan.levels.held + plan.levels.sold > plan.levels.received {
                return Err(too_many(*shard));
            }
        }
        Ok(plans.into_values().collect())
    }

    /// Ends the gatherings at a shard. Gatherings that begin later do no harm; see the module
    /// documentation.
    async fn cease_gathering(&self, shard: usize) -> Result<()> {
        let key = self.shards[shard].key();
        let (epoch, phase): (Option<String>, Option<String>) =
            self.client.query(key, cmd("HMGET").arg(key).arg("epoch").arg("phase")).await?;
        if epoch.is_none() {
            // This shard is lost too: nothing can be committed there any more.
            return Ok(());
        }
        if phase.as_deref() != Some("open") {
            return Err(Error::Unavailable(
                format!("shard {shard} of {} is being rebuilt", self.name).into(),
            ));
        }
        let records = self.survey(shard).await?;
        let gathering: Vec<&str> = records
            .iter()
            .filter(|(_, value)| value.starts_with(Standing::Gathering.letter()))
            .filter_map(|(field, _)| field.strip_prefix("h:"))
            .collect();
        for references in gathering.chunks(RECORDS_A_STEP) {
            self.call(shard, &CEASE, |call| {
                references.iter().fold(call, |call, one| call.arg(*one))
            })
            .await?;
        }
        Ok(())
    }

    /// Plans the contents of one shard from the ledger and from the records of the other shards.
    async fn place_one(
        &self,
        book: &Book,
        (shard, plan): (&usize, &mut Plan),
        forgotten: i64,
    ) -> Result<()> {
        let count = self.shards.len();
        let mut elsewhere: BTreeMap<String, (u64, Vec<Part>)> = BTreeMap::new();
        for other in (0..count).filter(|other| other != shard) {
            self.cease_gathering(other).await?;
            for (field, value) in self.survey(other).await? {
                let Some(record) = Record::from_value(&value) else { continue };
                if !matches!(record.standing, Standing::Held | Standing::Sold) {
                    continue;
                }
                if let Some(reference) = field.strip_prefix("h:") {
                    for part in record.parts.iter().filter(|part| part.shard == *shard) {
                        let own = Record { units: part.units, parts: Vec::new(), ..record.clone() };
                        plan.add_part(reference, &own, other, forgotten);
                    }
                } else if let Some(reference) = field.strip_prefix("p:") {
                    let (attempt, parts) = elsewhere.entry(reference.to_owned()).or_default();
                    // Of several attempts the last one counts; the others return by themselves.
                    if record.attempt > *attempt {
                        (*attempt, *parts) = (record.attempt, Vec::new());
                    }
                    if record.attempt == *attempt {
                        parts.push(Part { shard: other, units: record.units });
                    }
                }
            }
        }
        for (text, entry) in &book.references {
            let reference = Reference::new(text.as_str())?;
            if reference.home(count) != *shard {
                continue;
            }
            let (attempt, parts) = elsewhere.remove(text).unwrap_or((plan.attempt, Vec::new()));
            let there: u64 = parts.iter().map(|part| part.units).sum();
            let record = Record {
                standing: entry.standing,
                units: entry.units.saturating_sub(there),
                ends_millis: entry.until_millis,
                attempt,
                parts,
            };
            plan.add_home(text, record, forgotten);
        }
        Ok(())
    }
}

impl Plan {
    fn add_home(&mut self, reference: &str, mut record: Record, forgotten: i64) {
        match record.standing {
            Standing::Held => self.levels.held += record.units,
            Standing::Sold => self.levels.sold += record.units,
            _ => {}
        }
        if record.standing != Standing::Held {
            record.ends_millis = forgotten;
        }
        // At least 1, because 0 marks a part: the record is due at once.
        let mut due = record.ends_millis.max(1);
        if !record.parts.is_empty() {
            let attempt = record.attempt;
            let waits: Vec<_> =
                record.parts.iter().map(|part| format!("{}:{attempt}", part.shard)).collect();
            self.records.push((format!("w:{reference}"), waits.join(","), NOT_DUE));
            if record.standing != Standing::Held {
                // The record is remembered until its parts have answered.
                due = 0;
            }
        }
        self.records.push((format!("h:{reference}"), record.to_value(), due));
    }

    fn add_part(&mut self, reference: &str, record: &Record, home: usize, forgotten: i64) {
        let Record { units, attempt, .. } = record;
        let field = format!("p:{reference}");
        if record.standing == Standing::Sold {
            self.levels.sold += units;
            self.records.push((
                field,
                format!("S {units} {forgotten} {attempt} {home}"),
                forgotten,
            ));
        } else {
            self.levels.held += units;
            self.records.push((field, format!("H {units} 0 {attempt} {home}"), 0));
        }
    }

    fn free(&self) -> u64 {
        self.levels.received.saturating_sub(self.levels.held + self.levels.sold)
    }
}

/// Distributes everything in the ledger over all shards.
fn place(
    book: &Book,
    plans: &mut BTreeMap<usize, Plan>,
    forgotten: i64,
    count: usize,
) -> Result<()> {
    // Units that fit at their home stay there, before the rest is placed elsewhere.
    let mut rest = Vec::new();
    for (text, entry) in &book.references {
        let reference = Reference::new(text.as_str())?;
        let home = reference.home(count);
        let Some(plan) = plans.get_mut(&home) else { continue };
        let units = entry.units.min(plan.free());
        if units < entry.units {
            rest.push((text, entry, home));
            continue;
        }
        let (standing, ends_millis) = (entry.standing, entry.until_millis);
        let attempt = plan.attempt;
        let record = Record { standing, units, ends_millis, attempt, parts: Vec::new() };
        plan.add_home(text, record, forgotten);
    }
    for (text, entry, home) in rest {
        let (standing, ends_millis) = (entry.standing, entry.until_millis);
        let attempt = plans.get(&home).map_or(1, |plan| plan.attempt);
        let mut missing = entry.units;
        let mut parts = Vec::new();
        let mut own = 0;
        let order = std::iter::once(home).chain((0..count).filter(|shard| *shard != home));
        for shard in order {
            let Some(plan) = plans.get_mut(&shard) else { continue };
            let units = plan.free().min(missing);
            missing -= units;
            if shard == home {
                own = units;
            } else if units > 0 {
                parts.push(Part { shard, units });
                let record = Record { standing, units, ends_millis, attempt, parts: Vec::new() };
                plan.add_part(text, &record, home, forgotten);
            }
        }
        if missing > 0 {
            return Err(too_many(home));
        }
        if let Some(plan) = plans.get_mut(&home) {
            let record = Record { standing, units: own, ends_millis, attempt, parts };
            plan.add_home(text, record, forgotten);
        }
    }
    Ok(())
}

fn too_many(shard: usize) -> Error {
    Error::Invalid(format!(
        "the ledger has sold and held more than shard {shard} or all shards received"
    ))
}
