//! The first line of a script or library: `#!lua name=lib flags=no-writes`.
//!
//! A script without such a line runs in compatibility mode: nothing is known
//! about what it does. With one, its flags say so before it runs. A library
//! must have one, with its name.

/// What a script or function promises or asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ScriptFlags(u8);

impl ScriptFlags {
    /// Writes nothing; may run where writes are refused.
    pub(crate) const NO_WRITES: ScriptFlags = ScriptFlags(1);
    /// May run, and write, when memory is above its limit.
    pub(crate) const ALLOW_OOM: ScriptFlags = ScriptFlags(2);
    /// May run on a replica that lost its master.
    pub(crate) const ALLOW_STALE: ScriptFlags = ScriptFlags(4);
    /// Must not run in cluster mode.
    pub(crate) const NO_CLUSTER: ScriptFlags = ScriptFlags(8);
    /// May use keys of several slots.
    pub(crate) const ALLOW_CROSS_SLOT: ScriptFlags = ScriptFlags(16);

    /// Names of all flags, in the order in which they are listed.
    pub(crate) const NAMES: [(&'static str, ScriptFlags); 5] = [
        ("no-writes", Self::NO_WRITES),
        ("allow-oom", Self::ALLOW_OOM),
        ("allow-stale", Self::ALLOW_STALE),
        ("no-cluster", Self::NO_CLUSTER),
        ("allow-cross-slot-keys", Self::ALLOW_CROSS_SLOT),
    ];

    /// Whether all flags of `other` are set.
    #[must_use]
    pub(crate) fn contains(self, other: ScriptFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Sets the flags of `other`.
    pub(crate) fn insert(&mut self, other: ScriptFlags) {
        self.0 |= other.0;
    }

    /// The names of the flags that are set.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(_, flag)| self.contains(*flag)).map(|(name, _)| name)
    }
}

/// What the first line of a script says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScriptHeader {
    /// `None` without a shebang: compatibility mode.
    pub(crate) flags: Option<ScriptFlags>,
    /// Where the code starts: at the end of the first line, so that the lines
    /// keep their numbers.
    pub(crate) code_at: usize,
}

/// Reads the header of a script of EVAL.
///
/// # Errors
///
/// The text of the error, without a code.
pub(crate) fn script_header(source: &[u8]) -> Result<ScriptHeader, Vec<u8>> {
    if !source.starts_with(b"#!") {
        return Ok(ScriptHeader { flags: None, code_at: 0 });
    }
    let Some(code_at) = memchr::memchr(b'\n', source) else {
        return Err(b"Invalid script shebang".to_vec());
    };
    let words = split_words(&source[..code_at]).unwrap_or_default();
    let Some((engine, options)) = words.split_first() else {
        return Err(b"Invalid engine in script shebang".to_vec());
    };
    if engine != b"#!lua" {
        return Err(concat(b"Unexpected engine in script shebang: ", engine));
    }
    let mut flags = ScriptFlags::default();
    for option in options {
        let Some(list) = option.strip_prefix(b"flags=") else {
            return Err(concat(b"Unknown lua shebang option: ", option));
        };
        if list.is_empty() {
            continue;
        }
        for name in list.split(|byte| *byte == b',') {
            match ScriptFlags::NAMES.iter().find(|(known, _)| known.as_bytes() == name) {
                Some((_, flag)) => flags.insert(*flag),
                None => return Err(concat(b"Unexpected flag in script shebang: ", name)),
            }
        }
    }
    Ok(ScriptHeader { flags: Some(flags), code_at })
}

/// What the first line of a library says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LibraryHeader {
    /// Name of the library.
    pub(crate) name: Vec<u8>,
    /// Name of the engine, as written.
    pub(crate) engine: Vec<u8>,
    /// Where the code starts: at the end of the first line.
    pub(crate) code_at: usize,
}

/// Reads and checks the header of a library.
///
/// # Errors
///
/// The text of the error, without a code.
pub(crate) fn library_header(source: &[u8]) -> Result<LibraryHeader, Vec<u8>> {
    if !source.starts_with(b"#!") {
        return Err(b"Missing library metadata".to_vec());
    }
    let code_at =
        memchr::memchr(b'\n', source).ok_or_else(|| b"Invalid library metadata".to_vec())?;
    let words = split_words(&source[..code_at]).unwrap_or_default();
    let Some((engine, options)) = words.split_first() else {
        return Err(b"Invalid library metadata".to_vec());
    };
    let mut name: Option<&[u8]> = None;
    for option in options {
        match option.split_at_checked(5) {
            Some((prefix, value)) if prefix.eq_ignore_ascii_case(b"name=") => {
                if name.replace(value).is_some() {
                    return Err(
                        b"Invalid metadata value, name argument was given multiple times".to_vec()
                    );
                }
            }
            _ => return Err(concat(b"Invalid metadata value given: ", option)),
        }
    }
    let name = name.ok_or_else(|| b"Library name was not given".to_vec())?.to_vec();
    if !is_valid_name(&name) {
        return Err(INVALID_NAME.to_vec());
    }
    let engine = engine[2..].to_vec();
    if !engine.eq_ignore_ascii_case(b"lua") {
        let mut text = concat(b"Engine '", &engine);
        text.extend_from_slice(b"' not found");
        return Err(text);
    }
    Ok(LibraryHeader { name, engine, code_at })
}

/// The complaint about the name of a library or function.
pub(crate) const INVALID_NAME: &[u8] = b"Library names can only contain letters, numbers, \
    or underscores(_) and must be at least one character long";

/// Whether a library or function may have this name.
pub(crate) fn is_valid_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

fn concat(text: &[u8], rest: &[u8]) -> Vec<u8> {
    [text, rest].concat()
}

/// Words of a line, with quotes as the configuration file has them; `None` if
/// a quote is not closed.
fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let mut word = Vec::new();
        let mut at = 0;
        while let Some(&byte) = rest.get(at) {
            if byte.is_ascii_whitespace() {
                break;
            }
            at += 1;
            if byte != b'"' && byte != b'\'' {
                word.push(byte);
                continue;
            }
            loop {
                let inner = *rest.get(at)?;
                at += 1;
                if inner == byte {
                    break;
                }
                if inner == b'\\' {
                    word.push(*rest.get(at)?);
                    at += 1;
                } else {
                    word.push(inner);
                }
            }
            if rest.get(at).is_some_and(|next| !next.is_ascii_whitespace()) {
                return None;
            }
        }
        words.push(word);
        rest = rest[at..].trim_ascii_start();
    }
    Some(words)
}
