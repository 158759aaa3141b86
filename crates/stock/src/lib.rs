//! Exact stock counts: never oversold, never undersold, every unit accounted for.
//!
//! | | |
//! | --- | --- |
//! | [`FlashSale`] | a window, some units, one for each user; one script decides and queues the order |
//! | [`Inventory`] | the units of one SKU over shards on different primaries: holds with a lifetime, sales, receipts in rounds, an audit, a rebuild from a database |
//!
//! Every movement carries a reference and may be repeated with it; a repetition returns the same
//! answer. This makes lost replies harmless: a caller that does not know the outcome repeats the
//! call. Guarantees and their limits: `docs/stock.md`.
//!
//! Deliberately absent: prices, carts, and moving units between shards (gathering a hold from
//! several shards compensates for an uneven spread).

mod hold;
mod inventory;
mod layout;
mod ledger;
mod levels;
mod metrics;
mod rebuild;
mod receive;
mod reconcile;
mod record;
mod reference;
mod sale;
mod sale_repair;
mod sale_replies;
mod sale_types;
mod sale_waiting;
mod server_epoch;
mod settle;
mod survey;
mod sweeper;

pub use hold::{Held, Hold};
pub use inventory::{Inventory, InventoryBuilder};
pub use layout::MAX_SHARDS;
pub use ledger::{Ledger, Movement};
pub use levels::{Audit, Levels};
pub use metrics::METRICS;
pub use receive::{Received, share};
pub use reconcile::{Difference, Repair};
pub use record::{Part, Standing};
pub use reference::{MAX_REFERENCE_BYTES, Reference};
pub use sale::{FlashSale, FlashSaleBuilder};
pub use sale_types::{
    Adopted, CancelOutcome, Changed, Confirmed, Corrected, Holding, HoldingState, MAX_ORDER_FIELDS,
    Opened, OrderFields, Phase, Receipt, Reserved, SaleStatus, SaleWindow,
};
pub use sale_waiting::{WaitingOrder, WaitingOrders};
pub use settle::Settled;
