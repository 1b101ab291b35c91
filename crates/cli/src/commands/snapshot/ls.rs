//! `agentiso snapshot ls`.

use std::io::Write;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::{SnapshotDetails, SnapshotList};

use crate::args::Names;
use crate::commands::Daemon;
use crate::output::Output;
use crate::ui::{Table, age_since, bytes, tree};

const COLUMNS: [&str; 7] = ["NAME", "MEMORY", "CREATED", "USED", "REFERENCED", "FORKS", "DESCRIPTION"];

/// Lists the snapshots of a workspace.
pub async fn ls(here: &Paths, workspace: String, only: Names, output: Output) -> Result<u8, Failure> {
    let request = SnapshotList { workspace_id: workspace, kind: None };
    let listed = Daemon::reach(here, output).await?.ask("Still looking", &request).await?;
    let snapshots = &listed.snapshots;
    output.result(&listed, |out| {
        if only.names {
            return snapshots.iter().try_for_each(|snapshot| writeln!(out, "{}", snapshot.brief.name));
        }
        let mut table = Table::new(COLUMNS).align_right(3).align_right(4);
        let parents: Vec<_> = snapshots.iter().map(|snapshot| position(snapshots, snapshot)).collect();
        for (branch, index) in tree(&parents) {
            table.row(row(&branch, &snapshots[index]));
        }
        table.write(out)?;
        if snapshots.is_empty() && out.is_terminal() {
            writeln!(out, "No snapshots yet. Try: agentiso snapshot create {} NAME", request.workspace_id)?;
        }
        Ok(())
    })?;
    Ok(0)
}

/// Where the parent of a snapshot is in the list.
fn position(snapshots: &[SnapshotDetails], child: &SnapshotDetails) -> Option<usize> {
    let parent = child.brief.parent.as_ref()?;
    snapshots.iter().position(|snapshot| snapshot.brief.name == *parent)
}

fn row(branch: &str, snapshot: &SnapshotDetails) -> [String; 7] {
    let here = if snapshot.current { " *" } else { "" };
    [
        format!("{branch}{}{here}", snapshot.brief.name),
        match (snapshot.brief.has_memory, &snapshot.damage) {
            (true, Some(_)) => "damaged",
            (true, None) => "yes",
            (false, _) => "no",
        }
        .to_owned(),
        format!("{} ago", age_since(&snapshot.brief.created_at)),
        bytes(snapshot.used_bytes),
        bytes(snapshot.referenced_bytes),
        if snapshot.forks.is_empty() { "-".to_owned() } else { snapshot.forks.join(", ") },
        snapshot.description.clone(),
    ]
}
