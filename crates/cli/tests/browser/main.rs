//! The market's page in a real browser: each test starts the binary with the demo town and plays one
//! scenario of `scenarios/` in headless Chromium.
//!
//! A scenario is a Node module that does what a person does and says what that person must see; `kit/`
//! has what they share. Beside its own steps every scenario fails on an error in the console, on a
//! request to another host and on a refusal that it has not announced. The watchers of all of this are
//! themselves tested, by bugs that are planted (`watchers.mjs`).

mod stage;

use seawall_testkit::ServerBuilder;
use stage::Stage;

/// Plays a scenario with everything inside.
fn play(scenario: &str, args: &[&str]) {
    Stage::start(&[]).play(scenario, args, |request| panic!("nobody can do {request:?}"));
}

#[test]
fn somebody_buys_while_two_hundred_others_buy() {
    play("buy", &[]);
}

#[test]
fn a_note_is_written_liked_discussed_and_deleted() {
    play("note", &[]);
}

#[test]
fn the_following_feed_scrolls_without_repeats_and_tells_of_new_posts() {
    play("feed", &[]);
}

#[test]
fn signing_in_fills_the_calendar_and_the_streak() {
    play("signin", &[]);
}

#[test]
fn a_cart_becomes_an_order() {
    play("cart", &[]);
}

#[test]
fn the_language_is_switched_and_remembered() {
    play("language", &[]);
}

#[test]
fn everything_is_reached_by_keyboard() {
    play("keyboard", &[]);
}

#[test]
fn the_first_view_is_small_and_its_files_are_kept() {
    play("first-view", &[]);
}

#[test]
fn without_a_network_the_page_says_so_and_goes_on_afterwards() {
    play("offline", &[]);
}

#[test]
fn without_redis_the_page_says_what_can_be_done_and_goes_on_afterwards() {
    let log = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut redis = ServerBuilder::redis().args(log).start().expect("redis-server");
    let stage = Stage::start(&["--redis", &redis.url()]);
    stage.play("outage", &[], |request| match request {
        "redis away" => redis.kill().expect("it ends"),
        "redis back" => redis.restart().expect("it starts again"),
        _ => panic!("nobody can do {request:?}"),
    });
}

#[test]
fn every_screen_is_accessible_on_a_phone() {
    play("screens", &["phone"]);
}

#[test]
fn every_screen_is_accessible_on_a_desktop() {
    play("screens", &["desktop"]);
}

#[test]
fn every_screen_is_accessible_in_chinese() {
    play("screens", &["phone", "zh"]);
}

#[test]
fn the_api_is_browsed_and_tried() {
    play("docs", &[]);
}

#[test]
fn the_watchers_see_what_is_planted() {
    play("watchers", &[]);
}
