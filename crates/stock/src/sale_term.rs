//! Not selling on a server that may have forgotten what it sold.
//!
//! A server that was restarted may have lost its last writes, and one that was promoted those it had
//! not heard of yet. Its counters then show units that are sold. No key can tell, because keys are
//! forgotten and brought back with the rest. What every server draws anew, when it starts and whenever
//! it becomes a primary, is its replication id: it names one history of the data in which no
//! acknowledged write is taken back. That id is the *term* of a sale that is
//! [vouched](super::FlashSaleBuilder::vouched) for:
//!
//! ```text
//! 1  the term of the server is asked for
//! 2  the sale is compared with the database
//! 3  the sale's hash says that it was compared in that term, if it is still the server's
//! ```
//!
//! A reservation asks for the term in the same script that takes the unit, and refuses where the hash
//! has another one. Because the term is read before the comparison, a server that starts again or is
//! replaced at any moment in between is noticed as well. Nothing is remembered in the process: every
//! process that asks hears the same, and one comparison is enough for all.
//!
//! Decision record 6 has what else was considered.

use seawall_client::{
    client::Script,
    error::{Error, Result},
};

use super::sale::FlashSale;

static TERM: Script = Script::new(concat!(
    include_str!("script/sale_history.lua"),
    include_str!("script/sale_term.lua")
));

impl FlashSale {
    /// Whether the sale is open and was compared in the present term of its server.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`Error::Invalid`] for a sale that was built without
    /// [`vouched`](super::FlashSaleBuilder::vouched).
    pub async fn is_vouched(&self) -> Result<bool> {
        Ok(self.term().await?.1)
    }

    /// Lets the sale sell on its server as it is now, once `compare` has compared it with a database
    /// and put right what differed, or has opened it. `None`: that was done already, by whomever, and
    /// `compare` was not begun.
    ///
    /// # Errors
    /// Those of `compare`, after which the sale sells nothing, and as [`FlashSale::is_vouched`]. May be
    /// repeated.
    pub async fn vouch<T, E: From<Error>>(
        &self,
        compare: impl Future<Output = Result<T, E>>,
    ) -> Result<Option<T>, E> {
        let (term, is_vouched) = self.term().await?;
        if is_vouched {
            return Ok(None);
        }
        let compared = compare.await?;
        let vouch = TERM.on(&self.inner.keys[..1]).arg("VOUCH").arg(&term);
        // A term that ended meanwhile is not written down: the next reservation says so.
        let _: (String, bool) = self.eval(&vouch).await?;
        Ok(Some(compared))
    }

    /// The present term of the server, and whether the sale was compared in it.
    async fn term(&self) -> Result<(String, bool)> {
        if !self.inner.vouched {
            return Err(Error::Invalid("build the sale with `vouched()`".into()));
        }
        self.eval(&TERM.on(&self.inner.keys[..1]).arg("LOOK")).await
    }
}
