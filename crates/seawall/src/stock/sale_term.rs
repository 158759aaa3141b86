//! Not selling on a server that may have forgotten what it sold.
//!
//! A server that was restarted may have lost its last writes, and one that was promoted those it had
//! not heard of yet. Its counters then show units that are sold. No key can tell, because what is
//! written about it is forgotten with the rest. What no server brings back is its cache of scripts.
//! So a sale that is [vouched](super::FlashSaleBuilder::vouched) for reserves with a script whose text
//! has a word in it that stands for this life of the server, its *term*:
//!
//! ```text
//! 1  a word that nobody had before; the script with it is loaded
//! 2  the sale is compared with the database
//! 3  the sale's hash says that it was vouched for in this term
//! ```
//!
//! A reservation meets NOSCRIPT when the server lives another life, and another word in the hash when
//! nobody compared the sale in this one. Because the script is loaded before the comparison, a server
//! that starts again at any moment in between is noticed as well.
//!
//! The word is also left beside the sales of the group, so that all processes use the same one: a
//! server keeps every script that it was ever sent. That key decides nothing.
//!
//! Limit: before Redis 7 a server wrote scripts to its log and sent them to its replicas; there nothing
//! is noticed.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use redis::cmd;
use tokio::sync::Mutex;

use super::sale::{FlashSale, RESERVE_TEXT};
use crate::{
    error::{Error, Result},
    link::Link,
};

/// How long a term that nobody renews is written down. Whoever comes later begins another one.
const WRITTEN_FOR_SECONDS: u64 = 30 * 24 * 3600;

/// One life of a server, as far as one group of sales is concerned.
#[derive(Debug)]
pub(super) struct Term {
    /// Hexadecimal digits.
    word: String,
    /// Of the script with that word.
    pub(super) digest: String,
}

impl Term {
    fn of(word: String) -> Self {
        let digest = sha1_smol::Sha1::from(script(&word)).digest().to_string();
        Term { word, digest }
    }
}

/// The script that reserves, for one term.
fn script(word: &str) -> String {
    RESERVE_TEXT.replacen("TERM = false", &format!("TERM = '{word}'"), 1)
}

/// The term of a group, as one handle knows it.
#[derive(Debug)]
pub(super) struct Terms {
    /// Where the word is written down.
    key: Vec<u8>,
    current: ArcSwapOption<Term>,
    /// One asks; the others wait for it.
    asking: Mutex<()>,
}

impl Terms {
    pub(super) fn new(stream: &[u8]) -> Self {
        let key = [stream, b":term"].concat();
        Terms { key, current: ArcSwapOption::empty(), asking: Mutex::new(()) }
    }

    /// The term that is known, or the present one.
    pub(super) async fn known(&self, link: &Link) -> Result<Arc<Term>> {
        match self.current.load_full() {
            Some(term) => Ok(term),
            None => self.after(link, None).await,
        }
    }

    /// The present term, after another one turned out to be over.
    pub(super) async fn after(&self, link: &Link, over: Option<&Term>) -> Result<Arc<Term>> {
        let _one = self.asking.lock().await;
        if let Some(term) = self.current.load_full()
            && over.is_none_or(|over| over.word != term.word)
        {
            return Ok(term);
        }
        let term = match self.written(link).await? {
            Some(term) => term,
            None => self.begin(link).await?,
        };
        let term = Arc::new(term);
        self.current.store(Some(Arc::clone(&term)));
        Ok(term)
    }

    /// The term that is written down, if the server has its script.
    async fn written(&self, link: &Link) -> Result<Option<Term>> {
        let mut get = cmd("GET");
        get.arg(&self.key);
        let word: Option<String> = link.query(&self.key, &get).await?;
        // It becomes a part of a script: nothing but what was written here.
        let is_ours =
            |word: &String| word.len() == 32 && word.bytes().all(|b| b.is_ascii_hexdigit());
        let Some(word) = word.filter(is_ours) else { return Ok(None) };
        let term = Term::of(word);
        Ok(self.is_present(link, &term).await?.then_some(term))
    }

    /// Whether the server is in this term: whether it has its script.
    async fn is_present(&self, link: &Link, term: &Term) -> Result<bool> {
        let mut exists = cmd("SCRIPT");
        exists.arg("EXISTS").arg(&term.digest);
        let (there,): (bool,) = link.query(&self.key, &exists).await?;
        Ok(there)
    }

    /// Begins a term with a word that nobody had before.
    async fn begin(&self, link: &Link) -> Result<Term> {
        let term = Term::of(format!("{:032x}", rand::random::<u128>()));
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(script(&term.word));
        link.query::<String>(&self.key, &load).await?;
        let mut set = cmd("SET");
        set.arg(&self.key).arg(&term.word).arg("EX").arg(WRITTEN_FOR_SECONDS);
        link.query::<()>(&self.key, &set).await?;
        Ok(term)
    }
}

impl FlashSale {
    /// Whether the sale is open and was compared in this life of its server.
    ///
    /// # Errors
    /// As [`Link::send`]; [`Error::Invalid`] for a sale that was built without
    /// [`vouched`](super::FlashSaleBuilder::vouched).
    pub async fn is_vouched(&self) -> Result<bool> {
        let term = self.present_term().await?;
        self.is_vouched_in(&term).await
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
        let term = self.present_term().await?;
        if self.is_vouched_in(&term).await? {
            return Ok(None);
        }
        let compared = compare.await?;
        let vouch = self.change("VOUCH").arg(&term.word);
        self.eval::<Vec<String>>(&vouch).await?;
        Ok(Some(compared))
    }

    /// The term that the server is in, asked of it.
    async fn present_term(&self) -> Result<Arc<Term>> {
        let (link, terms) = (&self.inner.link, self.terms()?);
        let known = terms.known(link).await?;
        if terms.is_present(link, &known).await? {
            return Ok(known);
        }
        terms.after(link, Some(&known)).await
    }

    async fn is_vouched_in(&self, term: &Term) -> Result<bool> {
        let key = &self.inner.keys[0];
        let mut get = cmd("HMGET");
        get.arg(key).arg("state").arg("term");
        let (state, word): (Option<String>, Option<String>) =
            self.inner.link.query(key, &get).await?;
        Ok(state.as_deref() == Some("open") && word.as_deref() == Some(&*term.word))
    }

    fn terms(&self) -> Result<&Terms> {
        let terms = self.inner.terms.as_ref();
        terms.ok_or_else(|| Error::Invalid("build the sale with `vouched()`".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_differ_in_their_script() {
        let (one, other) = (Term::of("0".repeat(32)), Term::of("1".repeat(32)));
        assert_ne!(one.digest, other.digest);
        assert!(script(&one.word).contains(&format!("local TERM = '{}'", one.word)));
        assert_eq!(one.digest, Term::of("0".repeat(32)).digest);
    }
}
