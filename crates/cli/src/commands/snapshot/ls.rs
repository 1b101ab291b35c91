//! `agentiso snapshot ls`.

use std::io::Write;
use std::time::SystemTime;

use agentiso_core::Failure;
use agentiso_runtime::Installation;
use agentiso_runtime::workspaces::{SnapshotView, Workspaces};

use super::tree::tree;
use crate::output::Output;
use crate::ui::{Table, age, bytes};

/// Lists the snapshots of a workspace.
pub async fn ls(installation: &Installation, workspace: &str, output: Output) -> Result<u8, Failure> {
    let snapshots = Workspaces::open(installation).await?.snapshots(workspace)?;
    output.result(&snapshots, |out| {
        let columns = ["NAME", "MEMORY", "CREATED", "USED", "REFERENCED", "FORKS", "DESCRIPTION"];
        let mut table = Table::new(columns).align_right(3).align_right(4);
        let parents: Vec<_> = snapshots.iter().map(|snapshot| position(&snapshots, snapshot)).collect();
        for (branch, index) in tree(&parents) {
            table.row(row(&branch, &snapshots[index]));
        }
        table.write(out)?;
        if snapshots.is_empty() && out.is_terminal() {
            writeln!(out, "No snapshots yet. Try: agentiso snapshot create {workspace} NAME")?;
        }
        Ok(())
    })?;
    Ok(0)
}

/// Where the parent of a snapshot is in the list.
fn position(snapshots: &[SnapshotView], child: &SnapshotView) -> Option<usize> {
    let parent = child.parent.as_ref()?;
    snapshots.iter().position(|snapshot| snapshot.name == *parent)
}

fn row(branch: &str, snapshot: &SnapshotView) -> [String; 7] {
    let here = if snapshot.current { " *" } else { "" };
    let taken = SystemTime::from(snapshot.created).elapsed().unwrap_or_default();
    [
        format!("{branch}{}{here}", snapshot.name),
        if snapshot.memory { "yes" } else { "no" }.to_owned(),
        format!("{} ago", age(taken)),
        bytes(snapshot.used_bytes),
        bytes(snapshot.referenced_bytes),
        if snapshot.forks.is_empty() { "-".to_owned() } else { snapshot.forks.join(", ") },
        snapshot.description.clone(),
    ]
}
