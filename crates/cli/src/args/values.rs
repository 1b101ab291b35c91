//! Values of flags.

use clap::Args;
use clap_complete::engine::ArgValueCompleter;

use crate::completions::{image_names, places, snapshot_names, workspace_names};

/// How a list is printed.
#[derive(Clone, Copy, Debug, Args)]
pub struct Names {
    /// Print only names or numbers, one per line; -q after the verb does the same
    #[arg(long)]
    pub names: bool,
}

/// Completes the names of workspaces.
pub fn workspaces() -> ArgValueCompleter {
    ArgValueCompleter::new(workspace_names)
}

/// Completes the names of the snapshots of the workspace named before.
pub fn snapshots() -> ArgValueCompleter {
    ArgValueCompleter::new(snapshot_names)
}

/// Completes the names of images.
pub fn images() -> ArgValueCompleter {
    ArgValueCompleter::new(image_names)
}

/// Completes paths of the host and, after `WS:`, of a workspace.
pub fn paths() -> ArgValueCompleter {
    ArgValueCompleter::new(places)
}

/// `KEY=VALUE`.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_needed_and_a_value_may_hold_anything() {
        assert_eq!(key_value("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(key_value("a="), Ok(("a".to_owned(), String::new())));
        assert!(key_value("=b").is_err() && key_value("a").is_err());
    }
}
