//! The tools themselves: the table, with what the actions say about themselves.

use std::sync::{Arc, LazyLock};

use agentiso_core::action::{About, Effect};
use rmcp::model::{Tool as Listed, ToolAnnotations};
use serde_json::{Map, Value};

use super::schema;
use super::table::{Does, Form, Spec, TABLE, ToolSet};
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

/// What a client may want to know before it calls a tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Hints {
    pub(super) read_only: bool,
    pub(super) destructive: bool,
    pub(super) idempotent: bool,
    pub(super) open_world: bool,
}

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| TABLE.iter().map(Tool::of).collect());

/// Every tool, in the order in which they are listed.
pub(super) fn all() -> &'static [Tool] {
    &TOOLS
}

/// The tool of a name, listed or not.
pub(super) fn find(name: &str) -> Option<&'static Tool> {
    all().iter().find(|tool| tool.spec.name == name)
}

/// The tools of a set.
pub(super) fn of_set(set: ToolSet) -> Vec<Listed> {
    all().iter().filter(|tool| tool.spec.sets.contains(&set)).map(Tool::listed).collect()
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
                Some(title.to_owned()),
                Some(hints.read_only),
                Some(hints.destructive),
                Some(hints.idempotent),
                Some(hints.open_world),
            ));
        Self { spec, forms, title, description, hints, input, listed }
    }

    /// As a client sees it.
    pub(super) fn listed(&self) -> Listed {
        self.listed.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::catalogue;

    fn names(set: ToolSet) -> Vec<String> {
        of_set(set).into_iter().map(|tool| tool.name.into_owned()).collect()
    }

    #[test]
    fn every_form_has_its_action_and_every_action_its_tool() {
        let mut reached = HashSet::new();
        for tool in all() {
            assert_eq!(
                tool.forms.len(),
                tool.spec.forms().len(),
                "{} names an action there is not",
                tool.spec.name
            );
            reached.extend(tool.forms.iter().map(|(_, form, _)| form.action));
        }
        for entry in catalogue::ALL {
            assert!(reached.contains(entry.about.name), "no tool does {}", entry.about.name);
        }
    }

    #[test]
    fn core_is_the_eight_of_the_guide() {
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
    fn standard_has_the_bundles_and_full_has_everything_once() {
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
    fn a_bundle_is_as_dangerous_as_the_worst_it_can_do() {
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
