//! Notes: posts about shops, with comments and likes.
//!
//! A note is read through a cache that also holds its counts; every change of a count invalidates
//! the entry after the commit. Responses are assembled per viewer: author, avatar, and whether the
//! viewer likes the note. A submission that is sent twice makes one note: the unique key on its
//! digest decides.

pub(crate) mod comment_http;
mod comment_store;
mod comments;
mod draft;
pub(crate) mod events;
pub(crate) mod http;
mod like_store;
pub(crate) mod likes;
mod pages;
pub(crate) mod store;

use std::{collections::HashSet, sync::Arc, time::Duration};

use seawall::cache::{Cache, Invalidation, Loaded};
use serde::{Deserialize, Serialize};

pub use self::{
    comment_store::Place,
    comments::{Comment, Replies, Thread, Threads},
    draft::Draft,
    likes::{Liked, Wish},
};
use self::{
    draft::WINDOW_MS,
    events::{Event, Events},
    likes::Likes,
    pages::Pages,
    store::{IdPage, Submitted},
};
use crate::{
    accounts::{Accounts, Brief, User},
    app::Context,
    debts::Debt,
    error::{Error, Result},
    http::PAGE_ROWS,
    submissions::IdempotencyKey,
};

/// TTL of a cached note.
const FRESH: Duration = Duration::from_secs(10 * 60);
/// TTL of a negative entry: there is no such note.
const MISSING: Duration = Duration::from_secs(30);
/// Maximum lag of the list of most liked notes.
const HOT_FRESH: Duration = Duration::from_secs(2);
/// Number of users named who liked a note.
const FIRST_LIKES: usize = 5;

/// A note, as stored in the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Id.
    pub id: u64,
    /// Shop that it is about; 0 for none.
    pub shop_id: u64,
    /// Author.
    pub user_id: u64,
    /// Title.
    pub title: String,
    /// Paths of pictures, separated by commas.
    pub images: String,
    /// Text.
    pub content: String,
    /// Number of likes.
    pub liked: i64,
    /// Number of comments.
    pub comments: i64,
    /// Milliseconds since the epoch.
    pub create_time: i64,
    /// Milliseconds since the epoch.
    pub update_time: i64,
}

/// A note as a viewer sees it.
#[derive(Debug, Clone)]
pub struct View {
    /// The note.
    pub note: Arc<Note>,
    /// Name of the author.
    pub name: String,
    /// Picture of the author.
    pub icon: String,
    /// Whether the viewer likes it.
    pub is_like: bool,
}

/// Notes with their comments and likes; cheap to clone.
#[derive(Debug, Clone)]
pub struct Notes {
    context: Context,
    accounts: Arc<Accounts>,
    ids: seawall::id::Ids,
    comment_ids: seawall::id::Ids,
    cache: Cache<u64, Note>,
    hot: Cache<u32, Vec<u64>>,
    pages: Pages,
    events: Events,
    likes: Likes,
}

impl Notes {
    pub(crate) fn new(context: &Context, accounts: &Arc<Accounts>) -> Result<Self> {
        let seawall = &context.seawall;
        Ok(Notes {
            ids: seawall.ids("note").build()?,
            comment_ids: seawall.ids("comment").build()?,
            cache: seawall.cache("note").ttl(FRESH).negative_ttl(MISSING).build()?,
            hot: seawall.cache("note-hot").ttl(HOT_FRESH).build()?,
            pages: Pages::new(context)?,
            events: Events::new(seawall)?,
            likes: Likes::new(context)?,
            accounts: Arc::clone(accounts),
            context: context.clone(),
        })
    }

    /// Reserves a block of ids, so that users can publish during an outage of Redis.
    pub(crate) async fn take_ids_in_hand(&self) -> Result<()> {
        self.ids.next().await?;
        self.comment_ids.next().await?;
        Ok(())
    }

    /// Publishes a note.
    ///
    /// Returns its id, the same for a repeated submission.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the database is away.
    pub async fn post(&self, draft: &Draft, key: Option<&IdempotencyKey>) -> Result<u64> {
        let (db, now) = (&self.context.db, self.context.now());
        let hash = match key {
            Some(key) => draft.named(key),
            None => {
                // The end of the last window and the beginning of this one are within one minute,
                // too.
                let last = draft.within(now - WINDOW_MS);
                if let Some(first) = store::by_hash(db, &last, now - WINDOW_MS).await? {
                    return self.posted(first, draft.author).await;
                }
                draft.within(now)
            }
        };
        let note = self.ids.next().await?.as_u64();
        let author = draft.author;
        if let Submitted::Before(first) = store::insert(db, note, draft, &hash, now).await? {
            return self.posted(first, author).await;
        }
        let note = self.posted(note, author).await?;
        self.tell(Event::Posted { note, author, time: now }).await;
        Ok(note)
    }

    /// Updates the copies of a note that exists; also if it existed before, because the process
    /// that created it may have died at this point.
    async fn posted(&self, note: u64, author: u64) -> Result<u64> {
        // A reader may have requested this id before it existed.
        let told = self.cache.invalidate(&note).await?;
        self.context.debts.unless_applied(told, &[Debt::Note(note)]).await?;
        self.moved(author, store::count_of_user(&self.context.db, author).await?).await?;
        Ok(note)
    }

    /// Returns one note.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such note.
    pub async fn read(&self, note: u64, viewer: Option<u64>) -> Result<View> {
        let view = self.views(&[note], viewer).await?.pop();
        view.ok_or_else(unknown)
    }

    /// Returns many notes, in the order of `ids`; deleted ones are omitted.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if neither cache nor database can answer.
    pub async fn views(&self, ids: &[u64], viewer: Option<u64>) -> Result<Vec<View>> {
        let notes = self.rows(ids).await?;
        let authors = self.accounts.brief(notes.iter().map(|note| note.user_id)).await?;
        let liked = match viewer {
            Some(viewer) => {
                let ids: Vec<u64> = notes.iter().map(|note| note.id).collect();
                self.likes.liked_by(viewer, &ids).await?
            }
            None => HashSet::new(),
        };
        let view = |note: Arc<Note>| {
            let author = authors.get(&note.user_id);
            let name = author.map(|author| author.nick_name.clone()).unwrap_or_default();
            let icon = author.map(|author| author.icon.clone()).unwrap_or_default();
            View { is_like: liked.contains(&note.id), note, name, icon }
        };
        Ok(notes.into_iter().map(view).collect())
    }

    /// Returns the notes themselves, in order; deleted ones are omitted.
    pub(crate) async fn rows(&self, ids: &[u64]) -> Result<Vec<Arc<Note>>> {
        let db = Arc::clone(&self.context.db);
        let load = move |ids: Vec<u64>| {
            let db = Arc::clone(&db);
            async move { store::by_ids(&db, &ids).await }
        };
        let mut notes = Vec::with_capacity(ids.len());
        for read in self.cache.get_many(ids, load).await {
            notes.extend(read?.value);
        }
        Ok(notes)
    }

    /// Returns a page of the most liked notes.
    ///
    /// # Errors
    /// As [`Notes::views`].
    pub async fn hot(&self, page: u32, viewer: Option<u64>) -> Result<Vec<View>> {
        let db = Arc::clone(&self.context.db);
        let load = move || async move { store::hot(&db, page, PAGE_ROWS).await.map(Loaded::Found) };
        let read = self.hot.get_or_load(&page, load).await?;
        let ids = read.value.as_deref().map(Vec::as_slice).unwrap_or_default();
        self.views(ids, viewer).await
    }

    /// Returns a page of an author's notes, newest first, and their number.
    ///
    /// # Errors
    /// As [`Notes::views`].
    pub async fn of_user(
        &self,
        author: u64,
        page: u32,
        viewer: Option<u64>,
    ) -> Result<(Vec<View>, u64)> {
        let page = self.pages.read(author, page).await?;
        Ok((self.views(&page.ids, viewer).await?, page.total))
    }

    /// Returns a page of the notes about a shop, newest first, and their number.
    ///
    /// # Errors
    /// As [`Notes::views`].
    pub async fn of_shop(
        &self,
        shop: u64,
        page: u32,
        viewer: Option<u64>,
    ) -> Result<(Vec<View>, u64)> {
        let IdPage { ids, total } = store::of_shop(&self.context.db, shop, page, PAGE_ROWS).await?;
        Ok((self.views(&ids, viewer).await?, total))
    }

    /// Deletes a note; only for its author or an admin.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such note, [`Error::Forbidden`] if it belongs to another
    /// user.
    pub async fn delete(&self, note: u64, user: &User) -> Result<()> {
        let db = &self.context.db;
        let found = store::by_ids(db, &[note]).await?.remove(&note).ok_or_else(unknown)?;
        if found.user_id != user.id && user.role != "admin" {
            return Err(Error::Forbidden { msg: "only its author or an admin may delete a note" });
        }
        let Note { user_id: author, create_time: time, .. } = found;
        let before = store::count_of_user(db, author).await?;
        let (deleted, told) = self.cache.write(&note, store::delete(db, note)).await?;
        if !deleted {
            return Err(unknown());
        }
        self.context.debts.unless_applied(told, &[Debt::Note(note)]).await?;
        self.moved(author, before).await?;
        self.likes.forget(note).await?;
        self.tell(Event::Deleted { note, author, time }).await;
        Ok(())
    }

    /// Likes or unlikes a note.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such note.
    pub async fn like(&self, note: u64, user: u64, wish: Wish) -> Result<Liked> {
        let (done, told) = self.cache.write(&note, self.likes.set(note, user, wish)).await?;
        self.context.debts.unless_applied(told, &[Debt::Note(note)]).await?;
        done.ok_or_else(unknown)
    }

    /// Invalidates every page of an author; records a debt if Redis did not apply it.
    async fn moved(&self, author: u64, notes: u64) -> Result<()> {
        let told = self.pages.moved(author, notes).await?;
        self.context.debts.unless_applied(told, &[Debt::Pages { author, notes }]).await
    }

    /// Drops the copy of a note that missed a change.
    pub(crate) async fn settle(&self, note: u64) -> Result<Invalidation> {
        Ok(self.cache.invalidate(&note).await?)
    }

    /// Drops the list of a note's likes that missed a change.
    pub(crate) async fn settle_likes(&self, note: u64) -> Result<()> {
        self.likes.settle(note).await
    }

    /// Returns the first users who liked a note, ordered by time.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such note.
    pub async fn first_likes(&self, note: u64) -> Result<Vec<Brief>> {
        if self.rows(&[note]).await?.is_empty() {
            return Err(unknown());
        }
        let first = self.likes.first(note, FIRST_LIKES).await?;
        let mut briefs = self.accounts.brief(first.iter().copied()).await?;
        Ok(first.iter().filter_map(|user| briefs.remove(user)).collect())
    }

    /// Deletes copies in Redis that missed a change.
    pub(crate) async fn repair(&self) {
        self.likes.repair().await;
    }

    /// Returns the pages of authors' notes.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Returns the event stream.
    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// Appends an event if Redis answers; the feed's sweep appends a missing one.
    async fn tell(&self, event: Event) {
        if let Err(error) = self.events.append(event).await {
            tracing::warn!(?event, %error, "an event waits for the sweep");
        }
    }
}

fn unknown() -> Error {
    Error::not_found("UNKNOWN_NOTE", "no such note")
}
