//! Reads policy files. Every mistake is reported with its line.

use std::ops::Range;

use agentiso_core::nearest;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::super::Category;
use super::glob::{Glob, MAX_PATTERN};
use super::model::{Action, PolicyFile, PolicyRule};
use super::problem::{PolicyProblem, PolicyProblems};

/// The largest policy file.
pub const MAX_FILE_BYTES: usize = 256 * 1024;

/// The most rules in a file.
pub const MAX_RULES: usize = 1000;

/// The most entries in one list of a rule.
const MAX_LIST: usize = 100;

const TOP_KEYS: &[&str] = &["defaults", "rule"];
const RULE_KEYS: &[&str] = &["name", "action", "reason", "category", "program", "args", "path"];

/// Parses a policy file. `name` is only used in errors.
pub fn parse_policy(text: &str, name: &str) -> Result<PolicyFile, PolicyProblems> {
    let mut reader = Reader { text, problems: Vec::new() };
    let file = reader.file();
    match reader.problems.is_empty() {
        true => Ok(file),
        false => {
            reader.problems.sort_by_key(|problem| problem.line);
            Err(PolicyProblems { name: name.to_owned(), problems: reader.problems })
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    problems: Vec<PolicyProblem>,
}

type Key<'a> = Spanned<std::borrow::Cow<'a, str>>;
type Value<'a> = Spanned<DeValue<'a>>;

impl Reader<'_> {
    fn file(&mut self) -> PolicyFile {
        let mut file = PolicyFile::default();
        if self.text.len() > MAX_FILE_BYTES {
            self.report(0, format!("the file is larger than {MAX_FILE_BYTES} bytes"), None);
            return file;
        }
        let document = match DeTable::parse(self.text) {
            Ok(document) => document,
            Err(error) => {
                let message = error.message().lines().next().unwrap_or_default().to_owned();
                self.report(error.span().unwrap_or_default().start, message, None);
                return file;
            }
        };
        for (key, value) in document.get_ref() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("defaults", DeValue::Table(table)) => file.defaults = self.defaults(table),
                ("defaults", _) => self.expected(key, "a table: write [defaults] on a line of its own"),
                ("rule", DeValue::Array(rules)) => file.rules = self.rules(rules, key),
                ("rule", _) => self.expected(key, "a list of tables: write [[rule]] before each rule"),
                _ => self.unknown(key, TOP_KEYS),
            }
        }
        file
    }

    fn defaults(&mut self, table: &DeTable<'_>) -> Vec<(Category, Action)> {
        let names = Category::ALL.map(Category::as_str);
        let mut defaults = Vec::new();
        for (key, value) in table {
            let category = Category::ALL.into_iter().find(|category| category.as_str() == key.get_ref());
            match category {
                None => self.unknown(key, &names),
                Some(category) => defaults.extend(self.action(key, value).map(|action| (category, action))),
            }
        }
        defaults
    }

    fn rules(&mut self, rules: &DeArray<'_>, key: &Key<'_>) -> Vec<PolicyRule> {
        if rules.len() > MAX_RULES {
            self.report(key.span().start, format!("there are more than {MAX_RULES} rules"), None);
            return Vec::new();
        }
        let mut found: Vec<PolicyRule> = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            let DeValue::Table(table) = rule.get_ref() else {
                self.report(
                    rule.span().start,
                    "a rule is a table: write [[rule]] before it".to_owned(),
                    None,
                );
                continue;
            };
            let Some(rule) = self.rule(table, &rule.span(), index + 1) else { continue };
            if found.iter().any(|other| other.name == rule.name) {
                let at = table
                    .iter()
                    .find(|(key, _)| key.get_ref() == "name")
                    .map_or(0, |(key, _)| key.span().start);
                self.report(at, format!("another rule is called {:?} too", rule.name), None);
            }
            found.push(rule);
        }
        found
    }

    fn rule(&mut self, table: &DeTable<'_>, span: &Range<usize>, number: usize) -> Option<PolicyRule> {
        let mut action = None;
        let mut rule = PolicyRule {
            name: format!("rule {number}"),
            action: Action::Deny,
            reason: None,
            categories: Vec::new(),
            programs: Vec::new(),
            args: Vec::new(),
            paths: Vec::new(),
        };
        let has_action = table.keys().any(|key| key.get_ref() == "action");
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "action" => action = self.action(key, value),
                "name" => {
                    if let Some(name) = self.text_of(key, value) {
                        rule.name = name.to_owned();
                    }
                }
                "reason" => rule.reason = self.text_of(key, value).map(str::to_owned),
                "category" => rule.categories = self.categories(key, value),
                "program" => {
                    rule.programs = self.globs(key, value, false);
                    let has_slash = self.strings(key, value).iter().any(|(name, _)| name.contains('/'));
                    if has_slash {
                        self.expected(key, "the name of a program without its directory");
                    }
                }
                "args" => rule.args = self.globs(key, value, false),
                "path" => {
                    rule.paths = self.globs(key, value, true);
                    let relative =
                        self.strings(key, value).iter().any(|(path, _)| !path.starts_with(['/', '*']));
                    if relative {
                        self.expected(key, "an absolute path, or a pattern that begins with **");
                    }
                }
                _ => self.unknown(key, RULE_KEYS),
            }
        }
        if !has_action {
            self.report(span.start, "the rule has no action".to_owned(), None);
        }
        rule.action = action?;
        Some(rule)
    }

    fn categories(&mut self, key: &Key<'_>, value: &Value<'_>) -> Vec<Category> {
        let names = Category::ALL.map(Category::as_str);
        let mut categories = Vec::new();
        for (name, at) in self.strings(key, value) {
            match Category::ALL.into_iter().find(|category| category.as_str() == name) {
                Some(category) => categories.push(category),
                None => {
                    let near = nearest(&name, names).map(str::to_owned);
                    self.report(at, format!("unknown category {name:?}"), near);
                }
            }
        }
        categories
    }

    fn action(&mut self, key: &Key<'_>, value: &Value<'_>) -> Option<Action> {
        let name = self.text_of(key, value)?;
        let action = Action::ALL.into_iter().find(|action| action.as_str() == name);
        if action.is_none() {
            let near = nearest(name, Action::ALL.map(Action::as_str)).map(str::to_owned);
            self.report(value.span().start, format!("unknown action {name:?}"), near);
        }
        action
    }

    fn globs(&mut self, key: &Key<'_>, value: &Value<'_>, is_path: bool) -> Vec<Glob> {
        let mut globs = Vec::new();
        for (pattern, at) in self.strings(key, value) {
            if pattern.is_empty() || pattern.len() > MAX_PATTERN {
                let message = format!("{}: a pattern has 1 to {MAX_PATTERN} bytes", key.get_ref());
                self.report(at, message, None);
                continue;
            }
            globs.push(Glob::new(&pattern, is_path));
        }
        globs
    }

    /// A string or a list of strings, with their positions.
    fn strings(&mut self, key: &Key<'_>, value: &Value<'_>) -> Vec<(String, usize)> {
        match value.get_ref() {
            DeValue::String(text) => vec![(text.to_string(), value.span().start)],
            DeValue::Array(list) if list.is_empty() || list.len() > MAX_LIST => {
                self.expected(key, &format!("a list of 1 to {MAX_LIST} strings"));
                Vec::new()
            }
            DeValue::Array(list) => {
                let mut strings = Vec::new();
                for entry in list.iter() {
                    match entry.get_ref() {
                        DeValue::String(text) => strings.push((text.to_string(), entry.span().start)),
                        _ => self.report(
                            entry.span().start,
                            format!("{}: expected a string", key.get_ref()),
                            None,
                        ),
                    }
                }
                strings
            }
            _ => {
                self.expected(key, "a string or a list of strings");
                Vec::new()
            }
        }
    }

    fn text_of<'v>(&mut self, key: &Key<'_>, value: &'v Value<'_>) -> Option<&'v str> {
        match value.get_ref() {
            DeValue::String(text) if !text.is_empty() && text.len() <= 1024 => Some(text),
            DeValue::String(_) => {
                self.expected(key, "1 to 1024 bytes of text");
                None
            }
            _ => {
                self.expected(key, "a string");
                None
            }
        }
    }

    fn expected(&mut self, key: &Key<'_>, what: &str) {
        let problem = format!("{}: expected {what}", key.get_ref());
        self.report(key.span().start, problem, None);
    }

    fn unknown(&mut self, key: &Key<'_>, known: &[&str]) {
        let near = nearest(key.get_ref(), known.iter().copied()).map(str::to_owned);
        self.report(key.span().start, format!("unknown key {:?}", key.get_ref()), near);
    }

    fn report(&mut self, at: usize, message: String, suggestion: Option<String>) {
        let line = self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        let problem = PolicyProblem { line, message, suggestion };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let found = parse_policy(text, "p.toml").unwrap_err().problems;
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_whole_file_is_read() {
        let file = parse_policy(
            "[defaults]\nnetworked = \"deny\"\n\n[[rule]]\nname = \"registry\"\naction = \"allow\"\n\
             category = [\"networked\"]\nprogram = \"npm\"\nargs = [\"ci\"]\n\n[[rule]]\naction = \"deny\"\n\
             path = [\"**/.env\"]\nreason = \"secrets\"\n",
            "p.toml",
        )
        .unwrap();
        assert_eq!(file.defaults, [(Category::Networked, Action::Deny)]);
        assert_eq!(file.rules.len(), 2);
        assert_eq!(file.rules[0].categories, [Category::Networked]);
        assert_eq!(file.rules[1].name, "rule 2");
        assert_eq!(file.rules[1].reason.as_deref(), Some("secrets"));
    }

    #[test]
    fn every_mistake_is_reported_with_its_line() {
        let text = "[defaults]\nnetworkd = \"deny\"\nmutating = \"alow\"\n\n[[rule]]\naktion = \"deny\"\n\n[[rule]]\n\
                    action = \"deny\"\ncategory = \"netwroked\"\nprogram = \"/bin/ls\"\npath = \"etc\"\nargs = 3\n";
        assert_eq!(
            problems(text),
            [
                "2: unknown key \"networkd\"; did you mean \"networked\"?",
                "3: unknown action \"alow\"; did you mean \"allow\"?",
                "5: the rule has no action",
                "6: unknown key \"aktion\"; did you mean \"action\"?",
                "10: unknown category \"netwroked\"; did you mean \"networked\"?",
                "11: program: expected the name of a program without its directory",
                "12: path: expected an absolute path, or a pattern that begins with **",
                "13: args: expected a string or a list of strings",
            ]
        );
    }

    #[test]
    fn syntax_errors_and_wrong_shapes_are_reported() {
        assert!(problems("[defaults\n")[0].starts_with("1: "));
        assert_eq!(problems("rules = 1\n"), ["1: unknown key \"rules\"; did you mean \"rule\"?"]);
        assert_eq!(
            problems("rule = 1\n"),
            ["1: rule: expected a list of tables: write [[rule]] before each rule"]
        );
        assert_eq!(
            problems("[[rule]]\naction=\"deny\"\nprogram=[]\n"),
            ["3: program: expected a list of 1 to 100 strings"]
        );
        let twice = "[[rule]]\nname=\"a\"\naction=\"deny\"\n[[rule]]\nname=\"a\"\naction=\"deny\"\n";
        assert_eq!(problems(twice), ["5: another rule is called \"a\" too"]);
        let many = "[[rule]]\naction=\"deny\"\n".repeat(MAX_RULES + 1);
        assert!(problems(&many)[0].contains("more than 1000 rules"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
            let _ = parse_policy(&text, "p.toml");
        }
    }
}
