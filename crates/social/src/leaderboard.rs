//! Leaderboards: scores, ranks, pages around a member, seasons.
//!
//! Among equal scores the member that reached the score first wins. A sorted set orders equal
//! scores by the bytes of their members, so each member is prefixed with the time, counted down:
//!
//! ```text
//! board:{NAME:SEASON}     zset   hex(2^53-1 - µs of the change) member → score
//! board:{NAME:SEASON}:m   hash   member → its entry above
//! board:{NAME:SEASON}:s   zset   each score that a member has, for dense ranks
//! ```
//!
//! The score itself is stored unchanged, so all whole numbers that a double represents exactly can
//! be scores (±[`MAX_SCORE`]). Packing the time into the low bits of the score would save the hash,
//! but leave only 2^31 scores with ties to the second for a month's season. A board that is wrong
//! in the second in which a game ends is wrong when all users look at it.
//!
//! Invariant: the three keys change in one script and have one lifetime.

use std::{marker::PhantomData, time::Duration};

use seawall_client::{
    Handle, KeyPart,
    client::{Script, ScriptInvocation},
    error::{Error, Result},
    lifetime,
    member::Member,
};
use seawall_resilience::clock::millis;

use super::template::{Template, beside, check_count, check_reference, check_score, remembered};

/// The largest score, 2^53 − 1; the smallest is its negative.
pub const MAX_SCORE: i64 = (1 << 53) - 1;
/// How long an increment is remembered for its reference.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// Digits of the time before a member.
const TIME_DIGITS: usize = 14;

static PUT: Script = Script::with_time(include_str!("script/board_put.lua"));
static READ: Script = Script::new(include_str!("script/board_read.lua"));

impl<M: Member> Leaderboard<M> {
    /// Creates a leaderboard with this name.
    #[must_use]
    pub fn new(handle: &Handle, name: impl Into<String>) -> Leaderboard<M> {
        Leaderboard {
            template: Template::new(handle, "board", name),
            lifetime: None,
            keep: None,
            member: PhantomData,
        }
    }
}

/// A leaderboard with its seasons; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::Seawall;
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let season = seawall.leaderboard::<u64>("steps").season(&"2026-11")?;
/// season.set(&1, 500).await?;
/// season.set(&2, 900).await?;
/// season.set(&3, 500).await?;
/// let order: Vec<_> = season.top(3).await?.into_iter().map(|s| (s.member, s.rank)).collect();
/// assert_eq!(order, [(2, 1), (1, 2), (3, 2)], "1 was there before 3");
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Leaderboard<M> {
    template: Template,
    lifetime: Option<Duration>,
    keep: Option<usize>,
    member: PhantomData<fn(M) -> M>,
}

/// The standing of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing<M> {
    /// The member.
    pub member: M,
    /// Its score.
    pub score: i64,
    /// Unique 1-based position in the list; among equal scores the earlier member comes first.
    pub position: u64,
    /// Competition rank (1, 2, 2, 4): one more than the number of members with better scores.
    pub rank: u64,
    /// Dense rank (1, 2, 2, 3): one more than the number of distinct better scores.
    pub dense_rank: u64,
}

impl<M: Member> Leaderboard<M> {
    /// Sets how long a season is kept, from its first score on. Default: forever.
    #[must_use]
    pub fn ttl(mut self, time: Duration) -> Self {
        self.lifetime = Some(time);
        self
    }

    /// Sets how many of the best members are kept; others are removed. Default: all.
    #[must_use]
    pub fn max_kept(mut self, best: usize) -> Self {
        self.keep = Some(best);
        self
    }

    /// Returns one season, or the only list of a board without seasons.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is empty or too long, the lifetime is below a millisecond or
    /// above ten years, or the number kept is 0.
    pub fn season(&self, name: &(impl KeyPart + ?Sized)) -> Result<Season<M>> {
        let millis = self.lifetime.map(|time| lifetime::millis("ttl", time)).transpose()?;
        if self.keep == Some(0) {
            return Err(Error::Invalid("max_kept is 0: nothing would be kept".into()));
        }
        let board = self.template.key(name)?;
        let keys = [beside(&board, ":m"), beside(&board, ":s")];
        let [entries, scores] = keys;
        Ok(Season {
            template: self.template.clone(),
            keys: [board, entries, scores],
            lifetime_millis: millis.unwrap_or(0),
            keep: self.keep.unwrap_or(0),
            member: PhantomData,
        })
    }
}

/// One season of a [`Leaderboard`].
#[derive(Debug, Clone)]
pub struct Season<M> {
    template: Template,
    keys: [Vec<u8>; 3],
    lifetime_millis: u64,
    keep: usize,
    member: PhantomData<fn(M) -> M>,
}

impl<M: Member> Season<M> {
    /// Sets a score and returns the current score.
    ///
    /// Setting the same score again keeps the first time. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer; [`Error::Invalid`] if the score is beyond ±[`MAX_SCORE`].
    pub async fn set(&self, member: &M, score: i64) -> Result<i64> {
        self.put("set", member, score, "").await
    }

    /// Sets a score if it is better than the current one, and returns the current score. Safe to
    /// retry.
    ///
    /// # Errors
    /// As [`Season::set`].
    pub async fn set_if_better(&self, member: &M, score: i64) -> Result<i64> {
        self.put("best", member, score, "").await
    }

    /// Adds to a score, once per reference of this member, and returns the current score.
    ///
    /// The reference is remembered for an hour. A retry returns the score that the first call
    /// returned.
    ///
    /// # Errors
    /// As [`Season::set`]; [`Error::Invalid`] also if the sum would be beyond ±[`MAX_SCORE`]:
    /// nothing is changed then.
    pub async fn add(&self, member: &M, by: i64, reference: &str) -> Result<i64> {
        check_reference(reference)?;
        self.put("add", member, by, reference).await
    }

    async fn put(&self, mode: &str, member: &M, score: i64, reference: &str) -> Result<i64> {
        check_score(score)?;
        let member = member.to_member()?;
        let [board, entries, scores] = &self.keys;
        let remembered = remembered(board, ":r:", &member, reference);
        let call = PUT
            .on(&[board, entries, scores, &remembered])
            .arg(mode)
            .arg(&*member)
            .arg(score)
            .arg(self.lifetime_millis)
            .arg(self.keep)
            .arg(millis(REMEMBERED));
        let standing: Option<i64> = self.template.client().eval(&call).await?;
        standing.ok_or_else(|| {
            Error::Invalid(format!("adding {score} would leave ±{MAX_SCORE}; nothing was changed"))
        })
    }

    /// Removes a member. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn remove(&self, member: &M) -> Result<()> {
        let [board, entries, scores] = &self.keys;
        let call = PUT
            .on(&[board, entries, scores, &beside(board, ":r:")])
            .arg("remove")
            .arg(&*member.to_member()?)
            .arg(0)
            .arg(self.lifetime_millis)
            .arg(self.keep)
            .arg(0);
        self.template.client().run(&call).await.map(drop)
    }

    /// Returns the best `count` members, at most [`SLICE`](super::SLICE).
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn top(&self, count: usize) -> Result<Vec<Standing<M>>> {
        self.page(0, count).await
    }

    /// Returns a page of the list, after `skip` positions.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn page(&self, skip: u64, count: usize) -> Result<Vec<Standing<M>>> {
        check_count(count)?;
        let skip = skip.min(MAX_SCORE as u64);
        self.read(self.reading("page").arg(skip).arg(count)).await
    }

    /// Returns a member and its neighbours: up to `each_side` above and below.
    ///
    /// Empty if the member is not on the board.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn around(&self, member: &M, each_side: usize) -> Result<Vec<Standing<M>>> {
        check_count(each_side.saturating_mul(2).saturating_add(1))?;
        self.read(self.reading("around").arg(&*member.to_member()?).arg(each_side)).await
    }

    /// Returns the standing of a member, or `None` if it is not on the board.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn standing(&self, member: &M) -> Result<Option<Standing<M>>> {
        Ok(self.around(member, 0).await?.pop())
    }

    /// Returns the number of members.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn count(&self) -> Result<u64> {
        let board = &self.keys[0];
        self.template.client().query(board, redis::cmd("ZCARD").arg(board)).await
    }

    fn reading(&self, mode: &str) -> ScriptInvocation {
        READ.on(&self.keys).arg(mode)
    }

    /// Runs the read script. The first entry comes with its ranks; the others follow from the
    /// scores.
    async fn read(&self, call: ScriptInvocation) -> Result<Vec<Standing<M>>> {
        type Reply = (u64, u64, u64, Vec<(Vec<u8>, String)>);
        let (skipped, better, better_scores, entries): Reply =
            self.template.client().eval(&call).await?;
        let mut page: Vec<Standing<M>> = Vec::with_capacity(entries.len());
        for (entry, score) in entries {
            let score = score
                .parse::<i64>()
                .map_err(|_| Error::unexpected(format!("{score:?} is not a score of ours")))?;
            let member = M::from_member(entry.get(TIME_DIGITS..).unwrap_or_default())?;
            let position = skipped + page.len() as u64 + 1;
            let (rank, dense_rank) = match page.last() {
                None => (better + 1, better_scores + 1),
                Some(above) if above.score == score => (above.rank, above.dense_rank),
                Some(above) => (position, above.dense_rank + 1),
            };
            page.push(Standing { member, score, position, rank, dense_rank });
        }
        Ok(page)
    }
}
