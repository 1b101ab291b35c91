//! The tools, built from the table and the catalogue of actions.

use std::sync::{Arc, LazyLock};

use agentiso_core::action::{About, Effect};
use agentiso_core::nearest;
use rmcp::model::{Tool as Listed, ToolAnnotations};
use serde_json::{Map, Value};

use super::selection::Selection;
use super::table::{Does, Form, Spec, TABLE};
use super::{schema, shown};
use crate::catalogue::Entry;

/// A tool.
pub(super) struct Tool {
    pub(super) spec: &'static Spec,
    pub(super) forms: Vec<(Option<&'static str>, Form, &'static Entry)>,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) hints: Hints,
    pub(super) input: Map<String, Value>,
    listed: Listed,
}

/// Hints for clients about a tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Hints {
    pub(super) read_only: bool,
    pub(super) destructive: bool,
    pub(super) idempotent: bool,
    pub(super) open_world: bool,
}

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| TABLE.iter().map(Tool::of).collect());

/// All tools, in listing order.
pub(super) fn all() -> &'static [Tool] {
    &TOOLS
}

/// Finds a tool by name, listed or not.
pub(super) fn find(name: &str) -> Option<&'static Tool> {
    all().iter().find(|tool| tool.spec.name == name)
}

/// Names that other products use for similar tools.
const ELSEWHERE: [(&str, &str); 16] = [
    ("bash", "exec"),
    ("shell", "exec"),
    ("terminal", "exec"),
    ("execute", "exec"),
    ("execute_command", "exec"),
    ("run", "exec"),
    ("run_command", "exec"),
    ("run_shell_command", "exec"),
    ("ls", "file_list"),
    ("list_directory", "file_list"),
    ("cat", "file_read"),
    ("view", "file_read"),
    ("str_replace", "file_edit"),
    ("apply_patch", "file_edit"),
    ("grep", "file_grep"),
    ("glob", "file_glob"),
];

/// Guesses which tool an unknown name means.
pub(super) fn meant(name: &str, selection: &Selection) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let elsewhere = ELSEWHERE.iter().find(|(theirs, _)| *theirs == lower).map(|(_, ours)| *ours);
    let shown = all().iter().filter(|tool| selection.shows(tool.spec)).map(|tool| tool.spec.name);
    let elsewhere = elsewhere.filter(|ours| find(ours).is_some_and(|tool| selection.shows(tool.spec)));
    elsewhere.or_else(|| nearest(name, shown))
}

/// The tools of a selection. Their texts name no other tools.
pub(super) fn of_selection(selection: &Selection) -> Vec<Listed> {
    all().iter().filter(|tool| selection.shows(tool.spec)).map(|tool| tool.listed_in(selection)).collect()
}

impl Tool {
    fn of(spec: &'static Spec) -> Self {
        let forms: Vec<_> = spec
            .forms()
            .into_iter()
            .filter_map(|(word, form)| form.entry().ok().map(|entry| (word, form, entry)))
            .collect();
        let abouts: Vec<About> = forms.iter().map(|(_, _, entry)| entry.about).collect();
        let (title, description) = match &spec.does {
            Does::Several(bundle) => (bundle.title, bundle.description),
            Does::One(form) => form
                .about
                .or_else(|| abouts.first().map(|about| (about.title, about.description)))
                .unwrap_or_default(),
        };
        let hints = Hints {
            read_only: abouts.iter().all(|about| about.effect == Effect::Reads),
            destructive: abouts.iter().any(|about| about.effect == Effect::Destroys),
            idempotent: abouts.iter().all(|about| about.idempotent),
            open_world: abouts.iter().any(|about| about.open_world),
        };
        let input = schema::input(spec, &forms);
        let listed = Listed::new(spec.name, description, Arc::new(input.clone()))
            .with_title(title)
            .with_raw_output_schema(Arc::new(schema::output(&forms)))
            .with_annotations(ToolAnnotations::from_raw(
                None,
                Some(hints.read_only),
                Some(hints.destructive),
                Some(hints.idempotent),
                Some(hints.open_world),
            ));
        Self { spec, forms, title, description, hints, input, listed }
    }

    /// The tool as listed to clients.
    pub(super) fn listed(&self) -> Listed {
        self.listed.clone()
    }

    fn listed_in(&self, selection: &Selection) -> Listed {
        let mut listed = self.listed();
        listed.description = Some(shown::sentences(self.description, selection).into());
        let mut input = self.input.clone();
        if let Some(Value::Object(properties)) = input.get_mut("properties") {
            for property in properties.values_mut() {
                if let Some(Value::String(said)) = property.get_mut("description") {
                    *said = shown::sentences(said, selection);
                }
            }
        }
        listed.input_schema = Arc::new(input);
        listed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;
    use crate::catalogue;
    use crate::mcp::ToolSet;

    /// A rough estimate of the tokens of a text.
    fn tokens(value: &Value) -> usize {
        value.to_string().chars().count() / 4
    }

    #[test]
    fn the_standard_list_is_within_its_token_budget() {
        let listed = of_selection(&ToolSet::Standard.into());
        let input = |tool: &Listed| json!({"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema});
        let mut rows: Vec<_> = listed.iter().map(|tool| (tokens(&input(tool)), tool.name.clone())).collect();
        rows.sort();
        let inputs = tokens(&listed.iter().map(input).collect());
        let whole = tokens(&json!(listed));
        assert!(inputs < 6_000 && whole < 12_000, "{inputs} and {whole} tokens: {rows:#?}");
    }

    #[test]
    fn listed_texts_name_only_listed_tools() {
        for selection in ["core", "standard", "full", "core,snapshot_diff,workspace_fork"] {
            let selection: Selection = selection.parse().unwrap();
            let listed = of_selection(&selection);
            for tool in &listed {
                let texts = json!({"description": tool.description, "input": tool.input_schema}).to_string();
                assert!(shown::is_about_shown(&texts, &selection), "{selection:?} {}: {texts}", tool.name);
            }
        }
    }

    fn names(set: ToolSet) -> Vec<String> {
        of_selection(&set.into()).into_iter().map(|tool| tool.name.into_owned()).collect()
    }

    #[test]
    fn every_form_has_an_action_and_every_action_a_tool() {
        let mut reached = HashSet::new();
        for tool in all() {
            assert_eq!(
                tool.forms.len(),
                tool.spec.forms().len(),
                "{} names an unknown action",
                tool.spec.name
            );
            reached.extend(tool.forms.iter().map(|(_, form, _)| form.action));
        }
        // Only the operator may call these, and the operator is no agent.
        let operators = ["secret_set", "secret_list", "secret_remove", "secret_grant"];
        for entry in catalogue::ALL {
            let name = entry.about.name;
            assert_ne!(reached.contains(name), operators.contains(&name), "the tools that offer {name}");
        }
    }

    #[test]
    fn an_unknown_tool_name_gets_a_suggestion() {
        for (name, tool) in [
            ("bash", "exec"),
            ("run_command", "exec"),
            ("read_file", "file_read"),
            ("write_file", "file_write"),
            ("list_files", "file_list"),
            ("create_workspace", "workspace_create"),
            ("workspace_crate", "workspace_create"),
            ("Grep", "file_grep"),
        ] {
            assert_eq!(meant(name, &ToolSet::Full.into()), Some(tool), "{name}");
        }
        assert_eq!(meant("zzzz", &ToolSet::Full.into()), None);
        assert!(ELSEWHERE.iter().all(|(_, ours)| find(ours).is_some()));
    }

    #[test]
    fn core_has_the_eight_tools_of_the_guide() {
        let mut core = names(ToolSet::Core);
        core.sort();
        let mut guide = [
            "workspace_create",
            "exec",
            "file_write",
            "file_read",
            "file_list",
            "snapshot_create",
            "snapshot_restore",
            "workspace_destroy",
        ];
        guide.sort();
        assert_eq!(core, guide);
    }

    #[test]
    fn standard_has_the_bundles_and_full_has_each_action_once() {
        let standard = names(ToolSet::Standard);
        assert!(
            standard.contains(&"snapshot".to_owned()) && !standard.contains(&"snapshot_create".to_owned())
        );
        let full = names(ToolSet::Full);
        assert_eq!(full.len(), all().len());
        assert_eq!(full.iter().collect::<HashSet<_>>().len(), full.len());
        assert!(standard.iter().all(|name| full.contains(name)));
    }

    #[test]
    fn a_bundle_has_the_hints_of_its_most_dangerous_action() {
        let hints = |name| find(name).unwrap().hints;
        assert_eq!(
            hints("snapshot"),
            Hints { read_only: false, destructive: true, idempotent: false, open_world: false }
        );
        assert_eq!(
            hints("file_read"),
            Hints { read_only: true, destructive: false, idempotent: true, open_world: false }
        );
        assert!(hints("git_push").open_world);
    }
}
