//! The database's view of a SKU: the source for rebuilding its stock in Redis.
//!
//! Orders are listed one by one for as long as Redis remembers references. Older ones can no longer
//! be asked about and are one number. So a rebuild costs what was sold recently, not what was ever
//! sold.

use std::{collections::BTreeMap, error::Error as StdError, sync::Arc};

use seawall::stock::{Ledger, Movement as Fact, Reference};

use super::{movement::Reason, store};
use crate::db::Db;

/// Reference for all older sales.
const LONG_AGO: &str = "long-ago";

/// The log of one SKU.
#[derive(Debug)]
pub(super) struct SkuLedger {
    pub(super) db: Arc<Db>,
    pub(super) sku: u64,
    /// Time from which orders are listed one by one, in milliseconds.
    pub(super) since: i64,
}

/// Units that an order sold and returned.
#[derive(Debug, Default)]
struct Fate {
    sold: u64,
    returned: u64,
}

impl Ledger for SkuLedger {
    async fn movements(&self) -> Result<Vec<Fact>, Box<dyn StdError + Send + Sync>> {
        let log = store::log(&self.db, self.sku, self.since).await?;
        let mut facts = Vec::new();
        let mut fates: BTreeMap<String, Fate> = BTreeMap::new();
        for movement in log.movements {
            let units = movement.units();
            match movement.reason {
                Reason::Receipt => {
                    facts.push(Fact::Received { receipt: movement.receipt(), units });
                }
                Reason::Sale => fates.entry(movement.reference).or_default().sold = units,
                Reason::Return => fates.entry(movement.reference).or_default().returned = units,
            }
        }
        let mut long_ago = log.gone_before;
        for (reference, fate) in fates {
            // Sold before that time, and returned since.
            if fate.sold == 0 {
                long_ago -= i64::try_from(fate.returned)?;
            }
            let reference = Reference::new(reference)?;
            facts.push(match fate.returned {
                0 => Fact::Sold { reference, units: fate.sold },
                _ => Fact::TakenBack { reference },
            });
        }
        if long_ago > 0 {
            let units = u64::try_from(long_ago)?;
            facts.push(Fact::Sold { reference: Reference::new(LONG_AGO)?, units });
        }
        Ok(facts)
    }
}
