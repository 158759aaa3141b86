//! User profiles: read often, changed rarely, cached with a sliding, jittered TTL.
//!
//! Everything here is public: the phone number is not included. One cache holds the whole profile.
//! Names and pictures for lists ([`Profiles::briefs`]) come from the same entries, so one
//! invalidation covers both. Writers change the database and invalidate ([`Cache::write`]). A
//! reader that loaded the old row meanwhile holds an expired lease and stores nothing. Only a
//! reader that loaded an entry writes it.

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
/// Mean TTL: halfway between two days and two days and ten hours.
const FRESH: Duration = Duration::from_secs(53 * HOUR.as_secs());
/// Jitter of five hours in either direction.
const JITTER: f64 = 5.0 / 53.0;
/// TTL of a negative entry: there is no such user.
const MISSING: Duration = Duration::from_secs(2 * 60);

/// Public profile of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Id.
    pub id: u64,
    /// Public name.
    pub nick_name: String,
    /// Path of a picture; empty if there is none.
    pub icon: String,
    /// City.
    pub city: String,
    /// Introduction.
    pub introduce: String,
    /// Number of followers.
    pub fans: i64,
    /// Number of users that this user follows.
    pub followee: i64,
    /// See [`Gender`].
    pub gender: i64,
    /// For example `1990-12-31`.
    pub birthday: Option<String>,
    /// Points.
    pub credits: i64,
    /// Level, 0 to 9.
    pub level: i64,
    /// Milliseconds since the epoch.
    pub create_time: i64,
}

/// A user in a list, as shown beside a note, a like or a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    /// Id.
    pub id: u64,
    /// Public name.
    pub nick_name: String,
    /// Path of a picture; empty if there is none.
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

    /// Reads one profile with the requested freshness.
    pub(super) async fn read(&self, user: u64, freshness: Freshness) -> Result<Arc<Profile>> {
        let db = Arc::clone(&self.db);
        let load = move || async move {
            let found = store::profiles(&db, &[user]).await?.remove(&user);
            Ok::<_, Error>(Loaded::from(found))
        };
        let read = self.cache.get_or_load_as(freshness, &user, load).await?;
        read.value.ok_or_else(|| Error::not_found("UNKNOWN_USER", "no such user"))
    }

    /// Returns names and pictures of many users; users that do not exist are omitted.
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

    /// Drops cached profiles whose rows another component has changed.
    pub(super) async fn changed(&self, users: &[u64]) -> Result<Invalidation> {
        Ok(self.cache.invalidate_many(users).await?)
    }
}
