//! Uploads: what is taken, what is not, and that nothing is written of the latter. And the pictures
//! that the service draws itself.

use std::path::Path;

use axum::{
    body::Body,
    http::{Method, header},
};
use seawall_testkit::backend::Backend;
use serde_json::json;

use crate::market::{Answer, Market, on_each_backend, request};

on_each_backend!(
    a_picture_is_kept_and_shown,
    what_is_no_picture_is_refused_and_not_written,
    forms_that_are_broken_are_refused,
    nobody_uploads_without_end,
    only_pictures_that_are_there_are_shown,
);

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0CRC1\
    \0\0\0\x02IDATxyCRC2\0\0\0\0IENDCRC3";
const GIF: &[u8] = b"GIF89a\x01\0\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02xy\0;";
const JPEG: &[u8] = b"\xff\xd8\xff\xda\0\x02\x01\xff\xd9";
const WEBP: &[u8] = b"RIFF\x0e\0\0\0WEBPVP8 \x02\0\0\0ab";
const BORDER: &str = "----border";

/// A form with one field.
fn form(field: &str, file_name: &str, bytes: &[u8]) -> Vec<u8> {
    let head = format!(
        "--{BORDER}\r\ncontent-disposition: form-data; name=\"{field}\"; \
         filename=\"{file_name}\"\r\ncontent-type: text/html\r\n\r\n"
    );
    [head.as_bytes(), bytes, format!("\r\n--{BORDER}--\r\n").as_bytes()].concat()
}

async fn post(market: &Market, token: &str, form: Vec<u8>) -> Answer {
    let mut request = request(Method::POST, "/upload/image", token, Body::from(form));
    let kind = format!("multipart/form-data; boundary={BORDER}").parse().expect("a header");
    request.headers_mut().insert(header::CONTENT_TYPE, kind);
    market.call(request).await
}

/// In notes and profiles.
async fn only_pictures_that_are_there_are_shown(backend: Backend) {
    let market = Market::on(backend).await;
    let user = market.log_in("10000000001").await;
    let kept = post(&market, &user, form("file", "a.png", PNG)).await.ok().text();
    let note = async |images: &[&str]| {
        let body = json!({ "title": "Seen", "content": images.join(" "), "images": images });
        market.send_json(Method::POST, "/blog", &user, &body).await
    };
    let icon = async |path: &str| {
        market.send_json(Method::PUT, "/user/me", &user, &json!({ "icon": path })).await
    };
    note(&[&kept, "/pictures/shop/1.svg", &kept]).await.ok();
    icon(&kept).await.ok();
    icon("").await.ok();
    let gone = "/uploads/01/0123456789abcdef0123456789abcdef.png";
    for path in ["/uploads/nonexistent.png", gone, "/pictures/none/1.svg", "/pictures/shop/x.svg"] {
        note(&[&kept, path]).await.refused(400, "BAD_IMAGE");
        icon(path).await.refused(400, "BAD_PROFILE");
    }
    market.shutdown().await;
}

/// Files below a folder.
fn files(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .map(|entry| entry.expect("an entry").path())
        .map(|path| if path.is_dir() { files(&path) } else { 1 })
        .sum()
}

async fn a_picture_is_kept_and_shown(backend: Backend) {
    let market = Market::on(backend).await;
    post(&market, "", form("file", "a.png", PNG)).await.refused(401, "NOT_LOGGED_IN");
    let user = market.log_in("10000000001").await;
    let kinds =
        [(PNG, "image/png"), (GIF, "image/gif"), (JPEG, "image/jpeg"), (WEBP, "image/webp")];
    let hostile = ["../../../etc/passwd", "a.html", "", "C:\\con.svg"];
    for ((bytes, kind), name) in kinds.into_iter().zip(hostile) {
        let path = post(&market, &user, form("file", name, bytes)).await.ok().text();
        let ending = path.rsplit('.').next().expect("an ending");
        assert!(kind.ends_with(ending) || (kind, ending) == ("image/jpeg", "jpg"), "{path}");
        let shown = market.get(&path, "").await;
        assert_eq!(shown.status, 200, "{path}");
        assert_eq!(shown.headers[header::CONTENT_TYPE], kind);
        assert_eq!(shown.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert!(shown.headers[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        assert_eq!(shown.headers[header::CONTENT_LENGTH], bytes.len().to_string().as_str());
    }
    assert_eq!(files(&market.data().join("uploads")), 4);
    let digits = "0123456789abcdef0123456789abcdef";
    for path in [
        format!("/uploads/01/{digits}.png"),
        "/uploads/..%2f..%2f/instance".to_owned(),
        "/uploads/%2e%2e/instance".to_owned(),
        "/uploads/..%2f/instance".to_owned(),
        format!("/uploads/01/..%2f01%2f{digits}.png"),
        "/uploads/01/%00.png".to_owned(),
        "/uploads/01/%ff.png".to_owned(),
    ] {
        market.get(&path, "").await.refused(404, "UNKNOWN_PICTURE");
    }
    market.shutdown().await;
}

async fn what_is_no_picture_is_refused_and_not_written(backend: Backend) {
    let market = Market::on(backend).await;
    let user = market.log_in("10000000001").await;
    let svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>";
    let polyglot = [PNG, b"<script>alert(1)</script>".as_slice()].concat();
    let archive = [JPEG, b"PK\x03\x04".as_slice()].concat();
    for bytes in [
        svg.as_slice(),
        &polyglot,
        &archive,
        &PNG[..PNG.len() - 1],
        &JPEG[..5],
        b"GIF89a=1/*<script>*/",
        b"<!doctype html>",
        b"",
    ] {
        post(&market, &user, form("file", "a.png", bytes)).await.refused(400, "NOT_A_PICTURE");
    }
    // A picture of more than 5 MB, and a body that nobody reads to its end.
    let chunk = [b"\0\x60\0\0tEXt".as_slice(), &vec![b'x'; 0x60_0000], b"CRC4"].concat();
    let large = [&PNG[..33], &chunk, &PNG[33..]].concat();
    post(&market, &user, form("file", "a.png", &large)).await.refused(413, "TOO_LARGE");
    assert_eq!(files(&market.data().join("uploads")), 0);
    let room = 5 * 1024 * 1024 - PNG.len() - 12;
    let length = u32::try_from(room).expect("it fits").to_be_bytes();
    let chunk = [length.as_slice(), b"tEXt", &vec![b'x'; room], b"CRC4"].concat();
    let largest = [&PNG[..33], &chunk, &PNG[33..]].concat();
    post(&market, &user, form("file", "a.png", &largest)).await.ok();
    market.shutdown().await;
}

async fn forms_that_are_broken_are_refused(backend: Backend) {
    let market = Market::on(backend).await;
    let user = market.log_in("10000000001").await;
    let whole = form("file", "a.png", PNG);
    let head = format!("--{BORDER}\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n");
    let twice = [head.as_bytes(), PNG, b"\r\n".as_slice(), &whole].concat();
    let many = format!("--{BORDER}\r\ncontent-disposition: form-data; name=\"x\"\r\n\r\n\r\n");
    let many = [many.repeat(17).as_bytes(), &whole].concat();
    for broken in [
        form("picture", "a.png", PNG),
        whole[..whole.len() - 8].to_vec(),
        whole[..whole.len() / 2].to_vec(),
        twice,
        many,
        Vec::new(),
        b"nonsense".to_vec(),
    ] {
        post(&market, &user, broken).await.refused(400, "BAD_BODY");
    }
    let plain = request(Method::POST, "/upload/image", &user, Body::from(PNG));
    market.call(plain).await.refused(400, "BAD_BODY");
    assert_eq!(files(&market.data().join("uploads")), 0);
    market.shutdown().await;
}

async fn nobody_uploads_without_end(backend: Backend) {
    let market = Market::on(backend).await;
    let user = market.log_in("10000000001").await;
    for _ in 0..60 {
        post(&market, &user, form("file", "a.png", b"no")).await.refused(400, "NOT_A_PICTURE");
    }
    let refused = post(&market, &user, form("file", "a.png", PNG)).await;
    refused.refused(429, "LIMITED");
    assert!(refused.headers.contains_key(header::RETRY_AFTER));
    let other = market.log_in("10000000002").await;
    post(&market, &other, form("file", "a.png", PNG)).await.ok();
    market.shutdown().await;
}

#[tokio::test]
async fn pictures_of_the_demo_are_drawn() {
    let market = Market::on(Backend::Embedded).await;
    let shop = market.get("/shop/7", "").await.ok().body;
    let images = shop["data"]["images"].as_str().expect("text").to_owned();
    let paths = images.split(',').chain([
        "/pictures/user/1.svg",
        "/pictures/goods/1.svg",
        "/pictures/note/1.svg",
        "/pictures/type/1.svg",
    ]);
    for path in paths {
        let picture = market.get(path, "").await;
        assert_eq!(picture.status, 200, "{path}");
        assert_eq!(picture.headers[header::CONTENT_TYPE], "image/svg+xml");
        assert!(picture.headers[header::CACHE_CONTROL].to_str().unwrap().contains("max-age"));
        assert!(picture.body.as_str().expect("text").starts_with("<svg "));
    }
    for path in [
        "/pictures/shop/x.svg",
        "/pictures/shop/1.png",
        "/pictures/ship/1.svg",
        "/pictures/shop/%ff.svg",
        "/pictures/shop/-1.svg",
    ] {
        market.get(path, "").await.refused(404, "UNKNOWN_PICTURE");
    }
    market.shutdown().await;
}
