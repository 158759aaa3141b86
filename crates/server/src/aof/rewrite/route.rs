//! Processes the operations that clients make while a rewrite runs.
//!
//! They are taken one by one, in order, and the file is correct after each of them: it holds the
//! keys in front of the cursor, except those aside.

use std::collections::{HashMap, HashSet, VecDeque};

use seawall_engine::effects::{Effects, Operation};
use seawall_engine::{Cursor, Part, Reach, Touch};

use super::DumpSource;

/// Tracks which keys the file holds.
#[derive(Debug)]
pub(super) struct Held {
    /// Every key in front of it is dumped; `None` means all are.
    pub(super) cursor: Option<Cursor>,
    /// Keys in front of the cursor that are not dumped; the first may be dumped in part.
    aside: VecDeque<Part>,
    /// The same keys, by database.
    names: HashMap<u32, HashSet<Box<[u8]>>>,
}

impl Held {
    pub(super) fn nothing() -> Self {
        Self { cursor: Some(Cursor::START), aside: VecDeque::new(), names: HashMap::new() }
    }

    /// Returns `true` if nothing is left to dump.
    pub(super) fn is_all(&self) -> bool {
        self.cursor.is_none() && self.aside.is_empty()
    }

    /// Returns `true` if nothing is dumped yet.
    pub(super) fn is_nothing(&self) -> bool {
        self.cursor == Some(Cursor::START)
    }

    pub(super) fn put_aside(&mut self, part: Part) {
        if self.names.entry(part.db).or_default().insert(part.key.clone()) {
            self.aside.push_back(part);
        }
    }

    /// Returns the key aside that must be dumped next.
    pub(super) fn next_aside(&mut self) -> Option<&mut Part> {
        self.aside.front_mut()
    }

    /// Removes that key from those aside: it is dumped now.
    pub(super) fn take_back(&mut self) {
        if let Some(part) = self.aside.pop_front()
            && let Some(names) = self.names.get_mut(&part.db)
        {
            names.remove(&part.key);
        }
    }

    /// Returns the key that is partly dumped.
    fn begun(&mut self) -> Option<&mut Part> {
        self.aside.front_mut().filter(|part| part.done > 0)
    }

    fn is_dumped(&self, touch: &Touch<'_>, engine: &dyn DumpSource) -> bool {
        let passed = self.cursor.is_none_or(|cursor| engine.place(touch.db, touch.key) < cursor);
        passed && !self.names.get(&touch.db).is_some_and(|names| names.contains(touch.key))
    }

    /// Translates an operation. Returns `false` if the rewrite must start over.
    pub(super) fn route(
        &mut self,
        operation: &Operation<'_>,
        engine: &dyn DumpSource,
        out: &mut Effects,
    ) -> bool {
        if self.is_all() {
            out.copy(operation);
            return true;
        }
        let mut touches = Vec::new();
        match engine.reach(operation, &mut touches) {
            Reach::Shuffles => return false,
            Reach::Everywhere => {
                out.copy(operation);
                if let Some(part) = self.begun() {
                    part.restart(out);
                }
                return true;
            }
            Reach::Keys => {}
        }
        if touches.iter().all(|touch| self.is_dumped(touch, engine)) {
            out.copy(operation);
            return true;
        }
        for touch in touches.iter().filter(|touch| touch.written) {
            if self.is_dumped(touch, engine) {
                // The operation depends on data that the file does not hold: the key is dumped
                // again later.
                out.push(touch.db, &[b"DEL", touch.key]);
                self.put_aside(Part::new(touch.db, touch.key));
            } else if let Some(part) = self.begun()
                && part.db == touch.db
                && *part.key == *touch.key
                && !engine.follow(part, operation, out)
            {
                part.restart(out);
            }
        }
        true
    }

    /// Brings the dumped part of a key up to date with the operations on it.
    pub(super) fn catch_up(&mut self, engine: &dyn DumpSource, out: &mut Effects) {
        if let Some(part) = self.begun()
            && !engine.catch_up(part, out)
        {
            part.restart(out);
        }
    }
}
