//! Keeps calls shorter than the timeouts of clients.
//!
//! Clients that do not ask for progress receive nothing while they wait, and most of them time out after a minute. Of
//! those that ask for progress, some wait as long as it arrives, and others (Codex, goose) time out after five minutes
//! anyway. When a client gives up on a command, the command is killed and its output lost, so calls return before that.

use serde_json::{Value, json};

use super::arguments::Request;

/// Minimum timeout, in seconds, of clients that do not ask for progress.
const SILENT: u64 = 45;
/// Minimum timeout, in seconds, of clients that ask for progress.
const INFORMED: u64 = 240;
/// Maximum of `wait_secs`. Larger values are rejected, not shortened.
const LONGEST_WAIT: u64 = 3600;

/// Makes a call return before its client times out: a command continues in the background, unless the client disables
/// that, and a wait for a job ends early.
pub(super) fn limit(request: &mut Request, asks_for_progress: bool) {
    let patience = if asks_for_progress { INFORMED } else { SILENT };
    match request.entry.about.name {
        "exec" => {
            request.arguments.entry("background_after_secs").or_insert_with(|| json!(patience));
        }
        "exec_poll" => {
            let asked = request.arguments.get("wait_secs").and_then(Value::as_u64);
            if asked.is_some_and(|asked| (patience..=LONGEST_WAIT).contains(&asked)) {
                request.arguments.insert("wait_secs".to_owned(), json!(patience));
            }
        }
        _ => {}
    }
}
