//! Converts outcomes and failures to MCP results.

use agentiso_core::Failure;
use agentiso_core::wire::in_brief;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use super::selection::Selection;
use super::shown;
use crate::Answer;

/// Returns the outcome as structured content and as text.
pub(super) fn of(outcome: Result<Answer, Failure>, selection: &Selection) -> CallToolResult {
    match outcome {
        Ok(answer) => {
            let answer = with_hint_for(selection, answer);
            let mut result = CallToolResult::success(vec![ContentBlock::text(answer.text)]);
            result.structured_content = Some(answer.structured);
            result
        }
        Err(failure) => {
            let failure = shown::failure(failure, selection);
            let mut result = CallToolResult::error(vec![ContentBlock::text(in_words(&failure))]);
            result.structured_content = Some(json!({"error": for_programs(&failure)}));
            result
        }
    }
}

/// Restricts the hint of an answer to tools of the selection.
fn with_hint_for(selection: &Selection, mut answer: Answer) -> Answer {
    let Some(hint) = answer.structured["hint"].as_str().map(str::to_owned) else { return answer };
    let line = format!("\n[hint: {hint}]");
    let before = answer.text.strip_suffix(&line).map(str::to_owned);
    match shown::clauses(&hint, selection) {
        Some(hint) => {
            answer.text = before.map_or(answer.text, |text| format!("{text}\n[hint: {hint}]"));
            answer.structured["hint"] = Value::String(hint);
        }
        None => {
            answer.text = before.unwrap_or(answer.text);
            answer.structured["hint"] = Value::Null;
        }
    }
    answer
}

/// Converts a failure of a resource, for which the protocol only has its own error type.
pub(super) fn resource_error(failure: &Failure) -> ErrorData {
    let data = Some(for_programs(failure));
    let message = in_brief(failure.message());
    match failure.code().http_status() {
        404 => ErrorData::resource_not_found(message, data),
        400 => ErrorData::invalid_params(message, data),
        _ => ErrorData::internal_error(message, data),
    }
}

fn in_words(failure: &Failure) -> String {
    let text = format!("{}: {}", failure.code().as_str(), in_brief(failure.message()));
    match failure.remedy() {
        Some(remedy) => format!("{text}\n{}", in_brief(remedy)),
        None => text,
    }
}

fn for_programs(failure: &Failure) -> Value {
    let (message, remedy) = (in_brief(failure.message()), failure.remedy().map(in_brief));
    json!({"code": failure.code().as_str(), "message": message, "remedy": remedy})
}
