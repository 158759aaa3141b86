//! What the engine knows about scripts and libraries: data, no interpreter.
//!
//! Invariant: every function belongs to exactly one library; names of functions
//! are unique among all libraries.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::RegisteredFunction;
use super::job::ScriptJob;
use super::shebang::{self, ScriptFlags};

/// Hexadecimal SHA1 of a script.
pub(crate) type Sha = [u8; 40];

/// Names a library from the time it is loaded until it is deleted or replaced.
pub(crate) type LibraryId = u64;

/// The name of a script.
pub(crate) fn hex_sha1(source: &[u8]) -> Sha {
    let text = sha1_smol::Sha1::from(source).digest().to_string();
    text.into_bytes().try_into().expect("a SHA1 has forty hexadecimal digits")
}

/// A script that can be run.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) source: Arc<[u8]>,
    /// Where its code starts, behind a shebang.
    pub(crate) code_at: usize,
    /// What it promises; `None` without a shebang.
    pub(crate) flags: Option<ScriptFlags>,
}

impl Script {
    /// Reads the header of a script.
    pub(crate) fn read(source: &[u8]) -> Result<Script, Vec<u8>> {
        let header = shebang::script_header(source)?;
        Ok(Script { source: source.into(), code_at: header.code_at, flags: header.flags })
    }
}

/// A library of functions.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    pub(crate) id: LibraryId,
    pub(crate) source: Arc<[u8]>,
    /// Where its code starts, behind the shebang.
    pub(crate) code_at: usize,
    pub(crate) functions: Vec<RegisteredFunction>,
}

impl Library {
    /// One of its functions, in any case.
    pub(crate) fn function(&self, name: &[u8]) -> Option<&RegisteredFunction> {
        let exact = self.functions.iter().find(|function| function.name == name);
        let folded = |function: &&RegisteredFunction| function.name.eq_ignore_ascii_case(name);
        exact.or_else(|| self.functions.iter().find(folded))
    }
}

/// Scripts by their SHA1, libraries by name, and the job that the current
/// command has just made.
#[derive(Debug, Default)]
pub(crate) struct ScriptStore {
    /// How often all scripts were forgotten; an interpreter that is behind
    /// starts afresh.
    pub(crate) generation: u64,
    pub(crate) by_sha: HashMap<Sha, Script>,
    /// The same for libraries.
    pub(crate) library_generation: u64,
    pub(crate) libraries: BTreeMap<Vec<u8>, Library>,
    /// Names of the libraries by the names of their functions, in lower case: functions are found
    /// in any case, libraries are not.
    owners: HashMap<Vec<u8>, Vec<u8>>,
    next_library: LibraryId,
    /// Libraries that are gone but that an interpreter may still hold.
    retired: Vec<LibraryId>,
    pub(crate) pending: Option<Box<ScriptJob>>,
}

impl ScriptStore {
    /// Forgets all scripts.
    pub(crate) fn flush_scripts(&mut self) {
        self.by_sha.clear();
        self.generation += 1;
    }

    /// Forgets all libraries.
    pub(crate) fn flush_libraries(&mut self) {
        self.libraries.clear();
        self.owners.clear();
        self.retired.clear();
        self.library_generation += 1;
    }

    /// A number for a library that is about to be loaded.
    pub(crate) fn new_library_id(&mut self) -> LibraryId {
        self.next_library += 1;
        self.next_library
    }

    /// The library that has this function.
    pub(crate) fn library_of(&self, function: &[u8]) -> Option<&Library> {
        self.libraries.get(self.owners.get(&function.to_ascii_lowercase())?)
    }

    /// Whether a request runs a script or function whose flags say that it writes nothing.
    pub(crate) fn promises_no_writes(&self, command: &str, args: &[&[u8]]) -> bool {
        let flags = match (command, args.get(1)) {
            ("eval", Some(source)) => {
                shebang::script_header(source).ok().and_then(|header| header.flags)
            }
            ("evalsha", Some(sha)) => <Sha>::try_from(sha.to_ascii_lowercase())
                .ok()
                .and_then(|sha| self.by_sha.get(&sha)?.flags),
            ("fcall", Some(name)) => {
                self.library_of(name).and_then(|lib| lib.function(name)).map(|f| f.flags)
            }
            _ => None,
        };
        flags.is_some_and(|flags| flags.contains(ScriptFlags::NO_WRITES))
    }

    /// How many functions there are.
    pub(crate) fn function_count(&self) -> usize {
        self.owners.len()
    }

    /// Takes a library in, in place of one with the same name.
    ///
    /// # Errors
    /// The text of the refusal: another library has one of its functions.
    pub(crate) fn add_library(&mut self, name: &[u8], library: Library) -> Result<(), String> {
        let taken = library.functions.iter().find(|function| {
            let folded = function.name.to_ascii_lowercase();
            self.owners.get(&folded).is_some_and(|owner| owner != name)
        });
        if let Some(function) = taken {
            self.retired.push(library.id);
            let function = String::from_utf8_lossy(&function.name);
            return Err(format!("ERR Function {function} already exists"));
        }
        self.delete_library(name);
        for function in &library.functions {
            self.owners.insert(function.name.to_ascii_lowercase(), name.to_vec());
        }
        self.libraries.insert(name.to_vec(), library);
        Ok(())
    }

    /// Removes a library; says whether it was there.
    pub(crate) fn delete_library(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.libraries.remove(name) else { return false };
        self.owners.retain(|_, owner| owner != name);
        self.retired.push(library.id);
        true
    }

    /// Libraries that an interpreter may forget.
    pub(crate) fn take_retired(&mut self) -> Vec<LibraryId> {
        std::mem::take(&mut self.retired)
    }
}
