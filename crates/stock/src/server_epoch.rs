//! Prevents a sale from selling on a server that may have lost sales.
//!
//! A restarted server may have lost its last writes, and a promoted replica those it had not
//! received yet. Its counters then show units that are already sold. No key can detect this,
//! because keys are lost and restored together with the rest. But every server draws a new
//! replication id when it starts and when it becomes a primary: the id names one history of the
//! data in which no acknowledged write is undone. That id is the *epoch* of a sale that is
//! [verified](super::FlashSaleBuilder::verified):
//!
//! ```text
//! 1  the epoch of the server is asked for
//! 2  the sale is compared with the database
//! 3  the sale's hash says that it was compared in that epoch, if it is still the server's
//! ```
//!
//! A reservation reads the epoch in the same script that takes the unit, and is refused if the hash
//! has another one. Because the epoch is read before the comparison, a server that restarts or is
//! replaced at any moment in between is detected as well. The process keeps no state: all processes
//! get the same answer, and one comparison is enough for all.
//!
//! Decision record 6 lists the alternatives.

use seawall_client::{
    client::Script,
    error::{Error, Result},
};

use super::sale::FlashSale;

static SERVER_EPOCH: Script = Script::new(concat!(
    include_str!("script/sale_history.lua"),
    include_str!("script/sale_term.lua")
));

impl FlashSale {
    /// Returns `true` if the sale is open and was verified in the current epoch of its server.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`Error::Invalid`] for a sale that was
    /// built without [`verified`](super::FlashSaleBuilder::verified).
    pub async fn is_verified(&self) -> Result<bool> {
        Ok(self.server_epoch().await?.1)
    }

    /// Allows the sale to sell in the current epoch of its server, after `compare` has compared it
    /// with a database and repaired the differences, or has opened it. Returns `None` if the sale
    /// is already verified; `compare` is not run then.
    ///
    /// # Errors
    /// Those of `compare`, after which the sale sells nothing, and as [`FlashSale::is_verified`].
    /// The call may be repeated.
    pub async fn verify<T, E: From<Error>>(
        &self,
        compare: impl Future<Output = Result<T, E>>,
    ) -> Result<Option<T>, E> {
        let (epoch, is_verified) = self.server_epoch().await?;
        if is_verified {
            return Ok(None);
        }
        let compared = compare.await?;
        let verify = SERVER_EPOCH.on(&self.inner.keys[..1]).arg("VOUCH").arg(&epoch);
        // An epoch that ended meanwhile is not written: the next reservation reports it.
        let _: (String, bool) = self.eval(&verify).await?;
        Ok(Some(compared))
    }

    /// Returns the current epoch of the server, and whether the sale was verified in it.
    async fn server_epoch(&self) -> Result<(String, bool)> {
        if !self.inner.verified {
            return Err(Error::Invalid("build the sale with `verified()`".into()));
        }
        self.eval(&SERVER_EPOCH.on(&self.inner.keys[..1]).arg("LOOK")).await
    }
}
