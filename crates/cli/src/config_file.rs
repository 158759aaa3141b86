//! Reads configuration files in Redis' syntax: `name value` per line, `#` comments, quoted values.

/// One line of a configuration file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// 1-based line number.
    pub(crate) line: usize,
    pub(crate) name: String,
    /// The values, joined by single spaces.
    pub(crate) value: String,
}

/// Reads all settings of a file.
///
/// # Errors
/// A sentence that names the line and its mistake.
pub(crate) fn parse(text: &str) -> Result<Vec<Setting>, String> {
    let mut settings = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line_number = at + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words = split(line).map_err(|what| format!("line {line_number}: {what}"))?;
        let Some((name, values)) = words.split_first() else { continue };
        if values.is_empty() {
            return Err(format!("line {line_number}: the setting '{name}' has no value"));
        }
        settings.push(Setting {
            line: line_number,
            name: name.to_ascii_lowercase(),
            value: values.join(" "),
        });
    }
    Ok(settings)
}

/// Splits a line into words. Quotes keep spaces together; double quotes support escapes.
fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = line.chars().peekable();
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        let Some(&first) = rest.peek() else { return Ok(words) };
        let mut word = String::new();
        if first == '"' || first == '\'' {
            rest.next();
            loop {
                match rest.next() {
                    None => return Err("a quote is not closed".into()),
                    Some('\\') if first == '"' || rest.peek() == Some(&'\'') => {
                        word.push(unescape(&mut rest)?);
                    }
                    Some(c) if c == first => break,
                    Some(c) => word.push(c),
                }
            }
            if rest.peek().is_some_and(|c| !c.is_whitespace()) {
                return Err("a closing quote must be followed by a space".into());
            }
        } else {
            while let Some(c) = rest.next_if(|c| !c.is_whitespace()) {
                word.push(c);
            }
        }
        words.push(word);
    }
}

fn unescape(rest: &mut impl Iterator<Item = char>) -> Result<char, String> {
    Ok(match rest.next() {
        None => return Err("a quote is not closed".into()),
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('x') => {
            let digits: String = rest.take(2).collect();
            u8::from_str_radix(&digits, 16).map_err(|_| format!("'\\x{digits}' is no byte"))?.into()
        }
        Some(c) => c,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> (String, String) {
        let mut settings = parse(line).expect("the line is well formed");
        let setting = settings.pop().expect("the line has a setting");
        (setting.name, setting.value)
    }

    #[test]
    fn names_fold_case_and_values_keep_it() {
        assert_eq!(one("MaxMemory  100MB"), ("maxmemory".into(), "100MB".into()));
        assert_eq!(one("save 900 1"), ("save".into(), "900 1".into()));
        assert_eq!(one("save \"\""), ("save".into(), String::new()));
    }

    #[test]
    fn quotes_keep_spaces_and_escapes() {
        assert_eq!(one(r#"requirepass "a b\x41\"""#).1, "a bA\"");
        assert_eq!(one(r"requirepass 'it\'s'").1, "it's");
    }

    #[test]
    fn comments_and_empty_lines_are_skipped_and_lines_are_counted() {
        let settings = parse("# first\n\nport 1\n").expect("well formed");
        assert_eq!(settings, [Setting { line: 3, name: "port".into(), value: "1".into() }]);
    }

    #[test]
    fn mistakes_name_their_line() {
        assert_eq!(parse("port 1\nbind").unwrap_err(), "line 2: the setting 'bind' has no value");
        assert_eq!(parse("dir \"x").unwrap_err(), "line 1: a quote is not closed");
    }
}
