//! Codecs: the built-in ones, one of a user's own, and what becomes of bytes that cannot be read.

use std::io;

use seawall::{
    Seawall,
    cache::{Cache, Codec, CodecError, Freshness, Json, MessagePack, RemoteState, Source},
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    without sentinel:
    the_built_in_codecs_read_each_other
    a_type_that_serde_does_not_know_has_its_own_codec
    bytes_that_a_codec_refuses_are_a_miss
    a_codec_that_panics_is_one_that_refuses
}

/// A type without serde's traits.
#[derive(Debug, PartialEq)]
struct Celsius(f32);

/// Writes four bytes, and refuses to read what is below absolute zero.
struct Floats {
    id: u8,
}

impl Codec<Celsius> for Floats {
    fn id(&self) -> u8 {
        self.id
    }

    fn name(&self) -> &'static str {
        "floats"
    }

    fn encode(&self, value: &Celsius) -> Result<Vec<u8>, CodecError> {
        if value.0.is_nan() {
            return Err("not a temperature".into());
        }
        Ok(value.0.to_be_bytes().to_vec())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Celsius, CodecError> {
        let value = f32::from_be_bytes(bytes.try_into()?);
        if value < -273.15 { Err("too cold".into()) } else { Ok(Celsius(value)) }
    }
}

/// Panics at values from 1,000 on: when it writes them, or when it reads them.
struct Panics {
    when_written: bool,
}

impl Codec<u64> for Panics {
    fn id(&self) -> u8 {
        20
    }

    fn name(&self) -> &'static str {
        "panics"
    }

    fn encode(&self, value: &u64) -> Result<Vec<u8>, CodecError> {
        assert!(*value < 1_000 || !self.when_written, "too large to write");
        Ok(value.to_be_bytes().to_vec())
    }

    fn decode(&self, bytes: &[u8]) -> Result<u64, CodecError> {
        let value = u64::from_be_bytes(bytes.try_into()?);
        assert!(value < 1_000, "too large to read");
        Ok(value)
    }
}

fn weather(seawall: &Seawall) -> Cache<String, Celsius> {
    seawall.cache("weather").codec(Floats { id: 63 }).build().expect("a good id")
}

async fn the_built_in_codecs_read_each_other(setup: Setup) {
    let seawall = setup.connect().await;
    let builder = || seawall.cache::<u64, Vec<u64>>("both").local_max_bytes(0);
    let json = builder().codec(Json).build().expect("options agree");
    let pack = builder().codec(MessagePack).build().expect("options agree");
    for (id, count) in [(1, 3), (2, 5_000)] {
        let list: Vec<u64> = vec![7; count];
        json.put(&id, &list).await.expect("stored");
        let read = pack.get(&id).await.expect("answered").expect("there");
        assert_eq!((read.source, read.value.as_deref()), (Source::Remote, Some(&list)));
        pack.put(&id, &list).await.expect("stored");
        let read = json.get(&id).await.expect("answered").expect("there");
        assert_eq!((read.source, read.value.as_deref()), (Source::Remote, Some(&list)));
    }
    seawall.shutdown().await;
}

async fn a_type_that_serde_does_not_know_has_its_own_codec(setup: Setup) {
    let (one, other) = (setup.connect().await, setup.connect().await);
    let (here, there) = (weather(&one), weather(&other));
    let load = || async { io::Result::Ok(Celsius(21.5)) };
    here.get_or_load("Lisbon", load).await.expect("loaded");
    let read = there.get("Lisbon").await.expect("answered").expect("there");
    assert_eq!((read.source, read.value.as_deref()), (Source::Remote, Some(&Celsius(21.5))));
    let RemoteState::Entry(entry) = there.explain("Lisbon").await.expect("answered").remote else {
        panic!("it is there");
    };
    assert_eq!(entry.codec, "floats");
    for id in [0, 3, 15, 64, 255] {
        let built = one.cache::<String, Celsius>("weather").codec(Floats { id }).build();
        let error = built.expect_err("no number for a format");
        assert!(error.to_string().contains("the id of its codec"), "{error}");
    }
    other.shutdown().await;
    one.shutdown().await;
}

async fn bytes_that_a_codec_refuses_are_a_miss(setup: Setup) {
    let seawall = setup.connect().await;
    let cache = weather(&seawall);
    cache.put("Moon", &Celsius(-300.0)).await.expect("stored");
    let read = cache.get_as(Freshness::Strong, "Moon").await.expect("answered");
    assert!(read.is_none(), "it cannot be read");
    let load = || async { io::Result::Ok(Celsius(-20.0)) };
    let read = cache.get_or_load_as(Freshness::Strong, "Moon", load).await.expect("loaded");
    assert_eq!(read.value.as_deref(), Some(&Celsius(-20.0)));
    let error = cache.put("Sun", &Celsius(f32::NAN)).await.expect_err("it cannot be written");
    assert!(error.to_string().contains("written as floats: not a temperature"), "{error}");
    let load = || async { io::Result::Ok(Celsius(f32::NAN)) };
    let read = cache.get_or_load("Sun", load).await.expect("loaded, and not stored");
    assert_eq!(read.source, Source::Loaded);
    assert!(cache.get_as(Freshness::Strong, "Sun").await.expect("answered").is_none());
    seawall.shutdown().await;
}

async fn a_codec_that_panics_is_one_that_refuses(setup: Setup) {
    let seawall = setup.connect().await;
    let build = |when_written| -> Cache<u64, u64> {
        let builder = seawall.cache("panics").local_max_bytes(0);
        builder.codec(Panics { when_written }).build().expect("options agree")
    };
    let (writes, reads) = (build(true), build(false));
    let error = writes.put(&1, &1_000).await.expect_err("it cannot be written");
    assert!(error.to_string().contains("too large to write"), "{error}");
    let read = writes.get_or_load(&1, || async { io::Result::Ok(1_000) }).await;
    assert_eq!(read.expect("loaded, and not stored").source, Source::Loaded);
    reads.put(&2, &1_000).await.expect("stored");
    assert!(reads.get(&2).await.expect("answered").is_none(), "a miss");
    let many = reads.get_many(&[2], |keys: Vec<u64>| async move {
        io::Result::Ok(keys.into_iter().map(|key| (key, 7)).collect())
    });
    let read = many.await.remove(0).expect("loaded");
    assert_eq!((read.source, read.value.as_deref()), (Source::Loaded, Some(&7)));
    assert_eq!(
        reads.get(&2).await.expect("answered").expect("replaced").value.as_deref(),
        Some(&7)
    );
    seawall.shutdown().await;
}
