//! Per-connection state of capabilities: one value for each type.
//!
//! The handle knows no capability. A capability that needs state shared by all its parts on one
//! connection (the task that renews locks, the memory limit that caches share) requests it by type;
//! the first request creates it.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// Values by type.
#[derive(Default)]
pub(crate) struct Slots(Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Slots {
    /// Returns the value of type `T`; the first call creates it with `make`. `make` may itself
    /// request other slots.
    pub(crate) fn get_or_make<T: Send + Sync + 'static>(
        &self,
        make: impl FnOnce() -> Arc<T>,
    ) -> Arc<T> {
        let slot = {
            let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let empty = || Arc::new(OnceLock::<Arc<T>>::new()) as Arc<dyn Any + Send + Sync>;
            Arc::clone(slots.entry(TypeId::of::<T>()).or_insert_with(empty))
        };
        let slot = slot.downcast::<OnceLock<Arc<T>>>().expect("a slot holds what its key says");
        Arc::clone(slot.get_or_init(make))
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slots")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_one_value_however_often_it_is_asked_for() {
        let slots = Slots::default();
        let first = slots.get_or_make(|| Arc::new(7u32));
        let again = slots.get_or_make(|| Arc::new(8u32));
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(*slots.get_or_make(|| Arc::new("another type".to_owned())), "another type");
    }

    #[test]
    fn a_value_may_be_made_of_others() {
        let slots = Slots::default();
        let made = slots.get_or_make(|| Arc::new(u64::from(*slots.get_or_make(|| Arc::new(7u32)))));
        assert_eq!(*made, 7);
    }
}
