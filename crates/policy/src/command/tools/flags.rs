//! Splits arguments into flags, values and positional arguments, by the rules of a table row.

use super::super::Categories;
use super::super::walk::Arg;
use super::model::{Entry, FlagRule, Kind};

/// The arguments of a command, sorted by their role.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// Effects of all flags.
    pub adds: Categories,
    /// Effects that count whatever other flags leave.
    pub insists: Categories,
    /// What flags such as `--dry-run` leave of the row's effects.
    pub leaves: Option<Categories>,
    /// Flags with values: first spelling of the rule, kind, value.
    pub values: Vec<(&'a str, Kind, String)>,
    /// Flags that are in the table, by their first spelling.
    pub known: Vec<&'a str>,
    /// Flags that are not in the table, as written.
    pub unknown: Vec<&'a Arg>,
    /// Positions of the positional arguments.
    pub positional: Vec<usize>,
}

impl<'a> Options<'a> {
    /// Whether a flag was given, by the first spelling in the table.
    pub fn has(&self, first_spelling: &str) -> bool {
        self.known.contains(&first_spelling)
    }

    /// Whether a flag makes the command read-only.
    pub fn is_harmless(&self) -> bool {
        self.insists.is_read_only() && self.leaves.is_some_and(Categories::is_read_only)
    }

    /// Adds what was found in the arguments behind.
    pub fn append(&mut self, behind: Self) {
        self.adds.add(behind.adds);
        self.insists.add(behind.insists);
        self.leaves = match (self.leaves, behind.leaves) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => one.or(other),
        };
        self.values.extend(behind.values);
        self.known.extend(behind.known);
        self.unknown.extend(behind.unknown);
        self.positional.extend(behind.positional);
    }

    /// The value of a flag, by the first spelling in the table.
    pub fn value(&self, first_spelling: &str) -> Option<&str> {
        self.values.iter().find(|(name, ..)| *name == first_spelling).map(|(_, _, value)| value.as_str())
    }
}

/// Sorts arguments. With `until_positional`, everything from the first positional argument on is positional.
pub fn options<'a>(entries: &[&'a Entry], args: &'a [Arg], until_positional: bool) -> Options<'a> {
    let mut found = Options::default();
    let rules = || entries.iter().flat_map(|entry| entry.flags.iter());
    let long_dashes = entries.iter().any(|entry| entry.long_dashes);
    let mut at = 0;
    while at < args.len() {
        let arg = &args[at];
        let text = arg.text.as_str();
        at += 1;
        if text == "--" && entries.iter().any(|entry| entry.past_dashes) {
            continue;
        }
        if text == "--" {
            found.positional.extend(at..args.len());
            break;
        }
        if !text.starts_with('-') || text == "-" {
            if until_positional {
                found.positional.extend(at - 1..args.len());
                break;
            }
            found.positional.push(at - 1);
            continue;
        }
        let mut next = |found: &mut Options<'a>, rule: &'a FlagRule, attached: Option<&str>, kind: Kind| {
            let value = match attached {
                Some(value) => value.to_owned(),
                None if at < args.len() => {
                    at += 1;
                    args[at - 1].text.clone()
                }
                None => return,
            };
            found.values.push((&rule.names[0], kind, value));
        };
        let mut apply =
            |found: &mut Options<'a>, rule: &'a FlagRule, attached: Option<&str>, is_exact: bool| {
                // `--watchAll=false` switches off.
                let is_off = rule.value.is_none() && attached == Some("false");
                if is_off && rule.adds == Categories::INTERACTIVE {
                    return;
                }
                found.adds.add(rule.adds);
                found.insists.add(rule.insists);
                found.known.push(&rule.names[0]);
                // What might be absent proves nothing.
                if let Some(left) = rule.leaves.filter(|_| is_exact && !arg.optional && !is_off) {
                    found.leaves = Some(found.leaves.unwrap_or_default().and(left));
                }
                if let Some(kind) = rule.value {
                    next(found, rule, attached, kind);
                }
            };
        let (name, attached) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        if let Some(rule) = rules().find(|rule| rule.names.iter().any(|known| known == name)) {
            apply(&mut found, rule, attached, true);
            continue;
        }
        if text.starts_with("--") || long_dashes {
            // GNU programs accept unambiguous beginnings of long flags.
            let abbreviated = rules().find(|rule| {
                name.len() >= 3
                    && rule.names.iter().any(|known| known.starts_with("--") && known.starts_with(name))
            });
            match abbreviated {
                Some(rule) => apply(&mut found, rule, attached, false),
                None => found.unknown.push(arg),
            }
            continue;
        }
        let letters = text.char_indices().skip(1);
        let mut is_known = false;
        for (index, letter) in letters {
            let is_letter = |known: &String| {
                let mut of_known = known.chars();
                of_known.next() == Some('-') && of_known.next() == Some(letter) && of_known.next().is_none()
            };
            let Some(rule) = rules().find(|rule| rule.names.iter().any(is_letter)) else { continue };
            is_known = true;
            let rest = &text[index + letter.len_utf8()..];
            if rule.value.is_some() {
                let attached = (!rest.is_empty()).then(|| rest.strip_prefix('=').unwrap_or(rest));
                apply(&mut found, rule, attached, true);
                break;
            }
            apply(&mut found, rule, None, true);
        }
        if !is_known {
            found.unknown.push(arg);
        }
    }
    found
}
