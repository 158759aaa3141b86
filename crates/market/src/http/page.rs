//! The web page and the browsable API description: plain files, built into the binary.
//!
//! Every file except the two documents has a name that contains the hash of all files,
//! `/web/HASH/app.js`, and browsers cache it forever. The documents refer to that name and are
//! revalidated on each visit. Files refer to each other by relative names, so one page never mixes
//! two versions. A page of an older binary that requests one of its files gets 404 and reloads
//! itself (`router.js`). The plain names `/web/app.js` work as well, for people and tools that
//! inspect a file.

use std::fmt::Write as _;

use axum::{
    Router,
    body::Bytes,
    extract::Path,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use sha2::{Digest as _, Sha256};

use super::Failure;
use crate::app::Shared;

/// Name and content of each file.
macro_rules! files {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../web/", $name)))),*]
    };
}

const FILES: &[(&str, &str)] = files! {
    "account.js"
    "api.js"
    "app.js"
    "docs.css"
    "docs.js"
    "dom.js"
    "early.js"
    "i18n.js"
    "icon.svg"
    "place.js"
    "router.js"
    "schema.js"
    "store.js"
    "components/buy.js"
    "components/card.js"
    "components/comments.js"
    "components/countdown.js"
    "components/dialog.js"
    "components/field.js"
    "components/follow.js"
    "components/icon.js"
    "components/like.js"
    "components/list.js"
    "components/order-actions.js"
    "components/picture.js"
    "components/shell.js"
    "components/stars.js"
    "components/states.js"
    "components/stepper.js"
    "components/steps.js"
    "components/toast.js"
    "components/uploads.js"
    "screens/cart.js"
    "screens/checkout.js"
    "screens/feed.js"
    "screens/goods.js"
    "screens/home.js"
    "screens/login.js"
    "screens/map.js"
    "screens/me.js"
    "screens/note.js"
    "screens/order.js"
    "screens/orders.js"
    "screens/person.js"
    "screens/sale.js"
    "screens/sales.js"
    "screens/search.js"
    "screens/shop.js"
    "screens/shops.js"
    "screens/signin.js"
    "screens/sku.js"
    "screens/write.js"
    "style/components.css"
    "style/layout.css"
    "style/screens.css"
    "style/tokens.css"
    "words/en.js"
    "words/zh.js"
};
/// Paths and contents of the documents.
const DOCUMENTS: &[(&str, &str)] =
    &[("/", include_str!("../../web/index.html")), ("/docs", include_str!("../../web/docs.html"))];

/// Digits of the hash in file names.
const HASH_DIGITS: usize = 16;
/// A new binary may bring new files, so browsers must revalidate.
const ASK: HeaderValue = HeaderValue::from_static("no-cache");
/// A name with a hash never changes its content.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

pub(crate) fn routes() -> Router<Shared> {
    let hash = hash();
    let mut router = Router::new();
    for &(path, document) in DOCUMENTS {
        let document = Bytes::from(document.replace("\"/web/", &format!("\"/web/{hash}/")));
        router = router.route(path, get(async move || answer("html", document, ASK)));
    }
    router.route("/web/{*path}", get(async move |Path(path): Path<String>| file(&path, &hash)))
}

/// Returns the same hash for every process of one binary, and another one if any file changes.
fn hash() -> String {
    let mut all = Sha256::new();
    for (name, content) in FILES.iter().chain(DOCUMENTS) {
        // The lengths separate one file from the next.
        all.update(format!("{}:{name}{}:", name.len(), content.len()));
        all.update(content);
    }
    let mut text = String::new();
    for byte in all.finalize().iter().take(HASH_DIGITS / 2) {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn file(path: &str, hash: &str) -> Response {
    let (name, keep) = match path.strip_prefix(hash).and_then(|rest| rest.strip_prefix('/')) {
        Some(name) => (name, FOR_EVER),
        None => (path, ASK),
    };
    let Some((_, content)) = FILES.iter().find(|(known, _)| *known == name) else {
        let msg = "there is no such file".to_owned();
        return Failure::Http(StatusCode::NOT_FOUND, "NO_SUCH_PATH", msg).into_response();
    };
    let ending = name.rsplit('.').next().unwrap_or_default();
    answer(ending, Bytes::from_static(content.as_bytes()), keep)
}

fn answer(ending: &str, content: Bytes, keep: HeaderValue) -> Response {
    let kind = match ending {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        _ => "image/svg+xml",
    };
    let mut response = content.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, keep);
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A file that is missing from the table cannot be served.
    #[test]
    fn every_file_of_the_folder_is_in_the_table() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let (mut folders, mut found) = (vec![root.clone()], BTreeSet::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(&root).unwrap();
                    found.insert(name.to_str().unwrap().replace('\\', "/"));
                }
            }
        }
        let known = FILES.iter().map(|(name, _)| (*name).to_owned());
        let documents = ["index.html", "docs.html"].map(str::to_owned);
        assert_eq!(found, known.chain(documents).collect());
    }

    fn keys(name: &str) -> BTreeSet<&'static str> {
        let (_, words) = FILES.iter().find(|(known, _)| *known == name).unwrap();
        // A key is at the beginning of a line or after another text of the same line.
        let starts = words.split(['\n', ',']).map(str::trim_start);
        starts.filter_map(|part| Some(part.strip_prefix('"')?.split_once("\":")?.0)).collect()
    }

    #[test]
    fn both_languages_have_the_same_texts() {
        let (english, chinese) = (keys("words/en.js"), keys("words/zh.js"));
        assert!(english.len() > 300, "{} texts", english.len());
        assert_eq!(english.symmetric_difference(&chinese).collect::<Vec<_>>(), [&""; 0]);
    }

    /// Keys that are built at run time are checked by the browser tests.
    #[test]
    fn every_text_that_is_asked_for_is_there() {
        let known = keys("words/en.js");
        let mut asked = 0;
        for (name, content) in FILES.iter().filter(|(name, _)| name.ends_with(".js")) {
            for (at, call) in content.match_indices("t(\"") {
                // A different function whose name ends with this letter.
                if content[..at].ends_with(|c: char| c.is_alphanumeric() || c == '.') {
                    continue;
                }
                let key = content[at + call.len()..].split('"').next().unwrap();
                assert!(known.contains(key), "{name} asks for {key:?}, which has no text");
                asked += 1;
            }
        }
        assert!(asked > 150, "{asked} are asked for");
    }

    #[test]
    fn the_first_view_is_small() {
        // An upper bound of what a first view loads: every file but one of the languages.
        let all = FILES.iter().filter(|(name, _)| {
            !name.starts_with("docs") && *name != "words/zh.js" && !name.starts_with("screens/")
        });
        let home = FILES.iter().filter(|(name, _)| *name == "screens/home.js");
        let bytes: usize = all.chain(home).map(|(_, content)| content.len()).sum();
        assert!(bytes < 150_000, "{bytes} bytes");
    }
}
