//! `agentiso label`.

use std::collections::BTreeMap;
use std::io::Write;

use agentiso_config::paths::Paths;
use agentiso_core::action::WorkspaceUpdate;
use agentiso_core::{Code, Failure};

use super::Daemon;
use super::workspace::labels_in_words;
use crate::args;
use crate::output::Output;

/// Changes the labels of a workspace and shows them.
pub async fn label(here: &Paths, flags: args::Label, output: Output) -> Result<u8, Failure> {
    let labels = flags.changes.iter().map(|text| change(text)).collect::<Result<BTreeMap<_, _>, _>>()?;
    // Nothing to change is a look.
    let request = WorkspaceUpdate { workspace_id: flags.workspace, labels, ..WorkspaceUpdate::default() };
    let updated = Daemon::reach(here, output).await?.change("Still changing labels", &request).await?;
    output.result(&updated, |out| writeln!(out, "{}", labels_in_words(&updated.labels)))?;
    Ok(0)
}

/// `KEY=VALUE` sets, `KEY-` removes.
fn change(text: &str) -> Result<(String, Option<String>), Failure> {
    match (text.split_once('='), text.strip_suffix('-')) {
        (Some((key, value)), _) if !key.is_empty() => Ok((key.to_owned(), Some(value.to_owned()))),
        (None, Some(key)) if !key.is_empty() => Ok((key.to_owned(), None)),
        _ => Err(Failure::new(Code::InvalidArgument, format!("{text:?} is neither KEY=VALUE nor KEY-"))
            .with_remedy("for example team=blue, or team- to remove it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_set_with_a_value_and_removed_with_a_hyphen() {
        assert_eq!(change("a=b-").unwrap(), ("a".to_owned(), Some("b-".to_owned())));
        assert_eq!(change("a-b-").unwrap(), ("a-b".to_owned(), None));
        for bad in ["a", "", "-", "=b"] {
            assert_eq!(change(bad).unwrap_err().code(), Code::InvalidArgument, "{bad}");
        }
    }
}
