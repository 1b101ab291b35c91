//! `agentiso edit`.

use std::io::Write;

use agentiso_config::paths::Paths;
use agentiso_core::action::FileEdit;
use agentiso_core::{Failure, Secret};

use super::Daemon;
use crate::args;
use crate::output::Output;

/// Replaces text in a file.
pub async fn edit(here: &Paths, flags: args::Edit, output: Output) -> Result<u8, Failure> {
    let request = FileEdit {
        workspace_id: flags.workspace,
        path: flags.path,
        old_string: Some(flags.old.into()),
        new_string: Some(flags.new.into()),
        replace_all: flags.all,
        // A person at a terminal does not see which one was first.
        expect_unique: !flags.all,
        edits: Secret::default(),
    };
    let edited = Daemon::reach(here, output).await?.ask("Still editing", &request).await?;
    output.result(&edited, |out| {
        let places = if edited.replacements == 1 { "place" } else { "places" };
        writeln!(out, "Changed {} {places} in {}.", edited.replacements, edited.path)
    })?;
    Ok(0)
}
