//! Failures in the OpenAPI document: one response per status, with the codes that it carries.

use std::collections::BTreeMap;

use agentiso_core::Code;
use agentiso_core::wire::ErrorBody;
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::reference;

/// The codes of each status.
fn by_status() -> BTreeMap<u16, Vec<Code>> {
    let mut statuses: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in Code::all() {
        statuses.entry(code.http_status()).or_default().push(*code);
    }
    statuses
}

/// A response for each status, by the name that operations refer to.
pub(super) fn responses(generator: &mut SchemaGenerator) -> Map<String, Value> {
    let body = reference::<ErrorBody>(generator);
    let response = |(status, codes): (u16, Vec<Code>)| {
        let meanings = codes.iter().map(|code| format!("- `{code}`: {}", code.meaning()));
        let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
        let response = json!({
            "description": meanings.collect::<Vec<_>>().join("\n"),
            "content": { "application/json": { "schema": {
                "allOf": [body],
                "properties": { "error": { "properties": { "code": { "enum": names } } } },
            } } },
        });
        (name(status), response)
    };
    by_status().into_iter().map(response).collect()
}

/// References to the failures that any operation may answer with.
pub(super) fn references() -> impl Iterator<Item = (String, Value)> {
    by_status().into_keys().map(|status| {
        (status.to_string(), json!({ "$ref": format!("#/components/responses/{}", name(status)) }))
    })
}

fn name(status: u16) -> String {
    format!("Error{status}")
}
