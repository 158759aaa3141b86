//! Derived keys and members: the same bytes as the tuples and fields that they stand for.

use std::{borrow::Cow, marker::PhantomData};

use seawall::{KeyPart, Member, cache::Cache};

use crate::world::cache;

#[derive(Debug, Clone, PartialEq, Eq, Hash, KeyPart)]
struct ItemKey {
    shop: u64,
    sku: String,
}

#[derive(Clone, KeyPart)]
struct Pair<A: KeyPart, B>(A, B)
where
    B: KeyPart;

#[derive(Clone, KeyPart)]
struct Borrowed<'a, const N: usize> {
    name: &'a str,
    digest: [u8; N],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, KeyPart, Member)]
struct Id<T>(u64, PhantomData<T>)
where
    T: Ord + std::hash::Hash + Copy + Send + Sync + 'static;

#[derive(Clone, KeyPart)]
enum Page<T: KeyPart> {
    Home,
    #[key(rename = "i:tem")]
    Item(ItemKey),
    List {
        key: T,
        r#type: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Member)]
struct UserName {
    name: String,
}

fn same(one: &impl KeyPart, other: &impl KeyPart) {
    assert_eq!(one.to_key().unwrap(), other.to_key().unwrap());
}

#[test]
fn a_struct_is_written_as_the_tuple_of_its_fields() {
    let sku = "a:b%{c}";
    same(&ItemKey { shop: 7, sku: sku.to_owned() }, &(7, sku));
    same(&Pair("x", ItemKey { shop: 7, sku: sku.to_owned() }), &("x", (7, sku)));
    same(&Borrowed { name: "n", digest: *b"1:" }, &("n", "1:"));
    same(&Id::<u8>(42, PhantomData), &42);
    same(&("page", ItemKey { shop: 7, sku: sku.to_owned() }), &("page", 7, sku));
}

#[test]
fn a_variant_begins_with_its_name() {
    same(&Page::<u8>::Home, &"Home");
    same(&Page::<u8>::Item(ItemKey { shop: 7, sku: "s".to_owned() }), &("i:tem", 7, "s"));
    same(&Page::List { key: "all", r#type: true }, &("List", "all", true));
}

#[test]
fn a_newtype_is_the_member_that_its_field_is() {
    let id = Id::<u8>(42, PhantomData);
    assert_eq!(id.to_member().unwrap(), Cow::Borrowed(b"42"));
    assert_eq!(Id::<u8>::from_member(b"42").unwrap(), id);
    assert!(Id::<u8>::from_member(b"x").is_err());
    let user = UserName { name: "ann".to_owned() };
    assert_eq!(UserName::from_member(&user.to_member().unwrap()).unwrap(), user);
    assert!(UserName { name: String::new() }.to_member().is_err());
}

#[tokio::test]
async fn a_derived_key_names_the_entry_that_the_tuple_names() {
    let (seawall, items): (_, Cache<ItemKey, u32>) = cache().await;
    let pairs: Cache<(u64, String), u32> = seawall.cache("test").build().unwrap();
    let key = ItemKey { shop: 7, sku: "s".to_owned() };
    items.put(&key, &3).await.unwrap();
    let read = pairs.get(&(7, "s".to_owned())).await.unwrap();
    assert_eq!(read.and_then(|read| read.value).as_deref(), Some(&3));
    assert_eq!(items.entry_name(&key).unwrap(), pairs.entry_name(&(7, "s".to_owned())).unwrap());
    seawall.shutdown().await;
}
