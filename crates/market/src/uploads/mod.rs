//! Uploaded pictures: their actual kind, their size, and their storage.
//!
//! The client's metadata of a file (name, content type) is ignored. The bytes determine its kind,
//! and a random name its path. Nothing is written before the whole file was checked.
//!
//! Features that show a picture by its path (a note, a profile) ask here whether it exists.
//!
//! Limit: each process stores uploads in its own data folder. A fleet must share that folder, until
//! there is a [`Storage`] for an object store.

pub(crate) mod http;
mod kind;
mod storage;

use std::{io, sync::Arc, time::Duration};

use seawall::limit::{Limiter, Window};

pub use self::storage::{Name, Storage, Storing};
use self::{kind::Kind, storage::LocalDisk};
use crate::{
    app::Context,
    error::{Error, Result},
    pictures,
};

/// Maximum size of a picture, in bytes.
pub(crate) const MAX_BYTES: usize = 5 * 1024 * 1024;
/// Uploads per user in an hour.
const HOURLY: u64 = 60;
const HOUR: Duration = Duration::from_secs(3600);

/// All uploads.
#[derive(Debug)]
pub struct Uploads {
    storage: Arc<dyn Storage>,
    by_user: Limiter,
}

/// An uploaded picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Content type.
    pub media_type: &'static str,
    /// Content.
    pub bytes: Vec<u8>,
}

impl Uploads {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        let storage = Arc::new(LocalDisk::new(context.config.data.join("uploads")));
        let by_user = context.seawall.limiter("upload", Window::of(HOURLY, HOUR)).build()?;
        Ok(Uploads { storage, by_user })
    }

    /// Counts an upload attempt of a user, before any of it is read.
    ///
    /// # Errors
    /// [`Error::Limited`] beyond sixty an hour.
    pub(crate) async fn admit(&self, user: u64) -> Result<()> {
        let decision = self.by_user.check(&user, 1).await?;
        let Some(retry_after) = decision.retry_after() else { return Ok(()) };
        Err(Error::Limited { msg: "too many pictures; wait a little", retry_after })
    }

    /// Stores a picture. Returns its path.
    ///
    /// # Errors
    /// [`Error::BadInput`] if it is not a picture of an accepted kind.
    pub(crate) async fn keep(&self, bytes: Vec<u8>) -> Result<String> {
        let kind = Kind::of(&bytes).ok_or_else(|| {
            let msg = "a picture is a whole PNG, JPEG, GIF or WebP file, with nothing behind it";
            Error::bad("NOT_A_PICTURE", msg)
        })?;
        let name = Name::random(kind);
        self.storage.put(&name, bytes).await.map_err(|error| away(&error))?;
        Ok(name.path())
    }

    /// Returns the picture at `/uploads/FOLDER/FILE`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such picture.
    pub async fn find(&self, folder: &str, file: &str) -> Result<Picture> {
        let unknown = || Error::not_found("UNKNOWN_PICTURE", "no such picture");
        let name = Name::parse(folder, file).ok_or_else(unknown)?;
        let bytes =
            self.storage.get(&name).await.map_err(|error| away(&error))?.ok_or_else(unknown)?;
        Ok(Picture { media_type: name.kind().media_type(), bytes })
    }

    /// Returns `true` if a path leads to a picture: an uploaded one, or one that the service draws.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the storage cannot answer.
    pub(crate) async fn shows(&self, path: &str) -> Result<bool> {
        match Name::of_path(path) {
            Some(name) => self.storage.has(&name).await.map_err(|error| away(&error)),
            None => Ok(pictures::is_drawn(path)),
        }
    }
}

fn away(error: &io::Error) -> Error {
    Error::Unavailable { what: "the storage of uploads", cause: error.to_string() }
}
