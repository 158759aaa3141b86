//! Stand-ins for handlers that are not built yet.

/// Defines handlers that refuse.
macro_rules! stubs {
    ($($name:ident),* $(,)?) => {$(
        pub(super) fn $name(
            _: &mut crate::ctx::Ctx<'_>,
            _: &[&[u8]],
            _: &mut crate::resp::Reply,
        ) -> crate::error::Done {
            Err(crate::error::Error::fixed("ERR not built yet"))
        }
    )*};
}

pub(super) use stubs;
