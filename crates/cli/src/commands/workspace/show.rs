//! `agentiso ls` and `agentiso info`.

use std::io::{self, Write};
use std::time::SystemTime;

use agentiso_core::Failure;
use agentiso_runtime::Installation;
use agentiso_runtime::workspaces::{WorkspaceView, Workspaces};

use crate::output::Output;
use crate::ui::{Stream, Table, age, bytes};

/// Lists workspaces.
pub async fn ls(installation: &Installation, output: Output) -> Result<u8, Failure> {
    let workspaces = Workspaces::open(installation).await?.list()?;
    output.result(&workspaces, |out| {
        let columns = ["NAME", "STATE", "IMAGE", "VCPUS", "MEMORY", "DISK", "TIER", "AGE", "FROM"];
        let mut table = [3, 4, 5, 7].into_iter().fold(Table::new(columns), Table::align_right);
        for workspace in &workspaces {
            table.row(row(workspace));
        }
        table.write(out)?;
        if workspaces.is_empty() && out.is_terminal() {
            writeln!(out, "No workspaces yet. Try: agentiso create")?;
        }
        Ok(())
    })?;
    Ok(0)
}

/// Shows one workspace.
pub async fn info(installation: &Installation, asked: &str, output: Output) -> Result<u8, Failure> {
    let workspace = Workspaces::open(installation).await?.info(asked)?;
    output.result(&workspace, |out| describe(out, &workspace))?;
    Ok(0)
}

fn describe(out: &mut Stream, workspace: &WorkspaceView) -> io::Result<()> {
    let WorkspaceView { id, name, state, image, resources, created, tier, .. } = workspace;
    let reason = workspace.stop_reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    writeln!(out, "name     {name}")?;
    writeln!(out, "id       {id} ({} for short)", id.short())?;
    writeln!(out, "state    {state}{reason}")?;
    writeln!(out, "image    {image}")?;
    writeln!(
        out,
        "size     {} vcpus, {} MiB of memory, {} GiB of disk",
        resources.vcpus, resources.memory_mb, resources.disk_gb
    )?;
    writeln!(out, "created  {created}")?;
    writeln!(out, "tier     {tier}")?;
    if workspace.forked_from.is_some() {
        writeln!(out, "from     {}", from(workspace))?;
    }
    if let Some(accel) = workspace.accel {
        writeln!(out, "accel    {accel}")?;
    }
    if let Some(pid) = workspace.pid {
        writeln!(out, "process  {pid}")?;
    }
    Ok(())
}

fn row(workspace: &WorkspaceView) -> [String; 9] {
    let size = workspace.resources;
    let born = SystemTime::from(workspace.created);
    [
        workspace.name.to_string(),
        workspace.state.to_owned(),
        workspace.image.to_string(),
        size.vcpus.to_string(),
        bytes(size.memory_bytes()),
        bytes(size.disk_bytes()),
        workspace.tier.clone(),
        age(born.elapsed().unwrap_or_default()),
        from(workspace),
    ]
}

/// Where a workspace came from, if it is a fork: `source` or `source@snapshot`.
fn from(workspace: &WorkspaceView) -> String {
    match &workspace.forked_from {
        None => "-".to_owned(),
        Some(from) => match &from.snapshot {
            None => from.name.to_string(),
            Some(snapshot) => format!("{}@{snapshot}", from.name),
        },
    }
}
