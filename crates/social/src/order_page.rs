//! Pages of an order list: from Redis as far as it reaches, from the source behind that.

use redis::Value;
use seawall_client::{
    error::{Error, Result},
    member::Member,
};

use super::{Cursor, Order, OrdersOf, cursor::page_call, inbox_box::flat, template::check_count};

/// A page of orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderPage {
    /// Newest first.
    pub orders: Vec<Order>,
    /// Where the next page begins; `None` when the end was reached.
    pub next: Option<Cursor>,
    /// How many of them came from the source.
    pub from_source: usize,
}

impl<M: Member> OrdersOf<M> {
    /// The next orders after a cursor, or the newest. What the index does not reach comes from the
    /// source.
    ///
    /// # Errors
    /// When Redis or the source does not answer; [`Error::Invalid`] for a page of 0 or more than
    /// [`SLICE`](super::SLICE), or a cursor that names no order.
    pub async fn page(&self, after: Option<&Cursor>, count: usize) -> Result<OrderPage> {
        check_count(count)?;
        let after_order = after.map(named).transpose()?;
        let client = self.inner.template.client();
        let (whole, mut orders) =
            self.keys.complete(client, || self.read(after, count), || self.snapshot()).await?;
        let mut from_source = 0;
        if orders.len() < count && !whole {
            let before = orders.last().copied().or(after_order);
            let wanted = count - orders.len();
            let mut older = (self.inner.source)(self.user.clone(), before, wanted).await?;
            older.truncate(wanted);
            // A source that counts ties another way must not make an order come twice.
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

    /// How many orders the index has; reads the source when there is none.
    ///
    /// # Errors
    /// When Redis or the source does not answer.
    pub async fn indexed(&self) -> Result<usize> {
        let client = self.inner.template.client();
        let keep = self.inner.keep;
        let read = self.keys.complete(client, || self.read(None, keep), || self.snapshot());
        Ok(read.await?.1.len())
    }

    /// What a complete index says, and whether there are no orders beside it.
    pub(super) async fn read(
        &self,
        after: Option<&Cursor>,
        count: usize,
    ) -> Result<Option<(bool, Vec<Order>)>> {
        let call = page_call(&[&self.keys.key, &self.keys.marker], after, count);
        let reply: Option<(String, Value)> = self.inner.template.client().eval(&call).await?;
        let Some((marker, items)) = reply else { return Ok(None) };
        let orders = flat(items)?.iter().map(Order::decode).collect::<Result<_>>()?;
        Ok(Some((marker.ends_with(" 1"), orders)))
    }
}

/// The order that a cursor names.
fn named(cursor: &Cursor) -> Result<Order> {
    let strange = |_| Error::Invalid("the cursor names no order".into());
    let id = u64::from_member(cursor.member()).map_err(strange)?;
    Ok(Order { id, time: cursor.score() / 1000 })
}
