//! Notes: what people write about shops, what others say to that, and who likes it.
//!
//! A note is read through a cache that holds its counts as well; whatever changes them invalidates
//! it after the commit. Answers are put together for who asks: author, avatar, whether they like it.
//! A submission that is sent twice makes one note: the unique key on its digest decides.

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

/// How long a note is fresh.
const FRESH: Duration = Duration::from_secs(10 * 60);
/// How long it is remembered that there is no such note.
const MISSING: Duration = Duration::from_secs(30);
/// How long the list of what most people like may be behind.
const HOT_FRESH: Duration = Duration::from_secs(2);
/// How many of those who like a note are named.
const FIRST_LIKES: usize = 5;

/// A note, as the database has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Id.
    pub id: u64,
    /// The shop that it is about; 0 when it is about none.
    pub shop_id: u64,
    /// Who wrote it.
    pub user_id: u64,
    /// Title.
    pub title: String,
    /// Paths of pictures, separated by commas.
    pub images: String,
    /// Text.
    pub content: String,
    /// How many like it.
    pub liked: i64,
    /// How many comments it has.
    pub comments: i64,
    /// Milliseconds since the epoch.
    pub create_time: i64,
    /// Milliseconds since the epoch.
    pub update_time: i64,
}

/// A note as somebody sees it.
#[derive(Debug, Clone)]
pub struct View {
    /// The note.
    pub note: Arc<Note>,
    /// Its author's name.
    pub name: String,
    /// Its author's picture.
    pub icon: String,
    /// Whether who asks likes it.
    pub is_like: bool,
}

/// Notes and what belongs to them; a cheap clone.
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

    /// Takes ids in hand, so that an outage of Redis does not keep people from writing.
    pub(crate) async fn take_ids_in_hand(&self) -> Result<()> {
        self.ids.next().await?;
        self.comment_ids.next().await?;
        Ok(())
    }

    /// Publishes a note: its id, the same for a submission that is repeated.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the database is away.
    pub async fn post(&self, draft: &Draft, key: Option<&IdempotencyKey>) -> Result<u64> {
        let (db, now) = (&self.context.db, self.context.now());
        let hash = match key {
            Some(key) => draft.named(key),
            None => {
                // The last window's end and this one's beginning are one minute, too.
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

    /// Copies follow a note that is there; also when it was before, since whoever made it may have
    /// ended at this point.
    async fn posted(&self, note: u64, author: u64) -> Result<u64> {
        // Somebody may have asked for this id before it was there.
        let told = self.cache.invalidate(&note).await?;
        self.context.debts.unless_applied(told, &[Debt::Note(note)]).await?;
        self.moved(author, store::count_of_user(&self.context.db, author).await?).await?;
        Ok(note)
    }

    /// One note.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn read(&self, note: u64, viewer: Option<u64>) -> Result<View> {
        let view = self.views(&[note], viewer).await?.pop();
        view.ok_or_else(unknown)
    }

    /// Many notes at once, in the order of their ids; those that are gone are left out.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when neither cache nor database can tell.
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

    /// The notes themselves, in order; those that are gone are left out.
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

    /// A page of what most people like.
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

    /// A page of an author's notes, newest first, and how many there are.
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

    /// A page of the notes about a shop, newest first, and how many there are.
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

    /// Takes a note out: its author, or an admin.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none, [`Error::Forbidden`] when it is somebody else's.
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

    /// Likes a note, or takes it back.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such note.
    pub async fn like(&self, note: u64, user: u64, wish: Wish) -> Result<Liked> {
        let (done, told) = self.cache.write(&note, self.likes.set(note, user, wish)).await?;
        self.context.debts.unless_applied(told, &[Debt::Note(note)]).await?;
        done.ok_or_else(unknown)
    }

    /// Every page of an author has moved; what Redis did not take is owed.
    async fn moved(&self, author: u64, notes: u64) -> Result<()> {
        let told = self.pages.moved(author, notes).await?;
        self.context.debts.unless_applied(told, &[Debt::Pages { author, notes }]).await
    }

    /// Throws the copy of a note away that could not follow.
    pub(crate) async fn settle(&self, note: u64) -> Result<Invalidation> {
        Ok(self.cache.invalidate(&note).await?)
    }

    /// The same for who likes it.
    pub(crate) async fn settle_likes(&self, note: u64) -> Result<()> {
        self.likes.settle(note).await
    }

    /// Who liked a note first, in order of time.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such note.
    pub async fn first_likes(&self, note: u64) -> Result<Vec<Brief>> {
        if self.rows(&[note]).await?.is_empty() {
            return Err(unknown());
        }
        let first = self.likes.first(note, FIRST_LIKES).await?;
        let mut briefs = self.accounts.brief(first.iter().copied()).await?;
        Ok(first.iter().filter_map(|user| briefs.remove(user)).collect())
    }

    /// Forgets copies in Redis that could not follow the database.
    pub(crate) async fn repair(&self) {
        self.likes.repair().await;
    }

    /// The pages of authors' notes.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Where events are appended.
    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// Lets others know, as far as Redis is there: what is missed is found by the feed's sweep.
    async fn tell(&self, event: Event) {
        if let Err(error) = self.events.append(event).await {
            tracing::warn!(?event, %error, "an event waits for the sweep");
        }
    }
}

fn unknown() -> Error {
    Error::not_found("UNKNOWN_NOTE", "no such note")
}
