//! What people tell of themselves: read by many, changed seldom, kept in a cache that slides.
//!
//! Everything here may be seen by anybody: the phone is not part of it. One cache holds the whole
//! profile; names and pictures for lists ([`Profiles::briefs`]) are read from the same entries, so
//! that a change reaches both with one invalidation. Writers change the database and invalidate
//! ([`Cache::write`]); a reader who loaded the old row meanwhile holds a dead lease and stores
//! nothing. Nobody writes an entry but a reader who loaded it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use seawall::cache::{Cache, Freshness, Invalidation, Loaded};
use serde::{Deserialize, Serialize};

use super::{change::Change, store};
use crate::{
    app::Context,
    db::Db,
    error::{Error, Result},
};

const HOUR: Duration = Duration::from_secs(3600);
/// In the middle between two days and two days and ten hours.
const FRESH: Duration = Duration::from_secs(53 * HOUR.as_secs());
/// From there five hours either way.
const JITTER: f64 = 5.0 / 53.0;
/// How long it is remembered that there is no such user.
const MISSING: Duration = Duration::from_secs(2 * 60);

/// What anybody may know of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Id.
    pub id: u64,
    /// Name that others see.
    pub nick_name: String,
    /// Path of a picture, or nothing.
    pub icon: String,
    /// Where they live.
    pub city: String,
    /// A few words.
    pub introduce: String,
    /// How many follow them.
    pub fans: i64,
    /// How many they follow.
    pub followee: i64,
    /// See [`Gender`].
    pub gender: i64,
    /// Such as `1990-12-31`.
    pub birthday: Option<String>,
    /// Points.
    pub credits: i64,
    /// Level, 0 to 9.
    pub level: i64,
    /// Milliseconds since the epoch.
    pub create_time: i64,
}

/// A user in a list: what stands beside a note, a like or a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    /// Id.
    pub id: u64,
    /// Name that others see.
    pub nick_name: String,
    /// Path of a picture, or nothing.
    pub icon: String,
}

/// Profiles and their cache.
#[derive(Debug)]
pub(super) struct Profiles {
    db: Arc<Db>,
    cache: Cache<u64, Profile>,
}

impl Profiles {
    pub(super) fn new(context: &Context) -> Result<Self> {
        let cache = context
            .seawall
            .cache("profile")
            .ttl(FRESH)
            .jitter(JITTER)
            .sliding()
            .negative_ttl(MISSING)
            .build()?;
        Ok(Profiles { db: Arc::clone(&context.db), cache })
    }

    /// One profile, as new as asked for.
    pub(super) async fn read(&self, user: u64, freshness: Freshness) -> Result<Arc<Profile>> {
        let db = Arc::clone(&self.db);
        let load = move || async move {
            let found = store::profiles(&db, &[user]).await?.remove(&user);
            Ok::<_, Error>(Loaded::from(found))
        };
        let read = self.cache.get_or_load_as(freshness, &user, load).await?;
        read.value.ok_or_else(|| Error::not_found("UNKNOWN_USER", "no such user"))
    }

    /// Names and pictures of many users; who does not exist is left out.
    pub(super) async fn briefs(
        &self,
        users: impl IntoIterator<Item = u64>,
    ) -> Result<HashMap<u64, Brief>> {
        let mut seen = HashSet::new();
        let users: Vec<u64> = users.into_iter().filter(|user| seen.insert(*user)).collect();
        let db = Arc::clone(&self.db);
        let load = move |users: Vec<u64>| {
            let db = Arc::clone(&db);
            async move { store::profiles(&db, &users).await }
        };
        let mut briefs = HashMap::with_capacity(users.len());
        for read in self.cache.get_many(&users, load).await {
            if let Some(found) = read?.value {
                let brief = Brief {
                    id: found.id,
                    nick_name: found.nick_name.clone(),
                    icon: found.icon.clone(),
                };
                briefs.insert(brief.id, brief);
            }
        }
        Ok(briefs)
    }

    /// Changes a profile.
    pub(super) async fn change(
        &self,
        user: u64,
        change: &Change,
        now: i64,
    ) -> Result<Invalidation> {
        let work = store::change_profile(&self.db, user, change, now);
        let (found, done) = self.cache.write(&user, work).await?;
        if found {
            return Ok(done);
        }
        Err(Error::not_found("UNKNOWN_USER", "no such user"))
    }

    /// Drops what is cached of users whose rows somebody else has changed.
    pub(super) async fn changed(&self, users: &[u64]) -> Result<Invalidation> {
        Ok(self.cache.invalidate_many(users).await?)
    }
}
