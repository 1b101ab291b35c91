//! The judgement on one simple command.

use super::super::{Categories, Category};
use super::state::{Arg, UNKNOWN};

/// One command of the line, and why it has its categories.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Step {
    /// The command after expansion, shortened; `…` stands for what is not known.
    pub command: String,
    /// The program's name without its directory, if the step is a program.
    pub program: Option<String>,
    /// Its arguments after expansion.
    pub args: Vec<String>,
    /// The paths it names, resolved.
    pub paths: Vec<String>,
    /// Its categories.
    pub categories: Categories,
    /// Why: what each finding adds, and its reason.
    pub reasons: Vec<(Categories, String)>,
}

impl Step {
    /// The first reason for a category.
    pub fn reason_for(&self, category: Category) -> Option<&str> {
        let reason = self.reasons.iter().find(|(adds, _)| adds.has(category));
        reason.map(|(_, reason)| reason.as_str())
    }
}

/// Categories of one command while it is looked at.
#[derive(Debug, Default)]
pub struct Judged {
    pub(super) categories: Categories,
    reasons: Vec<(Categories, String)>,
    pub(super) paths: Vec<String>,
}

const MAX_SHOWN: usize = 200;
const MAX_REASONS: usize = 12;

impl Judged {
    pub(super) fn add(&mut self, categories: Categories, reason: impl Into<String>) {
        let is_new = !self.categories.covers(categories);
        self.categories.add(categories);
        if is_new || self.reasons.len() < MAX_REASONS {
            let reason = shortened(&reason.into());
            if !self.reasons.iter().any(|(_, known)| *known == reason) {
                self.reasons.push((categories, reason));
            }
        }
    }

    /// A step that is not a program of its own: a redirection or an assignment.
    pub(super) fn step(self, command: &str) -> Step {
        Step {
            command: shortened(command),
            categories: self.categories,
            reasons: self.reasons,
            paths: self.paths,
            ..Step::default()
        }
    }

    /// The step of a program.
    pub(super) fn program_step(self, name: &str, args: &[Arg]) -> Step {
        let shown = |text: &str| text.replace(UNKNOWN, "…");
        Step {
            program: Some(shown(name)),
            args: args.iter().skip(1).map(|arg| shown(&arg.text)).collect(),
            ..self.step(&super::simple::shown(args))
        }
    }
}

fn shortened(text: &str) -> String {
    let letters = text.chars().map(|letter| if letter == UNKNOWN { '…' } else { letter });
    let mut shown: String = letters.clone().take(MAX_SHOWN).collect();
    if letters.clone().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
