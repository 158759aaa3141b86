//! Pictures that people upload: their real kind, their size, and where they lie.
//!
//! What a client says about a file (name, content type) is not looked at. The bytes decide what it
//! is, a random name where it lies. Nothing is written before all of it was looked at.
//!
//! What shows a picture by its path (a note, a profile) asks here whether there is one.
//!
//! Limit: each process keeps its uploads in its own data folder. A fleet shares that folder, until a
//! [`Storage`] of an object store is written.

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

/// Largest picture, in bytes.
pub(crate) const MAX_BYTES: usize = 5 * 1024 * 1024;
/// Pictures that one user may upload in an hour.
const HOURLY: u64 = 60;
const HOUR: Duration = Duration::from_secs(3600);

/// All uploads.
#[derive(Debug)]
pub struct Uploads {
    storage: Arc<dyn Storage>,
    by_user: Limiter,
}

/// A picture that was uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Its content type.
    pub media_type: &'static str,
    /// Itself.
    pub bytes: Vec<u8>,
}

impl Uploads {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        let storage = Arc::new(LocalDisk::new(context.config.data.join("uploads")));
        let by_user = context.seawall.limiter("upload", Window::of(HOURLY, HOUR)).build()?;
        Ok(Uploads { storage, by_user })
    }

    /// Counts an attempt of a user, before anything of it is read.
    ///
    /// # Errors
    /// [`Error::Limited`] beyond sixty an hour.
    pub(crate) async fn admit(&self, user: u64) -> Result<()> {
        let decision = self.by_user.check(&user, 1).await?;
        let Some(retry_after) = decision.retry_after() else { return Ok(()) };
        Err(Error::Limited { msg: "too many pictures; wait a little", retry_after })
    }

    /// Keeps a picture: the path where it is found.
    ///
    /// # Errors
    /// [`Error::BadInput`] when it is no picture of a kind that is taken.
    pub(crate) async fn keep(&self, bytes: Vec<u8>) -> Result<String> {
        let kind = Kind::of(&bytes).ok_or_else(|| {
            let msg = "a picture is a whole PNG, JPEG, GIF or WebP file, with nothing behind it";
            Error::bad("NOT_A_PICTURE", msg)
        })?;
        let name = Name::random(kind);
        self.storage.put(&name, bytes).await.map_err(|error| away(&error))?;
        Ok(name.path())
    }

    /// The picture at `/uploads/FOLDER/FILE`.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn find(&self, folder: &str, file: &str) -> Result<Picture> {
        let unknown = || Error::not_found("UNKNOWN_PICTURE", "no such picture");
        let name = Name::parse(folder, file).ok_or_else(unknown)?;
        let bytes =
            self.storage.get(&name).await.map_err(|error| away(&error))?.ok_or_else(unknown)?;
        Ok(Picture { media_type: name.kind().media_type(), bytes })
    }

    /// Whether a path leads to a picture: one that was uploaded, or one that the service draws.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the storage cannot tell.
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
