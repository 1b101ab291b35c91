//! The patterns of the guide as prompts: a person picks one, and the agent follows it.

use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::{Map, Value};

use super::selection::Selection;
use super::shown;

/// A prompt. Offered only if the client was shown all tools that its text names.
struct Pattern {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    parameters: &'static [Parameter],
    /// The prompt text. `{name}` is replaced by a parameter.
    text: &'static str,
}

struct Parameter {
    name: &'static str,
    description: &'static str,
    /// Default value. `None` if the parameter is required.
    otherwise: Option<&'static str>,
}

const TASK: Parameter = Parameter { name: "task", description: "What is to be done.", otherwise: None };

const PATTERNS: &[Pattern] = &[
    Pattern {
        name: "try_safely",
        title: "Try something risky",
        description: "Runs something untrusted in a new workspace, reports, and removes the workspace.",
        parameters: &[TASK],
        text: "Do this in a new workspace, so that nothing can happen to this machine: {task}\n\n\
               Create the workspace with workspace_create, bring what is needed in with file_write, and run it with \
               exec and a suitable timeout_secs. Report what it did, with its exit code and the output that matters. \
               Then remove the workspace with workspace_destroy.",
    },
    Pattern {
        name: "change_with_a_way_back",
        title: "Change a workspace, with a way back",
        description: "Takes a snapshot, makes the change, and restores the snapshot if it fails.",
        parameters: &[
            TASK,
            Parameter {
                name: "workspace",
                description: "The workspace, by name or id; a new one if absent.",
                otherwise: Some("(a new one)"),
            },
        ],
        text: "Workspace: {workspace}. Do this in it: {task}\n\n\
               First take a snapshot with snapshot_create. Then make the change and check that it works. If it does \
               not, return to the snapshot with snapshot_restore, and try another way or say what is in the way. \
               Leave the workspace in a state that works, and report what was changed.",
    },
    Pattern {
        name: "compare_approaches",
        title: "Try several approaches at once",
        description: "Prepares a workspace once, tries each approach in a fork of its own, and keeps the best.",
        parameters: &[
            TASK,
            Parameter { name: "count", description: "How many; 3 if absent.", otherwise: Some("3") },
        ],
        text: "Solve this in {count} different ways and keep the best: {task}\n\n\
               Prepare one workspace with workspace_create: all that every approach needs, and a command that \
               measures success. Then make one fork per approach with workspace_fork and count. Try one approach in \
               each, measure all of them with the same command, and compare. Report the results in a table, keep the \
               workspace of the best approach and remove the others with workspace_destroy.",
    },
    Pattern {
        name: "continue_work",
        title: "Continue in an existing workspace",
        description: "Finds the workspaces that already exist, and continues in the one that fits.",
        parameters: &[TASK],
        text: "Continue in a workspace that already exists, if one fits: {task}\n\n\
               Look at workspace_list first, and at workspace_info of the one that fits. A stopped or suspended \
               workspace starts when it is used. Only if none fits, create one with workspace_create and give it a \
               name that says what it is for. When you are done, leave the workspace and say its name.",
    },
];

impl Pattern {
    fn is_offered(&self, selection: &Selection) -> bool {
        shown::is_about_shown(&shown::translated(self.text, selection), selection)
    }

    fn listed(&self) -> Prompt {
        let parameters = self.parameters.iter().map(|parameter| {
            PromptArgument::new(parameter.name)
                .with_description(parameter.description)
                .with_required(parameter.otherwise.is_none())
        });
        Prompt::new(self.name, Some(self.description), Some(parameters.collect())).with_title(self.title)
    }

    fn filled(&self, given: &Map<String, Value>, selection: &Selection) -> Result<String, ErrorData> {
        if let Some(unknown) = given.keys().find(|name| !self.parameters.iter().any(|it| it.name == *name)) {
            let unknown: String = unknown.chars().take(64).collect();
            return Err(ErrorData::invalid_params(
                format!("{} has no argument {unknown:?}", self.name),
                None,
            ));
        }
        // Search only our own text for placeholders and tools, never the caller's arguments.
        let mut text = String::new();
        for (index, part) in shown::translated(self.text, selection).split(['{', '}']).enumerate() {
            match self.parameters.iter().find(|parameter| index % 2 == 1 && parameter.name == part) {
                Some(parameter) => text.push_str(&parameter.value(given)?),
                None => text.push_str(part),
            }
        }
        Ok(text)
    }
}

impl Parameter {
    fn value(&self, given: &Map<String, Value>) -> Result<String, ErrorData> {
        let value =
            given.get(self.name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
        value.or(self.otherwise).map(str::to_owned).ok_or_else(|| {
            ErrorData::invalid_params(format!("`{}` is missing: {}", self.name, self.description), None)
        })
    }
}

/// Lists the prompts for a selection of tools.
pub(super) fn of(selection: &Selection) -> Vec<Prompt> {
    PATTERNS.iter().filter(|pattern| pattern.is_offered(selection)).map(Pattern::listed).collect()
}

/// Returns one prompt, filled in.
pub(super) fn get(
    name: &str,
    given: &Map<String, Value>,
    selection: &Selection,
) -> Result<GetPromptResult, ErrorData> {
    let offered = PATTERNS.iter().filter(|pattern| pattern.is_offered(selection));
    let Some(pattern) = offered.clone().find(|pattern| pattern.name == name) else {
        let name: String = name.chars().take(64).collect();
        let known: Vec<&str> = offered.map(|pattern| pattern.name).collect();
        let message = format!("unknown prompt {name:?}; available: {}", known.join(", "));
        return Err(ErrorData::invalid_params(message, None));
    };
    let text = pattern.filled(given, selection)?;
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)])
        .with_description(pattern.description))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::ToolSet;

    fn text(name: &str, given: Value, set: ToolSet) -> Result<String, String> {
        let Value::Object(given) = given else { panic!("arguments are an object") };
        let got = get(name, &given, &set.into()).map_err(|error| error.message.into_owned())?;
        match &got.messages[0].content {
            rmcp::model::ContentBlock::Text(text) => Ok(text.text.clone()),
            other => panic!("{other:?} is no text"),
        }
    }

    fn names(set: ToolSet) -> Vec<String> {
        of(&set.into()).into_iter().map(|prompt| prompt.name).collect()
    }

    #[test]
    fn a_set_offers_the_prompts_whose_tools_it_contains() {
        assert_eq!(names(ToolSet::Core), ["try_safely", "change_with_a_way_back"]);
        assert_eq!(names(ToolSet::Standard).len(), PATTERNS.len());
        assert_eq!(names(ToolSet::Full).len(), PATTERNS.len());
        assert!(text("continue_work", json!({"task": "a"}), ToolSet::Core).is_err());
    }

    #[test]
    fn every_prompt_names_its_parameters_and_only_tools_of_the_set() {
        for set in [ToolSet::Core, ToolSet::Standard, ToolSet::Full] {
            for prompt in of(&set.into()) {
                let given: Map<String, Value> = prompt
                    .arguments
                    .iter()
                    .flatten()
                    .map(|argument| (argument.name.clone(), json!(format!("<{}>", argument.name))))
                    .collect();
                let filled = text(&prompt.name, Value::Object(given.clone()), set).unwrap();
                assert!(shown::is_about_shown(&filled, &set.into()), "{filled}");
                assert!(!filled.contains(['{', '}']), "{filled}");
                assert!(given.keys().all(|name| filled.contains(&format!("<{name}>"))), "{filled}");
            }
        }
    }

    #[test]
    fn prompts_use_the_tool_names_of_the_set() {
        let given = || json!({"task": "call snapshot_create {count}", "workspace": "web"});
        let core = text("change_with_a_way_back", given(), ToolSet::Core).unwrap();
        assert!(core.contains("with snapshot_create. Then") && core.starts_with("Workspace: web."), "{core}");
        let standard = text("change_with_a_way_back", given(), ToolSet::Standard).unwrap();
        assert!(standard.contains("with snapshot create. Then"), "{standard}");
        assert!(
            standard.contains("call snapshot_create {count}\n"),
            "the caller's text is unchanged: {standard}"
        );
    }

    #[test]
    fn missing_and_unknown_arguments_are_rejected() {
        let refused = |given| text("compare_approaches", given, ToolSet::Standard).unwrap_err();
        assert_eq!(refused(json!({})), "`task` is missing: What is to be done.");
        assert_eq!(refused(json!({"task": " "})), "`task` is missing: What is to be done.");
        assert_eq!(refused(json!({"task": "a", "way": "b"})), "compare_approaches has no argument \"way\"");
        let unknown = text("nothing", json!({}), ToolSet::Core).unwrap_err();
        assert_eq!(unknown, "unknown prompt \"nothing\"; available: try_safely, change_with_a_way_back");
        let default = text("compare_approaches", json!({"task": "a"}), ToolSet::Standard).unwrap();
        assert!(default.starts_with("Solve this in 3 different ways"), "{default}");
    }
}
