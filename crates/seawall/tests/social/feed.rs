//! The feed is scrolled while it grows: nothing twice, nothing left out, on every backend.

use std::{
    collections::{BTreeSet, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use seawall::{
    Seawall,
    social::{Inbox, Post, Scroll},
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    the_feed_neither_repeats_nor_skips_while_items_arrive
    posts_are_pushed_pulled_merged_and_taken_out
}

const READER: u64 = 7;
/// Posts that are there before the reader begins: many of them share a time.
const POSTS: u64 = 60;
/// More pages than there can be.
const MOST_PAGES: usize = 400;

fn post(item: u64, time: i64) -> Post<u64> {
    Post { author: item % 3, item, time }
}

/// What is there when the reader begins: 60 posts with the times 100, 101 and 102.
async fn fill(feed: &Inbox<u64>) -> Vec<Post<u64>> {
    let posts: Vec<_> = (0..POSTS).map(|item| post(item, 100 + (item / 25) as i64)).collect();
    for post in &posts {
        assert!(feed.push(post, &[READER]).await.expect("valid").missed.is_empty());
    }
    posts
}

/// Every post that was there is seen, none twice.
fn judge(there: &[Post<u64>], seen: &[Post<u64>]) -> Result<(), String> {
    let mut once = HashSet::new();
    if let Some(twice) = seen.iter().find(|post| !once.insert(post.item)) {
        return Err(format!("{twice:?} came twice"));
    }
    match there.iter().find(|post| !once.contains(&post.item)) {
        Some(skipped) => Err(format!("{skipped:?} was left out")),
        None => Ok(()),
    }
}

/// Reads to the end by cursors; `between` runs after each page.
async fn by_cursor(feed: &Inbox<u64>, size: usize) -> Result<Vec<Post<u64>>, String> {
    let inbox = feed.of(&READER).expect("valid");
    let (mut seen, mut after) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let page = inbox.page(after.as_ref(), size).await.expect("answered");
        seen.extend(page.posts);
        // As a client would: by its text.
        after = page.next.map(|next| next.to_string().parse().expect("our own text"));
        if after.is_none() {
            return Ok(seen);
        }
        tokio::task::yield_now().await;
    }
    Err("it never ends".into())
}

/// Reads to the end by score and offset.
async fn by_offset(feed: &Inbox<u64>, size: usize) -> Result<Vec<Post<u64>>, String> {
    let inbox = feed.of(&READER).expect("valid");
    let (mut seen, mut from) = (Vec::new(), Scroll::from(1_000));
    for _ in 0..MOST_PAGES {
        let page = inbox.scroll(from, size).await.expect("answered");
        if page.posts.is_empty() {
            return Ok(seen);
        }
        seen.extend(page.posts);
        from = page.next;
    }
    Err("it never ends".into())
}

/// Pushes posts with these times until it is told to stop.
fn arrivals(
    feed: Inbox<u64>,
    times: &'static [i64],
    stop: &Arc<AtomicBool>,
) -> tokio::task::JoinHandle<usize> {
    let stop = Arc::clone(stop);
    tokio::spawn(async move {
        let mut pushed = 0;
        while !stop.load(Ordering::SeqCst) && pushed < 400 {
            let time = times[pushed % times.len()];
            // Around the bytes of those that are there, on both sides.
            let item = 1_000 + (pushed as u64 * 7_919) % 100_000;
            let _ = feed.push(&post(item, time), &[READER]).await.expect("valid");
            pushed += 1;
        }
        pushed
    })
}

async fn the_feed_neither_repeats_nor_skips_while_items_arrive(setup: Setup) {
    let (reader, writer) = (setup.connect().await, setup.connect().await);
    for size in [1, 3, 10, 40] {
        let name = format!("cursor{size}");
        let feed = |seawall: &Seawall| seawall.inbox::<u64>(name.as_str());
        let there = fill(&feed(&reader)).await;
        let stop = Arc::new(AtomicBool::new(false));
        // Newer ones, older ones, and ones of exactly the times that are read.
        let arriving = arrivals(feed(&writer), &[102, 101, 200, 100, 50, 101], &stop);
        let seen = by_cursor(&feed(&reader), size).await.expect("it ends");
        stop.store(true, Ordering::SeqCst);
        arriving.await.expect("no panic");
        judge(&there, &seen).expect("by cursor");
        let order: Vec<_> = seen.iter().map(|post| post.time).collect();
        assert!(order.is_sorted_by(|a, b| a >= b), "{order:?}");

        let name = format!("offset{size}");
        let feed = |seawall: &Seawall| seawall.inbox::<u64>(name.as_str());
        let there = fill(&feed(&reader)).await;
        let stop = Arc::new(AtomicBool::new(false));
        // The documented form bears what is newer than where one began.
        let arriving = arrivals(feed(&writer), &[2_000, 3_000], &stop);
        let seen = by_offset(&feed(&reader), size).await.expect("it ends");
        stop.store(true, Ordering::SeqCst);
        arriving.await.expect("no panic");
        judge(&there, &seen).expect("by offset");
    }
    writer.shutdown().await;
    reader.shutdown().await;
}

/// The bug of the documents: a page on which all posts share one time is read again and again.
#[tokio::test]
async fn a_whole_page_of_one_score_is_not_repeated() {
    let seawall = Seawall::connect("embedded:").await.expect("it starts");
    let feed = seawall.inbox::<u64>("feed");
    for item in 0..10 {
        let _ = feed.push(&post(item, 500), &[READER]).await.expect("valid");
    }
    let inbox = feed.of(&READER).expect("valid");
    let mut from = Scroll::from(500);
    let mut offsets = Vec::new();
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        let page = inbox.scroll(from, 3).await.expect("answered");
        seen.extend(page.posts.iter().map(|post| post.item));
        offsets.push(page.next.offset);
        from = page.next;
    }
    assert_eq!((offsets, seen.len()), (vec![3, 6, 9, 10], 10));
    let past = inbox.scroll(from, 3).await.expect("answered");
    assert_eq!((past.posts.len(), past.next), (0, from));
    // What a client makes up does no harm.
    let wild = Scroll { max: 500, offset: u64::MAX };
    assert!(inbox.scroll(wild, 3).await.expect("answered").posts.is_empty());
    assert!(inbox.scroll(Scroll::from(i64::MAX), 3).await.is_err());
    seawall.shutdown().await;
}

async fn posts_are_pushed_pulled_merged_and_taken_out(setup: Setup) {
    let seawall = setup.connect().await;
    let feed = seawall.inbox::<u64>("feed").max_kept(50).expect("valid");
    let outbox = seawall.inbox::<u64>("outbox");
    // To 1,200 fans in all slots.
    let fans: Vec<u64> = (0..1_200).collect();
    let done = feed.push(&post(1, 10), &fans).await.expect("valid");
    assert_eq!((done.reached, done.missed.len()), (1_200, 0));
    for fan in [0, 599, 1_199] {
        assert_eq!(feed.of(&fan).expect("valid").count().await.expect("answered"), 1);
    }
    let inbox = feed.of(&READER).expect("valid");
    for item in 2..=80 {
        let _ = feed.push(&post(item, 10 * item as i64), &[READER]).await.expect("valid");
    }
    assert_eq!(inbox.count().await.expect("answered"), 50, "kept short");
    assert_eq!(inbox.count_since(790).await.expect("answered"), 1);

    // Authors with many fans have lists of their own, which are pulled.
    for author in [900, 901] {
        for item in 0..30 {
            let post = Post { author, item: author * 100 + item, time: 505 + 10 * item as i64 };
            let _ = outbox.push(&post, &[author]).await.expect("valid");
        }
    }
    let pulled = [outbox.of(&900).expect("valid"), outbox.of(&901).expect("valid")];
    let (mut seen, mut after) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let page = inbox.page_with(&pulled, after.as_ref(), 7).await.expect("answered");
        seen.extend(page.posts);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 50 + 60);
    assert!(seen.is_sorted_by(|a, b| a.time >= b.time));
    assert_eq!(seen.iter().map(|post| post.item).collect::<HashSet<_>>().len(), 110);

    // Unfollowed: all of that author; deleted: that post.
    let of_one = seen.iter().filter(|post| post.author == 1 && post.item <= 80).count() as u64;
    assert_eq!(inbox.remove_author(&1).await.expect("answered"), of_one);
    assert_eq!(inbox.remove_author(&1).await.expect("answered"), 0);
    let gone = post(80, 800);
    assert_eq!(feed.withdraw(&gone, &[READER]).await.expect("valid").reached, 1);
    let left = inbox.page(None, 100).await.expect("answered").posts;
    assert_eq!(left.len() as u64, 50 - of_one - 1);
    assert!(left.iter().all(|post| post.author != 1 && post.item != 80));
    inbox.clear().await.expect("answered");
    assert_eq!(inbox.page(None, 5).await.expect("answered").next, None);
    seawall.shutdown().await;
}
