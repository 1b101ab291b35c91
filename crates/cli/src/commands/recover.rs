//! `agentiso recover`: workspaces whose disks the database does not know.

use std::io::Write;

use agentiso_core::Failure;
use agentiso_runtime::Installation;
use agentiso_runtime::workspaces::{Recovered, Workspaces};

use crate::args;
use crate::output::Output;
use crate::ui::Table;

/// Lists them, or takes them back. The exit code is 1 if one could not be taken back.
pub async fn recover(here: &Installation, flags: args::Recover, output: Output) -> Result<u8, Failure> {
    let recovery = Workspaces::open(here).await?.recover_lost(flags.apply)?;
    let failed = recovery.workspaces.iter().any(|one| one.problem.is_some());
    output.result(&recovery, |out| {
        if recovery.workspaces.is_empty() {
            writeln!(out, "No workspaces in {}.", here.paths.lost_dir().display())?;
        } else {
            let mut table = Table::new(["NAME", "IMAGE", "SNAPSHOTS", ""]);
            for one in &recovery.workspaces {
                table.row([
                    one.name.clone(),
                    one.image.clone(),
                    one.snapshots.len().to_string(),
                    outcome(one, recovery.applied),
                ]);
            }
            table.write(out)?;
        }
        for disk in &recovery.other_disks {
            writeln!(out, "Disk without a record: {disk}")?;
        }
        if !recovery.applied && !recovery.workspaces.is_empty() {
            writeln!(out, "Nothing was changed. To recover them, run: agentiso recover --apply")?;
        }
        Ok(())
    })?;
    Ok(u8::from(flags.apply && failed))
}

fn outcome(one: &Recovered, applied: bool) -> String {
    let mut parts = Vec::new();
    match (&one.problem, &one.now) {
        (Some(problem), _) => parts.push(format!("cannot be recovered: {problem}")),
        (None, Some(now)) if *now == one.name => parts.push("recovered, stopped".to_owned()),
        (None, Some(now)) => parts.push(format!("recovered as {now}, stopped")),
        (None, None) if applied => parts.push("not recovered".to_owned()),
        (None, None) => parts.push("can be recovered".to_owned()),
    }
    if !one.lost_snapshots.is_empty() {
        parts.push(format!("without the snapshots {}", one.lost_snapshots.join(", ")));
    }
    if !one.without_memory.is_empty() {
        parts.push(format!("without the memory of {}", one.without_memory.join(", ")));
    }
    parts.join("; ")
}
