//! Which generation is in use: one hash in Redis, cached in the process.
//!
//! The cached copy may be outdated. Correctness does not depend on it: a missing or marked part
//! reveals that, and the hash is read again.

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwapOption;
use redis::cmd;
use seawall_client::{
    Handle,
    client::Client,
    error::{Error, Result},
};

use super::shape::Shape;

/// A generation of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation {
    pub(super) number: u64,
    pub(super) shape: Shape,
}

/// The hash, as it was read.
#[derive(Debug, Clone, Default)]
pub(super) struct Control {
    /// The generation in use; none before the first build.
    pub(super) current: Option<Generation>,
    /// The generation that is being built.
    pub(super) next: Option<Generation>,
    /// The generation that is being removed.
    pub(super) old: Option<Generation>,
}

impl Control {
    pub(super) fn read(fields: &BTreeMap<String, String>) -> Result<Self> {
        let generation = |field: &str| -> Result<Option<Generation>> {
            let Some(number) = fields.get(field) else { return Ok(None) };
            let strange = || Error::unexpected(format!("a filter's {field} is {number:?}"));
            let shape = fields.get(&format!("s:{number}")).ok_or_else(strange)?;
            let number = number.parse().map_err(|_| strange())?;
            Ok(Some(Generation { number, shape: shape.parse()? }))
        };
        Ok(Control {
            current: generation("current")?,
            next: generation("next")?,
            old: generation("old")?,
        })
    }

    /// Returns all generations that keys are added to.
    pub(super) fn all(&self) -> impl Iterator<Item = Generation> {
        [self.current, self.next, self.old].into_iter().flatten()
    }
}

/// The keys of a filter, and the cached copy of its hash.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) handle: Handle,
    pub(super) name: String,
    pub(super) key: Vec<u8>,
    known: ArcSwapOption<Control>,
}

impl Place {
    pub(super) fn new(handle: &Handle, name: String) -> Result<Self> {
        let key = handle.key("bloom", &name)?;
        Ok(Place { handle: handle.clone(), name, key, known: ArcSwapOption::empty() })
    }

    pub(super) fn client(&self) -> &Client {
        self.handle.client()
    }

    pub(super) fn part(&self, generation: Generation, part: u32) -> Result<Vec<u8>> {
        self.handle.key("bloom", &(self.name.as_str(), generation.number, part))
    }

    pub(super) fn parts(&self, generation: Generation) -> Result<Vec<Vec<u8>>> {
        (0..generation.shape.parts).map(|part| self.part(generation, part)).collect()
    }

    /// Returns the cached hash; reads it if there is none.
    pub(super) async fn control(&self) -> Result<Arc<Control>> {
        match self.known.load_full() {
            Some(known) if known.current.is_some() => Ok(known),
            _ => self.refresh().await,
        }
    }

    pub(super) async fn refresh(&self) -> Result<Arc<Control>> {
        let fields = self.client().query(&self.key, cmd("HGETALL").arg(&self.key)).await?;
        let control = Arc::new(Control::read(&fields)?);
        self.known.store(Some(Arc::clone(&control)));
        Ok(control)
    }
}
