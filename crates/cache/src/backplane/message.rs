//! The messages between local tiers: which keys, tags or namespaces are no longer right.
//!
//! Messages of one namespace are numbered by Redis, so that a subscriber (`subscriber.rs`)
//! notices when it missed one.
//!
//! ```text
//! NUMBER ' ' 'k' (length:u32 key)*     these keys
//! NUMBER ' ' 't' tag                   this tag
//! NUMBER ' ' 'a'                       everything
//! ```

use seawall_client::sequence::numbered;

/// Returns a message's body about these keys.
pub(crate) fn about_keys<K: AsRef<[u8]>>(keys: &[K]) -> Vec<u8> {
    let mut body = vec![b'k'];
    for key in keys {
        let key = key.as_ref();
        body.extend_from_slice(&(key.len() as u32).to_be_bytes());
        body.extend_from_slice(key);
    }
    body
}

/// Returns a message's body about a tag.
pub(crate) fn about_tag(tag: &str) -> Vec<u8> {
    [b"t", tag.as_bytes()].concat()
}

/// Returns a message's body about the whole namespace.
pub(crate) fn about_all() -> Vec<u8> {
    b"a".to_vec()
}

/// Returns what local tiers remember of a tag.
pub(crate) fn tag_hash(tag: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(tag.as_bytes())
}

/// What a message is about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    Keys(Vec<&'a [u8]>),
    Tag(&'a str),
    All,
}

/// Splits a message into number and body. Returns `None` if no cache sent it.
pub(crate) fn parse(message: &[u8]) -> Option<(u64, Body<'_>)> {
    let (number, body) = numbered(message)?;
    let (kind, mut rest) = body.split_first()?;
    let body = match kind {
        b'k' => {
            let mut keys = Vec::new();
            while !rest.is_empty() {
                let (length, tail) = rest.split_first_chunk::<4>()?;
                let (key, tail) = tail.split_at_checked(u32::from_be_bytes(*length) as usize)?;
                keys.push(key);
                rest = tail;
            }
            Body::Keys(keys)
        }
        b't' => Body::Tag(std::str::from_utf8(rest).ok()?),
        b'a' => Body::All,
        _ => return None,
    };
    Some((number, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let with_number = |body: Vec<u8>| [b"17 ".to_vec(), body].concat();
        let keys = with_number(about_keys(&[&b"a b"[..], b"", b"c"]));
        assert_eq!(parse(&keys), Some((17, Body::Keys(vec![b"a b", b"", b"c"]))));
        assert_eq!(parse(&with_number(about_tag("x y"))), Some((17, Body::Tag("x y"))));
        assert_eq!(parse(&with_number(about_all())), Some((17, Body::All)));
    }

    #[test]
    fn strange_messages_are_ignored() {
        for message in
            [&b""[..], b"1", b"x k", b"1 z", b"1 k\0\0\0\x09ab", b"99999999999999999999999 a"]
        {
            assert_eq!(parse(message), None, "{message:?}");
        }
    }
}
