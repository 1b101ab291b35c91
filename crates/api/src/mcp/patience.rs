//! Clients that hear nothing while they wait, and give up after a minute as a rule.

use serde_json::json;

use super::arguments::Request;

/// Seconds after which a command goes on in the background, so that its output is not lost with a client's patience.
const PATIENCE: u64 = 45;

/// Has a command that such a client runs go on in the background, unless the client says otherwise.
pub(super) fn limit(request: &mut Request) {
    if request.entry.about.name == "exec" {
        request.arguments.entry("background_after_secs").or_insert_with(|| json!(PATIENCE));
    }
}
