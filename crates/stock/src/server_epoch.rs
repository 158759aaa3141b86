//! Not selling on a server that may have forgotten what it sold.
//!
//! A server that was restarted may have lost its last writes, and one that was promoted those it had
//! not heard of yet. Its counters then show units that are sold. No key can tell, because keys are
//! forgotten and brought back with the rest. What every server draws anew, when it starts and whenever
//! it becomes a primary, is its replication id: it names one history of the data in which no
//! acknowledged write is taken back. That id is the *epoch* of a sale that is
//! [verified](super::FlashSaleBuilder::verified):
//!
//! ```text
//! 1  the epoch of the server is asked for
//! 2  the sale is compared with the database
//! 3  the sale's hash says that it was compared in that epoch, if it is still the server's
//! ```
//!
//! A reservation asks for the epoch in the same script that takes the unit, and refuses where the hash
//! has another one. Because the epoch is read before the comparison, a server that starts again or is
//! replaced at any moment in between is noticed as well. Nothing is remembered in the process: every
//! process that asks hears the same, and one comparison is enough for all.
//!
//! Decision record 6 has what else was considered.

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
    /// Whether the sale is open and was compared in the present epoch of its server.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`Error::Invalid`] for a sale that was built without
    /// [`verified`](super::FlashSaleBuilder::verified).
    pub async fn is_verified(&self) -> Result<bool> {
        Ok(self.server_epoch().await?.1)
    }

    /// Lets the sale sell on its server as it is now, once `compare` has compared it with a database
    /// and put right what differed, or has opened it. `None`: that was done already, by whomever, and
    /// `compare` was not begun.
    ///
    /// # Errors
    /// Those of `compare`, after which the sale sells nothing, and as [`FlashSale::is_verified`]. May be
    /// repeated.
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
        // An epoch that ended meanwhile is not written down: the next reservation says so.
        let _: (String, bool) = self.eval(&verify).await?;
        Ok(Some(compared))
    }

    /// The present epoch of the server, and whether the sale was compared in it.
    async fn server_epoch(&self) -> Result<(String, bool)> {
        if !self.inner.verified {
            return Err(Error::Invalid("build the sale with `verified()`".into()));
        }
        self.eval(&SERVER_EPOCH.on(&self.inner.keys[..1]).arg("LOOK")).await
    }
}
