//! Storage of uploads: the interface for an object store, and the local disk.
//!
//! A [`Name`] consists of random digits and a known extension, so it cannot lead out of the folder,
//! whatever a request contains. A file is written under an unpublished name, synced to disk and
//! then renamed: a file that exists is complete, even after a crash.

use std::{
    fmt, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    pin::Pin,
};

use super::kind::Kind;

/// Random digits of a name.
const DIGITS: usize = 32;
/// Number of these digits that name the folder.
const FOLDER_DIGITS: usize = 2;

/// Name of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    digits: String,
    kind: Kind,
}

impl Name {
    /// Generates a new name that cannot be guessed.
    pub(super) fn random(kind: Kind) -> Self {
        Name { digits: format!("{:032x}", rand::random::<u128>()), kind }
    }

    /// Parses a path `/uploads/FOLDER/FILE`; `None` if it is not a name of ours.
    pub(super) fn parse(folder: &str, file: &str) -> Option<Self> {
        let (digits, ending) = file.split_once('.')?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.ending() == ending)?;
        let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let ours = digits.len() == DIGITS
            && digits.bytes().all(hexadecimal)
            && digits.get(..FOLDER_DIGITS) == Some(folder);
        ours.then(|| Name { digits: digits.to_owned(), kind })
    }

    /// Parses the complete path.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        let (folder, file) = path.strip_prefix("/uploads/")?.split_once('/')?;
        Name::parse(folder, file)
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    fn folder(&self) -> &str {
        self.digits.get(..FOLDER_DIGITS).unwrap_or_default()
    }

    /// Returns the path over HTTP.
    pub(super) fn path(&self) -> String {
        format!("/uploads/{}/{self}", self.folder())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.digits, self.kind.ending())
    }
}

/// Return type of [`Storage`].
pub type Storing<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// Stores uploads.
pub trait Storage: fmt::Debug + Send + Sync {
    /// Stores `bytes` under a new name; durable on return.
    fn put<'a>(&'a self, name: &'a Name, bytes: Vec<u8>) -> Storing<'a, ()>;

    /// Returns the content stored under a name.
    fn get<'a>(&'a self, name: &'a Name) -> Storing<'a, Option<Vec<u8>>>;

    /// Returns `true` if something is stored under a name.
    fn has<'a>(&'a self, name: &'a Name) -> Storing<'a, bool>;
}

/// A local folder.
#[derive(Debug)]
pub(super) struct LocalDisk {
    root: PathBuf,
}

impl LocalDisk {
    /// Creates the storage; the folder is created with the first file.
    pub(super) fn new(root: PathBuf) -> Self {
        LocalDisk { root }
    }

    fn file(&self, name: &Name) -> PathBuf {
        self.root.join(name.folder()).join(name.to_string())
    }
}

impl Storage for LocalDisk {
    fn put<'a>(&'a self, name: &'a Name, bytes: Vec<u8>) -> Storing<'a, ()> {
        let file = self.file(name);
        Box::pin(blocking(move || write(&file, &bytes)))
    }

    fn get<'a>(&'a self, name: &'a Name) -> Storing<'a, Option<Vec<u8>>> {
        let file = self.file(name);
        Box::pin(blocking(move || match fs::read(&file) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }))
    }

    fn has<'a>(&'a self, name: &'a Name) -> Storing<'a, bool> {
        let file = self.file(name);
        Box::pin(blocking(move || file.try_exists()))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// Writes a file atomically: it is complete or does not exist.
fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().ok_or_else(|| io::Error::other("a file lies in a folder"))?;
    fs::create_dir_all(folder)?;
    let unfinished = file.with_extension("part");
    let written = write_through(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, file));
    if written.is_err() {
        // Its name is unpublished; it would only take space.
        let _ = fs::remove_file(&unfinished);
    }
    written?;
    // Syncs the folder, which contains the name.
    fs::File::open(folder)?.sync_all()
}

fn write_through(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(file)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_names() {
        let name = Name::random(Kind::Png);
        let (folder, file) = (name.folder().to_owned(), name.to_string());
        assert_eq!(Name::parse(&folder, &file), Some(name.clone()));
        assert_eq!(name.path(), format!("/uploads/{folder}/{file}"));
        assert_eq!(Name::of_path(&name.path()), Some(name));
        assert_eq!(Name::of_path("/uploads/nonexistent.png"), None);
        let digits = "0123456789abcdef0123456789abcdef";
        for (folder, file) in [
            ("..", "0123456789abcdef0123456789abcdef.png".to_owned()),
            ("01", format!("{digits}.svg")),
            ("01", format!("{digits}.png.html")),
            ("01", format!("{digits}.part")),
            ("01", format!("{}.png", digits.to_uppercase())),
            ("02", format!("{digits}.png")),
            ("01", format!("01/../{digits}.png")),
            ("", String::new()),
        ] {
            assert_eq!(Name::parse(folder, &file), None, "{folder}/{file}");
        }
    }

    #[test]
    fn a_file_is_whole_or_not_there() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("ab").join("c.png");
        write(&file, b"one").expect("written");
        assert_eq!(fs::read(&file).expect("there"), b"one");
        let names = fs::read_dir(file.parent().expect("a folder")).expect("there");
        assert_eq!(names.count(), 1, "nothing unfinished is left");
    }
}
