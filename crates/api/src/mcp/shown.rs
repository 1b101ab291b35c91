//! Restricts texts to the tools that a client was shown: a model that reads about others tries to call them.
//!
//! Texts are written once, with the names of single actions. If a client was shown a bundle instead, `exec_list`
//! becomes `exec_background list`. Text about a tool that the client was not shown at all is removed.

use agentiso_core::Failure;

use super::selection::Selection;
use super::table::{Does, TABLE};

/// The tool that changes network rules. Advice names it to everybody: no other tool opens a destination, and it can be
/// called without being listed.
const RULES: &str = "network_policy";

/// Separators of the clauses of a remedy.
const CLAUSES: &[&str] = &["; ", ", or "];

/// Restricts the remedy of a failure to tools of the selection.
pub(super) fn failure(failure: Failure, selection: &Selection) -> Failure {
    let Some(remedy) = failure.remedy() else { return failure };
    match clauses(remedy, selection) {
        Some(remedy) => failure.with_remedy(remedy),
        None => failure.without_remedy(),
    }
}

/// The clauses of a remedy that name only tools of the selection. `None` if there are none.
pub(super) fn clauses(advice: &str, selection: &Selection) -> Option<String> {
    let advice = translated(advice, selection);
    let mut clauses = vec![advice.as_str()];
    for separator in CLAUSES {
        clauses = clauses.into_iter().flat_map(|clause| clause.split(separator)).collect();
    }
    let count = clauses.len();
    let is_for_a_terminal = |clause: &str| clause.contains("agentiso ");
    let is_shown = |clause: &&str| names(clause, RULES) || !names_others(clause, selection);
    let named: Vec<&str> = clauses.into_iter().filter(is_shown).collect();
    let for_tools: Vec<&str> = named.iter().copied().filter(|clause| !is_for_a_terminal(clause)).collect();
    let kept = if for_tools.is_empty() { named } else { for_tools };
    match kept.len() {
        0 => None,
        all if all == count => Some(advice),
        _ => Some(kept.join("; ")),
    }
}

/// The sentences of a text that name only tools of the selection.
pub(super) fn sentences(text: &str, selection: &Selection) -> String {
    let text = translated(text, selection);
    let kept: Vec<&str> =
        text.split_inclusive(". ").filter(|sentence| !names_others(sentence, selection)).collect();
    kept.concat().trim_end().to_owned()
}

/// Whether a text names only tools of the selection.
pub(super) fn is_about_shown(text: &str, selection: &Selection) -> bool {
    !names_others(text, selection)
}

/// Whether a text names a tool.
pub(super) fn names(text: &str, tool: &str) -> bool {
    places(text, tool).next().is_some()
}

/// Replaces actions that the selection has only in a bundle by the bundle's notation.
pub(super) fn translated(text: &str, selection: &Selection) -> String {
    let mut text = text.to_owned();
    for bundle in TABLE.iter().filter(|tool| selection.shows(tool)) {
        let Does::Several(words) = &bundle.does else { continue };
        for (word, form) in words.words {
            if form.action != bundle.name && !selection.shows_name(form.action) {
                let found: Vec<usize> = places(&text, form.action).collect();
                for place in found.into_iter().rev() {
                    let end = place + form.action.len();
                    text.replace_range(place..end, &format!("{} {word}", bundle.name));
                }
            }
        }
    }
    text
}

/// Tool names that are also ordinary words. They are not searched for.
const WORDS: &[&str] = &["exec", "image", "snapshot", "timeline"];

fn names_others(text: &str, selection: &Selection) -> bool {
    let others = TABLE.iter().filter(|tool| !selection.shows(tool) && !WORDS.contains(&tool.name));
    others.into_iter().any(|tool| names(text, tool.name))
}

/// The positions of a name in a text, as a whole word.
fn places<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |letter: Option<char>| letter.is_some_and(|it| it.is_alphanumeric() || it == '_');
    let whole = move |place: usize| {
        let (before, after) = (&text[..place], &text[place + name.len()..]);
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    };
    text.match_indices(name).map(|(place, _)| place).filter(move |place| whole(*place))
}

#[cfg(test)]
mod tests {
    use agentiso_core::Code;

    use super::*;
    use crate::mcp::ToolSet;

    fn remedy(text: &str, set: ToolSet) -> Option<String> {
        let failure = failure(Failure::new(Code::Internal, "it failed").with_remedy(text), &set.into());
        failure.remedy().map(str::to_owned)
    }

    #[test]
    fn a_remedy_names_only_shown_tools_in_the_notation_of_the_set() {
        let text = "exec_list shows all; jobs end with their machine";
        let shown = |set| remedy(text, set).unwrap();
        assert_eq!(shown(ToolSet::Standard), "exec_background list shows all; jobs end with their machine");
        assert_eq!(shown(ToolSet::Core), "jobs end with their machine");
        assert_eq!(shown(ToolSet::Full), text);
        let text = "start it: agentiso start web, or workspace_start";
        assert_eq!(remedy(text, ToolSet::Standard).unwrap(), "workspace_start");
        assert_eq!(remedy(text, ToolSet::Core).unwrap(), "start it: agentiso start web");
        assert_eq!(remedy("look at workspace_logs", ToolSet::Core), None);
        let text = "raise timeout_secs, or run it with exec_background";
        assert_eq!(remedy(text, ToolSet::Standard).unwrap(), text);
        assert_eq!(remedy(text, ToolSet::Core).unwrap(), "raise timeout_secs");
        assert_eq!(remedy("agentiso image pull NAME", ToolSet::Core).unwrap(), "agentiso image pull NAME");
        let text = "the rules refused it; network_policy {} allows it";
        assert_eq!(remedy(text, ToolSet::Core).unwrap(), text);
    }

    #[test]
    fn a_name_within_another_name_is_not_matched() {
        assert!(names("call exec_list now", "exec_list") && !names("call my_exec_list", "exec_list"));
        assert!(!names("workspace_forked", "workspace_fork"));
    }

    #[test]
    fn sentences_about_other_tools_are_removed() {
        let text = "Runs a command. For servers use exec_background. A code is a result.";
        assert_eq!(sentences(text, &ToolSet::Core.into()), "Runs a command. A code is a result.");
        assert_eq!(sentences(text, &ToolSet::Standard.into()), text);
    }
}
