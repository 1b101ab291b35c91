//! The judgement on one simple command.

use serde::Serialize;

use super::super::Categories;

/// One command of the line, and why it has its categories.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Step {
    /// The command after expansion, shortened; `…` stands for what is not known.
    pub command: String,
    /// Its categories.
    pub categories: Categories,
    /// Why, one reason per finding.
    pub reasons: Vec<String>,
}

/// Categories of one command while it is looked at.
#[derive(Debug, Default)]
pub struct Judged {
    pub(super) categories: Categories,
    reasons: Vec<String>,
}

const MAX_SHOWN: usize = 200;
const MAX_REASONS: usize = 8;

impl Judged {
    pub(super) fn add(&mut self, categories: Categories, reason: impl Into<String>) {
        self.categories.add(categories);
        if self.reasons.len() < MAX_REASONS {
            let reason = reason.into();
            if !self.reasons.contains(&reason) {
                self.reasons.push(shortened(&reason));
            }
        }
    }

    pub(super) fn step(self, command: &str) -> Step {
        Step { command: shortened(command), categories: self.categories, reasons: self.reasons }
    }
}

fn shortened(text: &str) -> String {
    let shown: String =
        text.chars().take(MAX_SHOWN).map(|letter| if letter == '\0' { '…' } else { letter }).collect();
    match shown.len() < text.len() && text.chars().nth(MAX_SHOWN).is_some() {
        true => format!("{shown}…"),
        false => shown,
    }
}
