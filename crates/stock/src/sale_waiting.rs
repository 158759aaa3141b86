//! Index of flash-sale orders, by reference, from their reservation until a database decides.
//!
//! A client that was given a reference can query it before any worker has seen the order: the
//! reservation writes the order here and into the stream in one step. The entry is removed when the
//! order is confirmed, given back or voided. A reference does not say which sale it belongs to; one
//! lookup covers all sales of a group.

use std::{collections::BTreeMap, fmt};

use redis::cmd;
use seawall_client::{
    Handle,
    client::Client,
    error::{Error, Result},
    key::KeyPart,
};

use super::sale::waiting_key;

/// Fields per scan step.
const STEP: usize = 1_000;

impl WaitingOrders {
    /// Opens the index of undecided orders of a group of flash sales; see
    /// [`FlashSaleBuilder::findable`](super::FlashSaleBuilder::findable).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is empty or too long.
    pub fn new(handle: &Handle, group: &(impl KeyPart + ?Sized)) -> Result<WaitingOrders> {
        let key = waiting_key(&handle.key("sale", group)?);
        Ok(WaitingOrders { client: handle.client().clone(), key })
    }
}

/// Orders that wait for a decision. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use std::time::Duration;
/// use seawall::{Seawall, stock::{OrderFields, SaleWindow}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let sale = seawall.flash_sale(&35).group(&3).orders(50_000).findable().build()?;
/// let window = SaleWindow::from_now(Duration::ZERO, Duration::from_secs(60))?;
/// assert!(matches!(sale.open("o", window, 1).await?, seawall::stock::Opened::Opened));
/// assert!(sale.reserve(&7, &"order-1", &OrderFields::new()).await?.receipt().is_some());
///
/// let waiting = seawall.waiting_orders(&3)?;
/// let order = waiting.find(&"order-1").await?.expect("it waits");
/// assert_eq!((order.sale, order.user), (b"35".to_vec(), b"7".to_vec()));
/// // The database has it.
/// assert!(matches!(sale.confirm(&"order-1").await?, seawall::stock::Confirmed::Confirmed));
/// assert_eq!(waiting.find(&"order-1").await?, None);
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Clone)]
pub struct WaitingOrders {
    client: Client,
    key: Vec<u8>,
}

/// An order that waits for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingOrder {
    /// The order's reference.
    pub reference: Vec<u8>,
    /// The sale's id.
    pub sale: Vec<u8>,
    /// The user that reserved.
    pub user: Vec<u8>,
    /// Time of the reservation by the server's clock, in milliseconds since 1970.
    pub at_millis: i64,
}

impl WaitingOrders {
    /// Returns the order with this reference, if it waits.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn find(&self, reference: &(impl KeyPart + ?Sized)) -> Result<Option<WaitingOrder>> {
        let reference = reference.to_key()?;
        let mut get = cmd("HGET");
        get.arg(&self.key).arg(&reference);
        let text: Option<Vec<u8>> = self.client.query(&self.key, &get).await?;
        text.map(|text| parse(reference, &text)).transpose()
    }

    /// Returns all waiting orders. Orders reserved or decided meanwhile may or may not be included.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn all(&self) -> Result<Vec<WaitingOrder>> {
        let fields = fields(&self.client, &self.key).await?;
        fields.into_iter().map(|(reference, text)| parse(reference, &text)).collect()
    }
}

/// A step of a scan: the next cursor, and fields with their values.
type Scanned = (String, Vec<(Vec<u8>, Vec<u8>)>);

/// Reads all fields of a hash, in steps that do not block the server.
pub(super) async fn fields(client: &Client, key: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut fields = BTreeMap::new();
    let mut cursor = "0".to_owned();
    loop {
        let mut scan = cmd("HSCAN");
        scan.arg(key).arg(&cursor).arg("COUNT").arg(STEP);
        let (next, found): Scanned = client.query(key, &scan).await?;
        fields.extend(found);
        if next == "0" {
            return Ok(fields);
        }
        cursor = next;
    }
}

impl fmt::Debug for WaitingOrders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(&self.key);
        f.debug_struct("WaitingOrders").field("key", &key).finish_non_exhaustive()
    }
}

/// Parses what `sale_reserve.lua` wrote: `ms length sale user`, where `length` is the sale's length
/// in bytes.
fn parse(reference: Vec<u8>, text: &[u8]) -> Result<WaitingOrder> {
    let parts = || {
        let mut parts = text.splitn(3, |&byte| byte == b' ');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<i64>().ok();
        let (at_millis, length) = (number()?, usize::try_from(number()?).ok()?);
        let (sale, user) = parts.next()?.split_at_checked(length)?;
        let user = user.strip_prefix(b" ")?;
        Some((at_millis, sale.to_vec(), user.to_vec()))
    };
    let (at_millis, sale, user) =
        parts().ok_or_else(|| Error::unexpected("what waits is not an order"))?;
    Ok(WaitingOrder { reference, sale, user, at_millis })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_may_contain_anything() {
        let order = parse(b"r".to_vec(), b"17 3 a b 7 x").expect("well formed");
        assert_eq!((order.at_millis, &*order.sale, &*order.user), (17, &b"a b"[..], &b"7 x"[..]));
        for bad in [&b""[..], b"17", b"17 3", b"17 9 a 7", b"x 1 a 7", b"17 1 a7", b"17 -1 a 7"] {
            assert!(parse(Vec::new(), bad).is_err(), "{bad:?}");
        }
    }
}
