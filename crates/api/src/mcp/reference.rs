//! Generates the reference page of all tools.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::prompts;
use super::tools::{self, Tool};
use crate::catalogue::Entry;
use agentiso_core::action::ToolSet;

/// Renders `docs/tools.md`.
pub fn page() -> String {
    let mut page = String::from(
        "# Tools\n\n\
         The MCP tools of `agentiso serve` (standard input and output) and of `/mcp` (HTTP). `--tools core|standard|full`\n\
         selects the tools that are listed, and single tools can be added after commas (`--tools core,snapshot_diff`). Every\n\
         tool below can be called, listed or not.\n\n\
         `workspace_id` is the id or the name of a workspace. A failed call is a result with `isError` whose structured\n\
         content has an `error` with a stable `code` (see [errors](errors.md)), a `message` and, if the caller can do\n\
         something about it, a `remedy`.\n\n\
         | tool | what it does | listed in |\n|---|---|---|\n",
    );
    for tool in tools::all() {
        let name = tool.spec.name;
        let _ = writeln!(page, "| [`{name}`](#{name}) | {} | {} |", tool.title, sets(tool));
    }
    for tool in tools::all() {
        page.push('\n');
        page.push_str(&section(tool));
    }
    page.push_str(
        "\n## Prompts\n\nThe patterns of the [guide](guide.md), for clients that offer prompts (Claude Code as `/` commands).\n\
         Each is offered with the sets that list all of its tools.\n\n| prompt | arguments | |\n|---|---|---|\n",
    );
    for prompt in prompts::of(&ToolSet::Full.into()) {
        let arguments: Vec<String> = prompt
            .arguments
            .iter()
            .flatten()
            .map(|argument| match argument.required {
                Some(true) => format!("`{}`", argument.name),
                _ => format!("`{}` (optional)", argument.name),
            })
            .collect();
        let about = prompt.description.as_deref().unwrap_or_default();
        let _ = writeln!(page, "| `{}` | {} | {about} |", prompt.name, arguments.join(", "));
    }
    page
}

fn sets(tool: &Tool) -> String {
    let name = |set: &ToolSet| match set {
        ToolSet::Core => "core",
        ToolSet::Standard => "standard",
        ToolSet::Full => "full",
    };
    tool.spec.sets.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn section(tool: &Tool) -> String {
    let mut text = format!("## {}\n\n{}. {}\n\n", tool.spec.name, tool.title, tool.description);
    let _ = writeln!(text, "{}\n", hints(tool));
    text.push_str(&parameters(&tool.input));
    for (action, words) in actions(tool) {
        let of = if words.is_empty() { String::new() } else { format!(" of {}", words.join(", ")) };
        let _ = writeln!(text, "\nResult{of}:\n");
        text.push_str(&fields(action.output_schema()));
    }
    text
}

/// The actions of a tool, each with its action words.
fn actions(tool: &Tool) -> Vec<(&'static Entry, Vec<&'static str>)> {
    let mut actions: Vec<(&Entry, Vec<&str>)> = Vec::new();
    for (word, _, entry) in &tool.forms {
        match actions.iter_mut().find(|(known, _)| known.about.name == entry.about.name) {
            Some((_, words)) => words.extend(word),
            None => actions.push((entry, word.iter().copied().collect())),
        }
    }
    actions
}

fn hints(tool: &Tool) -> String {
    let mut words = vec![match (tool.hints.read_only, tool.hints.destructive) {
        (true, _) => "Only reads",
        (false, false) => "Changes things",
        (false, true) => "May destroy data",
    }];
    words.push(if tool.hints.idempotent { "idempotent" } else { "not idempotent" });
    if tool.hints.open_world {
        words.push("affects more than the workspace");
    }
    format!("*{}.*", words.join(", "))
}

fn parameters(schema: &Map<String, Value>) -> String {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    // Required parameters first, each group sorted by name.
    let (first, rest): (Vec<_>, Vec<_>) = properties.partition(|(name, _)| required.contains(&name.as_str()));
    if first.is_empty() && rest.is_empty() {
        return "No parameters.\n".to_owned();
    }
    let mut text = String::from("| parameter | type | |\n|---|---|---|\n");
    for (name, property) in first.into_iter().chain(rest) {
        let needed = if required.contains(&name.as_str()) { " **Required.**" } else { "" };
        let _ = writeln!(
            text,
            "| `{name}` | {} | {}{needed} |",
            kind(property),
            cell(property["description"].as_str().unwrap_or_default())
        );
    }
    text
}

fn fields(schema: &Value) -> String {
    let mut text = String::from("| field | type | |\n|---|---|---|\n");
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for name in &required {
        field(&mut text, name, &schema["properties"][name]);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if !required.contains(&name.as_str()) {
            field(&mut text, name, property);
        }
    }
    text
}

fn field(text: &mut String, name: &str, property: &Value) {
    let about = cell(property["description"].as_str().unwrap_or_default());
    let _ = writeln!(text, "| `{name}` | {} | {about} |", kind(property));
}

/// Short name of a type.
fn kind(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        return words
            .iter()
            .filter_map(Value::as_str)
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(" or ");
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("array of {}", kind_of_items(&schema["items"])),
        Value::String(kind) => format!("{kind}{}", bounds(schema)),
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            kinds.join(" or ")
        }
        _ => match schema["anyOf"].as_array() {
            Some(kinds) => kinds.iter().map(kind).collect::<Vec<_>>().join(" or "),
            None => "anything".to_owned(),
        },
    }
}

/// The bounds of a number, if it has any.
fn bounds(schema: &Value) -> String {
    match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
        (least, Some(most)) => format!(" ({} to {most})", least.unwrap_or(0)),
        (Some(least), None) if least != 0 => format!(" (at least {least})"),
        (_, None) => String::new(),
    }
}

fn kind_of_items(items: &Value) -> String {
    match items["properties"].as_object() {
        Some(properties) => {
            let names: Vec<String> = properties.keys().map(|name| format!("`{name}`")).collect();
            format!("object ({})", names.join(", "))
        }
        None => kind(items),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
