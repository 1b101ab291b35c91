//! Clients that give up on a call before it has ended.
//!
//! Those that ask for no progress hear nothing while they wait, and most of them give up after a minute. Of those that
//! ask for progress some wait as long as it comes, and others (Codex, goose) give up after five minutes all the same.
//! A command that is given up is ended, and what it printed is lost; so calls return before that.

use serde_json::{Value, json};

use super::arguments::Request;

/// Seconds that a client waits at least if it asks for no progress.
const SILENT: u64 = 45;
/// Seconds that a client waits at least if it asks for progress.
const INFORMED: u64 = 240;
/// What `wait_secs` may be; more is refused, not shortened.
const LONGEST_WAIT: u64 = 3600;

/// Has a call return before its client gives up: a command continues in the background, unless the client says
/// otherwise, and waiting for a job ends early.
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
