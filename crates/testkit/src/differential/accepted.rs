//! The intended differences: read from `accepted.txt`, each with its reason.

/// One accepted difference.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    command: String,
    redis: String,
    ours: String,
    pub(super) reason: String,
}

impl Rule {
    fn parse(line: &str) -> Self {
        let parts: Vec<&str> = line.splitn(4, '|').map(str::trim).collect();
        let [command, redis, ours, reason] = parts.as_slice() else {
            panic!("accepted.txt: four parts, split by `|`, in: {line}")
        };
        assert!(!reason.is_empty(), "accepted.txt: no reason in: {line}");
        Self {
            command: (*command).into(),
            redis: (*redis).into(),
            ours: (*ours).into(),
            reason: (*reason).into(),
        }
    }
}

/// Returns the rules for a command that does not exist, in all the ways in which that shows.
fn without(line: &str) -> Vec<Rule> {
    let Some((name, why)) = line.split_once(" | ") else {
        panic!("accepted.txt: a command and a reason, split by `|`, in: {line}")
    };
    let forms = [
        (name.to_owned(), "unknown command"),
        (format!("{name} *"), "unknown command"),
        (format!("EVAL* 0 {name}"), "Unknown Redis command"),
        (format!("EVAL* 0 {name} *"), "Unknown Redis command"),
        (format!("COMMAND GETKEYS* {name}"), "Invalid command"),
        (format!("COMMAND GETKEYS* {name} *"), "Invalid command"),
    ];
    forms
        .iter()
        .map(|(command, said)| Rule::parse(&format!("{command} | * | *{said}* | no {name}: {why}")))
        .collect()
}

/// All accepted differences.
#[derive(Debug, Clone)]
pub(super) struct Accepted {
    pub(super) rules: Vec<Rule>,
}

impl Accepted {
    /// Reads the list; it is part of this crate, so a mistake in it is a broken invariant.
    pub(super) fn load() -> Self {
        Self::parse(include_str!("accepted.txt"))
    }

    /// Adds further rules, in the form of the list.
    pub(super) fn add(&mut self, source: &str) {
        self.rules.extend(Self::parse(source).rules);
    }

    fn parse(source: &str) -> Self {
        let lines = source.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let rules = lines.flat_map(|line| match line.strip_prefix("without ") {
            Some(rest) => without(rest),
            None => vec![Rule::parse(line)],
        });
        Self { rules: rules.collect() }
    }

    /// Returns the rule that covers a difference.
    pub(super) fn find(&self, command: &str, redis: &str, ours: &str) -> Option<usize> {
        let command = command.to_ascii_uppercase();
        self.rules.iter().position(|rule| {
            matches(&rule.command, &command)
                && matches(&rule.redis, redis)
                && matches(&rule.ours, ours)
        })
    }
}

/// `*` stands for anything; greedy from the left is enough without other wildcards.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some((_, tail)) = rest.split_once(part) else { return false };
        rest = tail;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_covers_what_it_names_and_nothing_else() {
        let accepted = Accepted::parse("MODULE * | * | -ERR * | no modules\n");
        assert_eq!(accepted.find("module list", "[]", "-ERR unknown"), Some(0));
        assert_eq!(accepted.find("module list", "[]", "+OK"), None);
        assert_eq!(accepted.find("modules", "[]", "-ERR x"), None);
        Accepted::load();
    }

    #[test]
    fn a_missing_command_is_accepted_in_every_form() {
        let accepted = Accepted::parse("without SYNC | no replicas\n");
        let unknown = "-\"ERR unknown command 'SYNC', with args beginning with: 'x' \"";
        assert!(accepted.find("sync x", "+OK", unknown).is_some());
        assert!(accepted.find("SYNCED x", "+OK", unknown).is_none());
        let scripted =
            "-ERR Unknown Redis command called from script script: ff, on @user_script:1.";
        assert!(accepted.find("EVAL \"body\" 0 SYNC x", "+OK", scripted).is_some());
        assert!(accepted.find("EVAL \"body\" 0 GET x", "+OK", scripted).is_none());
    }
}
