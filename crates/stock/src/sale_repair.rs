//! Repairs a flash sale that is compared with a database.
//!
//! The sale is compared by reference: an order that only the database has is
//! [adopted](FlashSale::adopt), one that the database gave back is given back, one that the
//! database never received is brought to it. Each of these is safe at any time, because the receipt
//! decides. The number of units left is corrected last, and only if no unit has moved since it was
//! read: a concurrent order makes the correction void, never wrong.
//!
//! Deliberately absent: the comparison itself. The caller decides which of the two stores is right.

use redis::cmd;
use seawall_client::{
    client::Script,
    error::{Error, Result},
    key::KeyPart,
};

use super::{
    sale::{FlashSale, MAX_UNITS},
    sale_replies::standing,
    sale_types::{Adopted, Corrected, Holding, HoldingState, SaleStatus},
    sale_waiting::fields,
};

static ADOPT: Script = Script::new(include_str!("script/sale_adopt.lua"));

impl FlashSale {
    /// Records that this user has a unit under this reference, because a database says so. If the
    /// sale did not know of it, the sale has received one more unit from then on.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); the call may be repeated.
    pub async fn adopt(
        &self,
        user: &(impl KeyPart + ?Sized),
        reference: &(impl KeyPart + ?Sized),
    ) -> Result<Adopted> {
        let call = ADOPT.on(&self.inner.keys[..3]).arg(user.to_key()?).arg(reference.to_key()?);
        Ok(match self.eval::<String>(&call).await?.as_str() {
            "DONE" => Adopted::Adopted,
            "ALREADY" => Adopted::Already,
            "OVER" => Adopted::GivenBack,
            _ => Adopted::Unknown,
        })
    }

    /// Sets the number of units left, if no unit was reserved, given back or added since the sale
    /// was `seen`. Confirmations do not matter.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send). A repetition after a lost reply returns
    /// [`Corrected::Moved`]: read the status again.
    pub async fn correct_left(&self, seen: &SaleStatus, left: u64) -> Result<Corrected> {
        if left > MAX_UNITS {
            return Err(Error::Invalid("so many units cannot be counted exactly".into()));
        }
        let taken = seen.reserved + seen.confirmed + seen.given_back;
        let call = self.change("CORRECT").arg(left).arg(seen.received).arg(seen.left);
        let call = call.arg(taken).arg(seen.given_back);
        Ok(match standing(&self.eval::<Vec<String>>(&call).await?)? {
            None => Corrected::Unknown,
            Some(("MOVED", status)) => Corrected::Moved(status),
            Some((_, status)) => Corrected::Corrected(status),
        })
    }

    /// Returns the reference under which a user has a unit.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn reference_of(&self, user: &(impl KeyPart + ?Sized)) -> Result<Option<Vec<u8>>> {
        let key = &self.inner.keys[1];
        let mut get = cmd("HGET");
        get.arg(key).arg(user.to_key()?);
        self.inner.client.query(key, &get).await
    }

    /// Returns every reference that the sale knows. Entries reserved or decided meanwhile may be
    /// missing or outdated: compare the [status](FlashSale::status) before and after.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn holdings(&self) -> Result<Vec<Holding>> {
        let receipts = fields(&self.inner.client, &self.inner.keys[2]).await?;
        receipts.into_iter().map(|(reference, text)| holding(reference, &text)).collect()
    }
}

/// Parses `STATE sequence ms entry user`.
fn holding(reference: Vec<u8>, text: &[u8]) -> Result<Holding> {
    let parts = || {
        let mut parts = text.splitn(5, |&byte| byte == b' ');
        let state = match parts.next()? {
            b"R" => HoldingState::Reserved,
            b"C" => HoldingState::Confirmed,
            b"B" => HoldingState::GivenBack,
            _ => return None,
        };
        let at_millis = std::str::from_utf8(parts.nth(1)?).ok()?.parse().ok()?;
        Some((state, at_millis, parts.nth(1)?.to_vec()))
    };
    let (state, at_millis, user) =
        parts().ok_or_else(|| Error::unexpected("this is no receipt of a sale"))?;
    Ok(Holding { reference, user, state, at_millis })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_are_understood_or_refused() {
        let good = holding(b"r".to_vec(), b"R 3 17 5-0 a b").expect("well formed");
        assert_eq!(
            (good.state, good.at_millis, &*good.user),
            (HoldingState::Reserved, 17, &b"a b"[..])
        );
        let noted = holding(b"r".to_vec(), b"B 0 0 - ").expect("well formed");
        assert_eq!((noted.state, &*noted.user), (HoldingState::GivenBack, &b""[..]));
        for bad in [&b""[..], b"R", b"R 1 x - u", b"Z 1 2 - u", b"R 1 2 -"] {
            assert!(holding(Vec::new(), bad).is_err(), "{bad:?}");
        }
    }
}
