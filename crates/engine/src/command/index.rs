//! Finds the command of a request by its first words.
//!
//! Names are looked up by hash of their lower-case form; every command and subcommand has a number,
//! by which statistics are kept.

use hashbrown::HashTable;

use super::spec::Command;
use super::table::{Group, TABLE};
use crate::error::{Error, printable};

/// A command of the table with its number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandRef {
    pub(crate) spec: &'static Command,
    pub(crate) id: u16,
}

impl std::ops::Deref for CommandRef {
    type Target = Command;

    fn deref(&self) -> &Command {
        self.spec
    }
}

/// A command as it stands in the numbered list.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) spec: &'static Command,
    /// `config|get`.
    pub(crate) full_name: &'static str,
    pub(crate) group: Group,
    /// Number of the command this is a part of, or its own.
    pub(crate) parent: u16,
}

/// All commands, numbered, and the way to find them.
#[derive(Debug)]
pub(crate) struct Index {
    list: Vec<Listed>,
    by_name: HashTable<u16>,
}

const LONGEST_NAME: usize = 24;

impl Index {
    pub(crate) fn new() -> Index {
        let mut index = Index { list: Vec::new(), by_name: HashTable::new() };
        for (group, commands) in TABLE {
            for command in *commands {
                index.add(command, *group);
            }
        }
        index
    }

    fn add(&mut self, spec: &'static Command, group: Group) {
        let id = self.list.len() as u16;
        self.list.push(Listed { spec, full_name: spec.name, group, parent: id });
        self.by_name.insert_unique(hash(spec.name.as_bytes()), id, |id| {
            hash(self.list[*id as usize].spec.name.as_bytes())
        });
        for sub in spec.subs {
            // The table is static and small: its full names live as long as the program.
            let full_name = Box::leak(format!("{}|{}", spec.name, sub.name).into_boxed_str());
            self.list.push(Listed { spec: sub, full_name, group, parent: id });
        }
    }

    pub(crate) fn list(&self) -> &[Listed] {
        &self.list
    }

    pub(crate) fn listed(&self, command: CommandRef) -> &Listed {
        &self.list[command.id as usize]
    }

    /// A command by its name alone, in any case.
    #[inline]
    pub(crate) fn by_name(&self, name: &[u8]) -> Option<CommandRef> {
        if name.len() > LONGEST_NAME {
            return None;
        }
        let mut folded = [0; LONGEST_NAME];
        let folded = &mut folded[..name.len()];
        folded.copy_from_slice(name);
        folded.make_ascii_lowercase();
        let list = &self.list;
        let id = *self
            .by_name
            .find(hash(folded), |id| list[*id as usize].spec.name.as_bytes() == folded)?;
        Some(CommandRef { spec: list[id as usize].spec, id })
    }

    /// A command by name and, for containers, subcommand name.
    pub(crate) fn by_full_name(&self, name: &[u8], sub: Option<&[u8]>) -> Option<CommandRef> {
        let command = self.by_name(name)?;
        match sub {
            None => Some(command),
            Some(sub) => self.sub(command, sub),
        }
    }

    fn sub(&self, command: CommandRef, name: &[u8]) -> Option<CommandRef> {
        let at = command.subs.iter().position(|s| s.name.as_bytes().eq_ignore_ascii_case(name))?;
        Some(CommandRef { spec: &command.spec.subs[at], id: command.id + 1 + at as u16 })
    }

    /// The command of a request, or Redis' refusal.
    #[inline]
    pub(crate) fn resolve(&self, args: &[&[u8]]) -> Result<CommandRef, Error> {
        let Some(command) = self.by_name(args[0]) else { return Err(unknown(args)) };
        if command.subs.is_empty() || args.len() < 2 {
            return self.check_arity(command, args);
        }
        let Some(sub) = self.sub(command, args[1]) else {
            return Err(Error::new(format!(
                "ERR unknown subcommand '{}'. Try {} HELP.",
                printable(args[1], 128),
                command.name.to_ascii_uppercase(),
            )));
        };
        self.check_arity(sub, args)
    }

    #[inline]
    fn check_arity(&self, command: CommandRef, args: &[&[u8]]) -> Result<CommandRef, Error> {
        if command.accepts(args.len()) {
            Ok(command)
        } else {
            Err(Error::arity(self.listed(command).full_name))
        }
    }
}

fn unknown(args: &[&[u8]]) -> Error {
    const SHOWN: usize = 128;
    let mut with = String::new();
    for arg in &args[1..] {
        // One character stands for one byte of the request.
        let used = with.chars().count();
        if used >= SHOWN {
            break;
        }
        with.push_str(&format!("'{}' ", printable(arg, SHOWN - used)));
    }
    Error::new(format!(
        "ERR unknown command '{}', with args beginning with: {with}",
        printable(args[0], SHOWN)
    ))
}

fn hash(name: &[u8]) -> u64 {
    // FNV-1a: names are short and the table is fixed, so no seed is needed.
    name.iter()
        .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}
