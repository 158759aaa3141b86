//! The web page and the API's browsable description: plain files, built into the binary.

use axum::{
    Router,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
    routing::get,
};

use crate::app::Shared;

/// Path, kind and content of each file.
const FILES: [(&str, &str, &str); 9] = [
    ("/", "text/html; charset=utf-8", include_str!("../../web/index.html")),
    ("/docs", "text/html; charset=utf-8", include_str!("../../web/docs.html")),
    ("/web/docs.css", "text/css; charset=utf-8", include_str!("../../web/docs.css")),
    ("/web/docs.js", "text/javascript; charset=utf-8", include_str!("../../web/docs.js")),
    ("/web/schema.js", "text/javascript; charset=utf-8", include_str!("../../web/schema.js")),
    ("/web/style.css", "text/css; charset=utf-8", include_str!("../../web/style.css")),
    ("/web/main.js", "text/javascript; charset=utf-8", include_str!("../../web/main.js")),
    ("/web/api.js", "text/javascript; charset=utf-8", include_str!("../../web/api.js")),
    ("/web/icon.svg", "image/svg+xml", include_str!("../../web/icon.svg")),
];

pub(crate) fn routes() -> Router<Shared> {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, content)| {
        router.route(path, get(move || async move { file(kind, content) }))
    })
}

fn file(kind: &'static str, content: &'static str) -> Response {
    let mut response = content.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // A new binary may bring new files: browsers ask each time.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
