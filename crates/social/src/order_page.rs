//! Pages of an order list: from Redis as far as the index reaches, from the source beyond that.

use redis::Value;
use seawall_client::{
    error::{Error, Result},
    member::Member,
};

use super::{Cursor, Order, OrdersOf, cursor::page_call, inbox_box::flat, template::check_count};

/// A page of orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderPage {
    /// Orders, newest first.
    pub orders: Vec<Order>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
    /// Number of orders that came from the source.
    pub from_source: usize,
}

impl<M: Member> OrdersOf<M> {
    /// Returns the next orders after a cursor, or the newest.
    ///
    /// Orders that are not in the index come from the source.
    ///
    /// # Errors
    /// If Redis or the source does not answer; [`Error::Invalid`] for a page of 0 or more than
    /// [`SLICE`](super::SLICE), or a cursor that does not name an order.
    pub async fn page(&self, after: Option<&Cursor>, count: usize) -> Result<OrderPage> {
        check_count(count)?;
        let after_order = after.map(named).transpose()?;
        let (whole, mut orders) =
            self.copy.complete(|| self.read(after, count), || self.snapshot()).await?;
        let mut from_source = 0;
        if orders.len() < count && !whole {
            let before = orders.last().copied().or(after_order);
            let wanted = count - orders.len();
            let mut older = self.source(before, wanted).await?;
            older.truncate(wanted);
            // A source that orders ties differently must not make an order appear twice.
            let last = before.map(|order| order.cursor()).transpose()?;
            for order in older {
                let item = (order.id.to_member()?.into_owned(), order.score()?);
                if last.as_ref().is_none_or(|last| last.is_before(&item)) {
                    orders.push(order);
                    from_source += 1;
                }
            }
        }
        let next = match orders.last() {
            Some(last) if orders.len() == count => Some(last.cursor()?),
            _ => None,
        };
        Ok(OrderPage { orders, next, from_source })
    }

    /// Returns the number of orders in the index; reads the source if there is no index.
    ///
    /// # Errors
    /// If Redis or the source does not answer.
    pub async fn indexed(&self) -> Result<usize> {
        let keep = self.inner.keep;
        let read = self.copy.complete(|| self.read(None, keep), || self.snapshot());
        Ok(read.await?.1.len())
    }

    /// Returns the orders of a complete index, and whether the source has no others.
    pub(super) async fn read(
        &self,
        after: Option<&Cursor>,
        count: usize,
    ) -> Result<Option<(bool, Vec<Order>)>> {
        let call = page_call(&[&self.copy.key, &self.copy.marker], after, count);
        let reply: Option<(String, Value)> = self.client().eval(&call).await?;
        let Some((marker, items)) = reply else { return Ok(None) };
        let orders = flat(items)?.iter().map(Order::decode).collect::<Result<_>>()?;
        Ok(Some((marker.ends_with(" 1"), orders)))
    }
}

/// Returns the order that a cursor names.
fn named(cursor: &Cursor) -> Result<Order> {
    let strange = |_| Error::Invalid("the cursor names no order".into());
    let id = u64::from_member(cursor.member()).map_err(strange)?;
    Ok(Order { id, time: cursor.score() / 1000 })
}
