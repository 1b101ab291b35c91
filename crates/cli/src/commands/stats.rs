//! `agentiso stats`: what running workspaces use, live.

use std::io::Write;
use std::time::Duration;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::{WorkspaceInfo, WorkspaceStatistics, WorkspaceStats, WorkspaceUse};

use super::Daemon;
use crate::args;
use crate::output::Output;
use crate::ui::{Stream, TOP, Table, bytes};

const COLUMNS: [&str; 7] = ["NAME", "CPU", "MEMORY", "OF", "READ/S", "WRITE/S", "DISK USED"];
/// Between two looks, as often as the daemon measures.
const EVERY: Duration = Duration::from_secs(2);

/// Shows what running workspaces use: on a terminal until it is interrupted, elsewhere once.
pub async fn stats(here: &Paths, flags: args::Stats, output: Output) -> Result<u8, Failure> {
    let daemon = Daemon::reach(here, output).await?;
    let live = Stream::stdout().is_terminal() && !output.json && !flags.once;
    loop {
        let shown = look(&daemon, &flags.workspaces).await?;
        output.result(&shown, |out| {
            if live {
                write!(out, "{TOP}")?;
            }
            table(&shown.workspaces).write(out)
        })?;
        if !live {
            return Ok(0);
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn look(daemon: &Daemon, only: &[String]) -> Result<WorkspaceStatistics, Failure> {
    let mut shown = daemon.ask_quietly(&WorkspaceStats {}).await?;
    let is_meant = |one: &WorkspaceUse| {
        only.is_empty() || only.iter().any(|name| *name == one.name || *name == one.workspace_id)
    };
    shown.workspaces.retain(is_meant);
    for name in only {
        if !shown.workspaces.iter().any(|one| one.name == *name || one.workspace_id == *name) {
            // It is stopped, or there is no such workspace, which this says.
            daemon.ask_quietly(&WorkspaceInfo { workspace_id: name.clone() }).await?;
        }
    }
    Ok(shown)
}

fn table(workspaces: &[WorkspaceUse]) -> Table {
    let mut table = (1..7).fold(Table::new(COLUMNS), Table::align_right);
    for one in workspaces {
        let known = |count: Option<u64>| count.map_or("-".to_owned(), bytes);
        table.row([
            one.name.clone(),
            one.cpu_percent.map_or("-".to_owned(), |percent| format!("{percent:.0} %")),
            bytes(one.memory_bytes),
            bytes(one.memory_size_bytes),
            known(one.read_bytes_per_sec),
            known(one.write_bytes_per_sec),
            bytes(one.disk_used_bytes),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_a_dash() -> std::io::Result<()> {
        let one = WorkspaceUse {
            workspace_id: "id".to_owned(),
            name: "web".to_owned(),
            pid: 1,
            cpu_percent: None,
            cpu_ms: 0,
            memory_bytes: 48 << 20,
            memory_size_bytes: 512 << 20,
            read_bytes: None,
            write_bytes: Some(0),
            read_bytes_per_sec: None,
            write_bytes_per_sec: Some(2048),
            disk_used_bytes: 1 << 20,
        };
        let (mut stream, capture) = Stream::captured(false, false);
        table(&[one]).write(&mut stream)?;
        assert_eq!(
            capture.text(),
            "NAME\tCPU\tMEMORY\tOF\tREAD/S\tWRITE/S\tDISK USED\n\
             web\t-\t48.0 MiB\t512.0 MiB\t-\t2.0 KiB\t1.0 MiB\n"
        );
        Ok(())
    }
}
