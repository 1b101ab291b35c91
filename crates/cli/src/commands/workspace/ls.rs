//! `agentiso ls`: workspaces, each fork below the workspace it was made from.

use std::io::Write;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::{WorkspaceBrief, WorkspaceList};

use super::labels_in_words;
use crate::args;
use crate::commands::Daemon;
use crate::output::Output;
use crate::ui::{Table, age_since, bytes, tree};

const COLUMNS: [&str; 9] = ["NAME", "STATE", "IMAGE", "VCPUS", "MEMORY", "DISK", "AGE", "FROM", "LABELS"];

/// Lists workspaces.
pub async fn ls(here: &Paths, flags: args::Ls, output: Output) -> Result<u8, Failure> {
    let chosen = flags.state.is_some() || !flags.labels.is_empty();
    let request = WorkspaceList {
        state_filter: flags.state.map(Into::into),
        labels: flags.labels.into_iter().collect(),
        owned: false,
    };
    let listed = Daemon::reach(here, output).await?.ask("Still looking", &request).await?;
    output.result(&listed, |out| {
        let order = tree(&parents(&listed.workspaces));
        if flags.only.names {
            let names = order.iter().map(|(_, index)| &listed.workspaces[*index].name);
            return names.into_iter().try_for_each(|name| writeln!(out, "{name}"));
        }
        let drawn = out.is_terminal();
        let mut table = [3, 4, 5, 6].into_iter().fold(Table::new(COLUMNS), Table::align_right);
        for (branch, index) in order {
            // Programs get bare names.
            table.row(row(if drawn { &branch } else { "" }, &listed.workspaces[index]));
        }
        table.write(out)?;
        if listed.workspaces.is_empty() && !chosen && out.is_terminal() {
            writeln!(out, "No workspaces yet. Try: agentiso create")?;
        }
        Ok(())
    })?;
    Ok(0)
}

/// Where in the list the source of each workspace is; a source that is gone or not listed is none.
fn parents(workspaces: &[WorkspaceBrief]) -> Vec<Option<usize>> {
    let position = |workspace: &WorkspaceBrief| {
        let source = workspace.source_id.as_ref()?;
        workspaces.iter().position(|other| other.workspace_id == *source)
    };
    workspaces.iter().map(position).collect()
}

fn row(branch: &str, workspace: &WorkspaceBrief) -> [String; 9] {
    let size = workspace.resources;
    [
        format!("{branch}{}", workspace.name),
        workspace.state.to_string(),
        workspace.base_image.clone(),
        size.vcpus.to_string(),
        bytes(u64::from(size.memory_mb) << 20),
        bytes(u64::from(size.disk_gb) << 30),
        age_since(&workspace.created_at),
        workspace.source.clone().unwrap_or_else(|| "-".to_owned()),
        labels_in_words(&workspace.labels),
    ]
}
