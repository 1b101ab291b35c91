//! Outcomes and failures as what a client gets.

use agentiso_core::{Code, Failure};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use super::selection::Selection;
use super::shown;
use crate::Answer;
use crate::brief::in_brief;

/// What a client gets: the outcome for programs, and in words.
pub(super) fn of(outcome: Result<Answer, Failure>, selection: &Selection) -> CallToolResult {
    match outcome {
        Ok(answer) => {
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

/// A failure of a resource, for which there is only the protocol's own kind of error.
pub(super) fn resource_error(failure: &Failure) -> ErrorData {
    let data = Some(for_programs(failure));
    let message = in_brief(failure.message());
    match failure.code() {
        Code::WorkspaceNotFound | Code::SnapshotNotFound | Code::FileNotFound => {
            ErrorData::resource_not_found(message, data)
        }
        Code::InvalidArgument => ErrorData::invalid_params(message, data),
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
