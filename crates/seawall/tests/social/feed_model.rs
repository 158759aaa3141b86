//! Every page, compared with a model, while posts arrive and leave at random.

use std::{cell::Cell, collections::BTreeSet};

use proptest::prelude::*;
use seawall::{
    social::{Cursor, Post},
    testing::TestServer,
};

#[derive(Debug, Clone)]
enum Step {
    Arrive { item: u64, time: i64 },
    Leave { item: u64, time: i64 },
    Page { size: usize },
    FromTheTop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u64..40, 0_i64..4).prop_map(|(item, time)| Step::Arrive { item, time }),
        1 => (0_u64..40, 0_i64..4).prop_map(|(item, time)| Step::Leave { item, time }),
        4 => (1_usize..5).prop_map(|size| Step::Page { size }),
        1 => Just(Step::FromTheTop),
    ];
    proptest::collection::vec(step, 1..80)
}

#[test]
fn pages_are_what_follows_the_cursor() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let test_server = runtime.block_on(TestServer::start()).expect("it starts");
    let feed = test_server.seawall().inbox::<u64>("model");
    let config = ProptestConfig { cases: 96, failure_persistence: None, ..Default::default() };
    let readers = Cell::new(0_u64);
    proptest!(config, |(steps in steps())| {
        readers.set(readers.get() + 1);
        let reader = readers.get();
        let inbox = feed.of(&reader).expect("valid");
        // (time, bytes), as a sorted set orders them.
        let mut model: BTreeSet<(i64, Vec<u8>)> = BTreeSet::new();
        let mut cursor: Option<Cursor> = None;
        runtime.block_on(async {
            for step in steps {
                match step {
                    Step::Arrive { item, time } => {
                        // A post has one time: that of its last arrival.
                        model.retain(|(_, bytes)| *bytes != member(item));
                        model.insert((time, member(item)));
                        let post = Post { author: item % 5, item, time };
                        let _ = feed.push(&post, &[reader]).await.expect("valid");
                    }
                    Step::Leave { item, time } => {
                        model.retain(|(_, bytes)| *bytes != member(item));
                        let post = Post { author: item % 5, item, time };
                        let _ = feed.withdraw(&post, &[reader]).await.expect("valid");
                    }
                    Step::FromTheTop => cursor = None,
                    Step::Page { size } => {
                        let page = inbox.page(cursor.as_ref(), size).await.expect("answered");
                        let place = cursor.as_ref().map(place);
                        let expected: Vec<_> = model
                            .iter()
                            .rev()
                            .filter(|entry| place.as_ref().is_none_or(|place| *entry < place))
                            .take(size)
                            .map(|(time, bytes)| (*time, bytes.clone()))
                            .collect();
                        let got: Vec<_> =
                            page.posts.iter().map(|post| (post.time, member(post.item))).collect();
                        assert_eq!(got, expected);
                        assert_eq!(page.next.is_some(), got.len() == size);
                        cursor = page.next;
                    }
                }
            }
        });
    });
    runtime.block_on(test_server.shutdown());
}

fn member(item: u64) -> Vec<u8> {
    format!("{}:{item}", item % 5).into_bytes()
}

/// A cursor's score and bytes, out of its text.
fn place(cursor: &Cursor) -> (i64, Vec<u8>) {
    let text = cursor.to_string();
    let (score, hex) = text.rsplit_once('-').expect("a dash");
    let bytes = hex.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).expect("hexadecimal");
        u8::from_str_radix(pair, 16).expect("hexadecimal")
    });
    (score.parse().expect("a number"), bytes.collect())
}
