//! `agentiso net`: what workspaces may reach, and what they reached.

use std::collections::BTreeMap;
use std::io::{self, Write};

use agentiso_config::paths::Paths;
use agentiso_core::action::{NetworkLog, NetworkLogged, NetworkPolicy, NetworkPolicySet, WorkspaceList};
use agentiso_core::{Failure, NetworkChange, NetworkEntry};

use super::Daemon;
use crate::args::NetVerb;
use crate::output::Output;
use crate::ui::{Stream, Table, bytes};

/// Seconds one request waits for new entries.
const PATIENCE: u64 = 300;
/// The most entries of one request.
const PIECE: u32 = 1000;
const COLUMNS: [&str; 8] = ["AT", "WORKSPACE", "EVENT", "DESTINATION", "PORT", "SENT", "RECEIVED", "RULE"];

/// Performs a verb of `agentiso net`.
pub async fn net(here: &Paths, verb: NetVerb, output: Output) -> Result<u8, Failure> {
    let daemon = Daemon::reach(here, output).await?;
    match verb {
        NetVerb::Policy { workspace, rules } => {
            let request = NetworkPolicy::of(workspace, rules.change());
            let set = daemon.change("Still changing the rules", &request).await?;
            output.result(&set, |out| tell(out, &set))?;
        }
        NetVerb::Show { workspace } => {
            let request = NetworkPolicy::of(workspace, NetworkChange::default());
            let set = daemon.ask("Still looking", &request).await?;
            output.result(&set, |out| tell(out, &set))?;
        }
        NetVerb::Log { workspace, follow, refused, limit } => {
            let request = NetworkLog {
                workspace_id: workspace,
                refused: refused.then_some(true),
                limit: Some(limit),
                ..NetworkLog::default()
            };
            log(&daemon, request, follow, output).await?;
        }
    }
    Ok(0)
}

fn tell(out: &mut Stream, set: &NetworkPolicySet) -> io::Result<()> {
    for part in set.network_policy.in_words().split("; ") {
        writeln!(out, "{part}")?;
    }
    if let Some(ip) = &set.ip {
        writeln!(out, "address {ip}")?;
    }
    for name in &set.open_for_now {
        writeln!(out, "open for a limited time: {name}")?;
    }
    for one in &set.package_hosts {
        writeln!(out, "{}: used by {} of the {}", one.host, one.tool, one.place)?;
    }
    Ok(())
}

/// Shows the newest entries, and with `follow` new ones as they come.
async fn log(daemon: &Daemon, mut request: NetworkLog, follow: bool, output: Output) -> Result<(), Failure> {
    let newest = daemon.ask_quietly(&request).await?;
    let listed = daemon.ask_quietly(&WorkspaceList::default()).await?;
    let names: Names = listed.workspaces.into_iter().map(|one| (one.workspace_id, one.name)).collect();
    if !follow {
        return output.result(&newest, |out| table(&newest, &names).write(out));
    }
    let mut entries = newest.entries;
    request.after = Some(newest.next_after);
    request.wait_secs = Some(PATIENCE);
    request.limit = Some(PIECE);
    loop {
        for entry in &entries {
            output.result(entry, |out| writeln!(out, "{}", row(entry, &names).join("  ")))?;
        }
        let logged: NetworkLogged = daemon.ask_quietly(&request).await?;
        request.after = Some(logged.next_after);
        entries = logged.entries;
    }
}

/// The names of workspaces by their ids. Those that were removed have none.
type Names = BTreeMap<String, String>;

fn table(logged: &NetworkLogged, names: &Names) -> Table {
    let mut table = Table::new(COLUMNS).align_right(4).align_right(5).align_right(6);
    logged.entries.iter().for_each(|entry| table.row(row(entry, names)));
    table
}

fn row(entry: &NetworkEntry, names: &Names) -> [String; 8] {
    let name = names.get(&entry.workspace.to_string()).cloned();
    [
        at(entry),
        name.unwrap_or_else(|| entry.workspace.short()),
        entry.event.as_str().to_owned(),
        entry.destination(),
        format!("{}/{}", entry.port, entry.protocol.as_str()),
        bytes(entry.bytes_sent),
        bytes(entry.bytes_received),
        entry.rule.clone(),
    ]
}

/// Fractions of seconds do not matter to a reader.
fn at(entry: &NetworkEntry) -> String {
    let text = entry.at.to_string();
    let whole = text.split('.').next().unwrap_or_default().trim_end_matches('Z');
    format!("{whole}Z")
}
