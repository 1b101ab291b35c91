//! Which tools a client is shown.

use std::str::FromStr;

use agentiso_core::action::ToolSet;
use agentiso_core::{Code, Failure, nearest};

use super::table::{Spec, TABLE};

/// A tool set plus single tools, for example `core,snapshot_diff,workspace_fork`. Every tool can be called, shown or
/// not.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Selection {
    sets: Vec<ToolSet>,
    tools: Vec<&'static str>,
}

impl Selection {
    /// Whether a tool is shown.
    pub(super) fn shows(&self, tool: &Spec) -> bool {
        tool.sets.iter().any(|set| self.sets.contains(set)) || self.tools.contains(&tool.name)
    }

    /// Whether the tool of this name is shown.
    pub(super) fn shows_name(&self, name: &str) -> bool {
        TABLE.iter().any(|tool| tool.name == name && self.shows(tool))
    }
}

impl From<ToolSet> for Selection {
    fn from(set: ToolSet) -> Self {
        Self { sets: vec![set], tools: Vec::new() }
    }
}

impl FromStr for Selection {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let mut selection = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word {
                "core" => selection.sets.push(ToolSet::Core),
                "standard" => selection.sets.push(ToolSet::Standard),
                "full" => selection.sets.push(ToolSet::Full),
                name => match TABLE.iter().find(|tool| tool.name == name) {
                    Some(tool) => selection.tools.push(tool.name),
                    None => return Err(unknown(name)),
                },
            }
        }
        if selection == Self::default() {
            return Err(Failure::new(Code::InvalidArgument, "no tool set was given").with_remedy(EXPECTED));
        }
        Ok(selection)
    }
}

const EXPECTED: &str = "give core, standard or full, optionally followed by tool names separated by commas";

fn unknown(name: &str) -> Failure {
    let near = nearest(name, TABLE.iter().map(|tool| tool.name).chain(["core", "standard", "full"]));
    Failure::new(Code::InvalidArgument, format!("unknown tool or tool set {name:?}"))
        .with_remedy(near.map_or(EXPECTED.to_owned(), |near| format!("did you mean {near}?")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_tools_are_added_to_a_set() {
        let selection: Selection = "core, snapshot_diff,workspace_fork".parse().unwrap();
        for name in ["exec", "snapshot_diff", "workspace_fork"] {
            assert!(selection.shows_name(name), "{name}");
        }
        assert!(!selection.shows_name("snapshot"));
        assert_eq!("standard".parse::<Selection>().unwrap(), ToolSet::Standard.into());
    }

    #[test]
    fn an_unknown_tool_is_rejected_with_a_suggestion() {
        let refused = "core,snapshot_dif".parse::<Selection>().unwrap_err();
        assert_eq!(refused.remedy(), Some("did you mean snapshot_diff?"));
        assert_eq!(",".parse::<Selection>().unwrap_err().code(), Code::InvalidArgument);
    }
}
