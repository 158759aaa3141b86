//! Vouchers: sold by a shop at any time or in a flash sale.
//!
//! A flash sale is a voucher with a stock and a window. Both rows are written in one transaction;
//! the sale is opened in Redis after the commit. If that fails the first buyer opens it: the
//! database is authoritative, and [`Sales`](crate::sales::Sales) asks it about sales that Redis
//! does not know.

pub(crate) mod http;
pub(crate) mod store;

use std::sync::Arc;

use seawall::id::Ids;

use crate::{
    app::Context,
    check,
    db::Db,
    error::{Error, Result},
    submissions::Submission,
};

/// Maximum characters of a title or sub-title.
const TITLE_CHARS: usize = 255;
/// Maximum characters of the rules.
const RULES_CHARS: usize = 1024;
/// Maximum price or value, in cents.
const MAX_VALUE: i64 = 100_000_000;
/// Maximum units of one sale.
const MAX_STOCK: i64 = 1_000_000;

/// How a voucher is sold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// At any time, without a limit.
    Normal,
    /// In a flash sale.
    Flash(Sale),
}

/// A flash sale, as stored in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sale {
    /// Units left.
    pub stock: i64,
    /// Milliseconds since the epoch.
    pub begin_time: i64,
    /// Milliseconds since the epoch.
    pub end_time: i64,
}

/// A voucher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voucher {
    /// Id.
    pub id: u64,
    /// Shop that redeems it.
    pub shop_id: u64,
    /// Title.
    pub title: String,
    /// Sub-title.
    pub sub_title: String,
    /// Terms of use.
    pub rules: String,
    /// Price in cents.
    pub pay_value: i64,
    /// Value in cents.
    pub actual_value: i64,
    /// How it is sold.
    pub kind: Kind,
}

/// A merchant's unvalidated input for a new voucher.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draft<'a> {
    pub(crate) shop_id: u64,
    pub(crate) title: &'a str,
    pub(crate) sub_title: &'a str,
    pub(crate) rules: &'a str,
    pub(crate) pay_value: i64,
    pub(crate) actual_value: i64,
}

/// A merchant's unvalidated input for its sale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SaleDraft<'a> {
    pub(crate) stock: i64,
    pub(crate) begin_time: &'a str,
    pub(crate) end_time: &'a str,
}

impl SaleDraft<'_> {
    fn check(self) -> Result<Sale> {
        let sale = Sale {
            stock: check::number("stock", self.stock, 1..=MAX_STOCK)?,
            begin_time: check::time("beginTime", self.begin_time)?,
            end_time: check::time("endTime", self.end_time)?,
        };
        if sale.begin_time >= sale.end_time {
            return Err(Error::bad("BAD_TIME", "beginTime is before endTime"));
        }
        Ok(sale)
    }
}

/// All vouchers.
#[derive(Debug)]
pub struct Vouchers {
    context: Context,
    ids: Ids,
}

impl Vouchers {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        Ok(Vouchers { context: context.clone(), ids: context.seawall.ids("voucher").build()? })
    }

    fn db(&self) -> &Arc<Db> {
        &self.context.db
    }

    /// Adds a voucher that is sold at any time. Returns its id, the same for a repeated submission.
    /// The caller must have checked the owner of the shop.
    ///
    /// # Errors
    /// [`Error::BadInput`] for invalid values.
    pub(crate) async fn create(&self, draft: Draft<'_>, submission: Submission<'_>) -> Result<u64> {
        self.insert(draft, Kind::Normal, submission).await
    }

    /// Adds a voucher with a flash sale.
    ///
    /// # Errors
    /// As [`Vouchers::create`].
    pub(crate) async fn create_flash(
        &self,
        draft: Draft<'_>,
        sale: SaleDraft<'_>,
        submission: Submission<'_>,
    ) -> Result<u64> {
        let sale = sale.check()?;
        self.insert(draft, Kind::Flash(sale), submission).await
    }

    async fn insert(
        &self,
        draft: Draft<'_>,
        kind: Kind,
        submission: Submission<'_>,
    ) -> Result<u64> {
        let title = check::text("title", draft.title, 1..=TITLE_CHARS)?;
        let sub_title = check::text("subTitle", draft.sub_title, 0..=TITLE_CHARS)?;
        let rules = check::text("rules", draft.rules, 0..=RULES_CHARS)?;
        let pay_value = check::number("payValue", draft.pay_value, 0..=MAX_VALUE)?;
        let actual_value = check::number("actualValue", draft.actual_value, 0..=MAX_VALUE)?;
        let id = self.ids.next().await?.as_u64();
        let shop_id = draft.shop_id;
        let voucher =
            Voucher { id, shop_id, title, sub_title, rules, pay_value, actual_value, kind };
        store::insert(self.db(), &voucher, submission, self.context.now()).await
    }

    /// Returns the newest vouchers of a shop, of both kinds.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the database is away.
    pub async fn of_shop(&self, shop: u64) -> Result<Vec<Voucher>> {
        store::of_shop(self.db(), shop).await
    }

    /// Returns the flash sales that end last, including past ones.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the database is away.
    pub async fn flash_sales(&self) -> Result<Vec<Voucher>> {
        store::flash_sales(self.db()).await
    }
}
