//! A validated note to publish: only validated notes reach the database.

use sha2::{Digest as _, Sha256};

use crate::{
    check,
    error::{Error, Result},
    submissions::IdempotencyKey,
};

/// Maximum length of a title, in characters.
pub(super) const TITLE_CHARS: usize = 100;
/// Maximum length of a text, in characters.
pub(super) const CONTENT_CHARS: usize = 4_000;
/// Maximum number of pictures.
pub(super) const IMAGES: usize = 9;
/// Maximum length of a picture path, in bytes: nine of them fit the column.
const IMAGE_BYTES: usize = 200;
/// Folders of pictures on this service.
const FOLDERS: [&str; 2] = ["/uploads/", "/pictures/"];
/// Without an idempotency key, the same content within this time is one submission.
pub(super) const WINDOW_MS: i64 = 60_000;

/// A note before it has an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub(super) author: u64,
    pub(super) shop: u64,
    pub(super) title: String,
    /// Paths, separated by commas.
    pub(super) images: String,
    pub(super) content: String,
}

impl Draft {
    /// Validates a note; shop 0 means none.
    ///
    /// # Errors
    /// [`Error::BadInput`] names the invalid field.
    pub fn new(
        author: u64,
        title: &str,
        images: &[String],
        content: &str,
        shop: Option<u64>,
    ) -> Result<Self> {
        let title = text(title, TITLE_CHARS).ok_or_else(|| {
            Error::bad("BAD_TITLE", "a title has 1 to 100 characters that can be seen")
        })?;
        let content = text(content, CONTENT_CHARS).ok_or_else(|| {
            Error::bad("BAD_CONTENT", "a note has 1 to 4000 characters that can be seen")
        })?;
        if images.len() > IMAGES {
            return Err(Error::bad("TOO_MANY_IMAGES", "a note has up to 9 images"));
        }
        if !images.iter().all(|path| is_ours(path)) {
            return Err(no_image());
        }
        let images = images.join(",");
        Ok(Draft { author, shop: shop.unwrap_or(0), title, images, content })
    }

    /// Returns the digest that identifies this submission by the client's key.
    pub(super) fn named(&self, key: &IdempotencyKey) -> String {
        digest(&[b"named", &self.author.to_be_bytes(), key.as_str().as_bytes()])
    }

    /// Returns the digest that identifies this submission by its content, within the time window of
    /// `now`.
    pub(super) fn within(&self, now: i64) -> String {
        digest(&[
            b"content",
            &self.author.to_be_bytes(),
            &self.shop.to_be_bytes(),
            &now.div_euclid(WINDOW_MS).to_be_bytes(),
            self.title.as_bytes(),
            self.images.as_bytes(),
            self.content.as_bytes(),
        ])
    }
}

/// Trims a text. Returns `None` if it is too long, has nothing visible, or has deceptive
/// characters.
pub(super) fn text(given: &str, most_chars: usize) -> Option<String> {
    let text = given.trim().replace("\r\n", "\n");
    let lies = |one: char| check::is_deceptive(one) && !matches!(one, '\n' | '\t');
    let fits = text.chars().count() <= most_chars && check::is_seen(&text) && !text.contains(lies);
    fits.then_some(text)
}

/// Returns the error for a path that is malformed or has no picture.
pub(super) fn no_image() -> Error {
    Error::bad("BAD_IMAGE", "an image is a path that an upload returned")
}

/// Returns `true` if the path names a picture on this service: never a way out of its folder, nor
/// an external address.
fn is_ours(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    path.len() <= IMAGE_BYTES
        && path.bytes().all(plain)
        && !path.contains("..")
        && !path.contains("//")
        && FOLDERS.iter().any(|folder| path.len() > folder.len() && path.starts_with(folder))
}

/// Returns a digest over the parts, each with its length, so that no part runs into the next.
fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(title: &str, image: &str, content: &str) -> Result<Draft> {
        Draft::new(1, title, &[image.to_owned()], content, None)
    }

    #[test]
    fn only_what_fits_passes() {
        assert!(draft("Noodles", "/uploads/a/b-1_2.png", "Good").is_ok());
        assert!(draft("Noodles", "/pictures/shop/3.svg", "Good").is_ok());
        for bad in [
            "",
            "/uploads/",
            "/uploads/../etc/passwd",
            "/uploads//x",
            "/etc/passwd",
            "http://elsewhere/uploads/x",
            "/uploads/a,b",
            "/uploads/é.png",
        ] {
            assert!(draft("Noodles", bad, "Good").is_err(), "{bad}");
        }
        assert!(draft(" \n", "/uploads/x", "Good").is_err());
        assert!(draft(&"é".repeat(100), "/uploads/x", "Good").is_ok());
        assert!(draft(&"é".repeat(101), "/uploads/x", "Good").is_err());
        assert!(draft("Noodles", "/uploads/x", "").is_err());
        for hidden in
            ["a\0b", "a\u{1b}[2Jb", "a\u{85}b", "a\rb", "\u{200b}", "\u{3164}", "a\u{202e}b"]
        {
            assert!(draft("Noodles", "/uploads/x", hidden).is_err(), "{hidden:?}");
            assert!(draft(hidden, "/uploads/x", "Good").is_err(), "{hidden:?}");
        }
        let lines = draft("Noodles", "/uploads/x", "a\r\n\tb").unwrap();
        assert_eq!(lines.content, "a\n\tb");
    }

    #[test]
    fn submissions_are_told_apart() {
        let one = draft("Noodles", "/uploads/x", "Good").unwrap();
        let other = draft("Noodle", "/uploads/x", "sGood").unwrap();
        assert_eq!(one.within(1_000), one.within(59_999));
        assert_ne!(one.within(59_999), one.within(60_000));
        assert_ne!(one.within(0), other.within(0));
        let key = IdempotencyKey::parse("k").unwrap();
        assert_eq!(one.named(&key), other.named(&key));
    }
}
