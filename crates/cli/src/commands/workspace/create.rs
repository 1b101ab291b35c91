//! `agentiso create`: a machine that stays.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use agentiso_config::paths::Paths;
use agentiso_core::action::{
    PortForward, SetEnv, WorkspaceCreate, WorkspaceCreated, WorkspaceDestroy, WorkspaceUpdate,
};
use agentiso_core::{Code, Failure};

use crate::args::{self, Command, Conditions, PortPair};
use crate::commands::attend::variable;
use crate::commands::{Daemon, exec};
use crate::output::Output;
use crate::ui::{Stream, duration};

/// What a workspace gets once it runs.
struct Equipment {
    env: BTreeMap<String, Option<String>>,
    forwards: Vec<PortPair>,
    restart: bool,
}

/// Creates and starts a workspace, and runs a command in it if there is one. If it cannot be given what was asked for,
/// no workspace is left behind.
pub async fn create(here: &Paths, flags: args::Create, output: Output) -> Result<u8, Failure> {
    let env =
        flags.env.iter().filter_map(|text| text_variable(text).transpose()).collect::<Result<_, _>>()?;
    let equipment = Equipment { env, forwards: flags.forward, restart: flags.restart };
    let request = WorkspaceCreate {
        name: flags.name,
        base_image: flags.size.image,
        vcpus: flags.size.vcpus,
        memory_mb: flags.size.memory,
        disk_gb: flags.size.disk,
        labels: flags.labels.into_iter().collect(),
        ttl_secs: flags.ttl,
        idle_stop_secs: flags.idle_stop,
        cold: flags.size.cold,
        no_pool: flags.no_pool,
        network: flags.network.change_if_any(),
        ..WorkspaceCreate::default()
    };
    let daemon = Daemon::reach(here, output).await?;
    let made = daemon.change("Still starting the workspace", &request).await?;
    let ports = match equip(&daemon, &made, equipment).await {
        Ok(ports) => ports,
        Err(failure) => return Err(undo(&daemon, made, failure).await),
    };
    if flags.words.is_empty() {
        output.result(&made, |out| tell(out, &made, &ports))?;
        return Ok(0);
    }
    if !output.json && !output.quiet {
        // Standard output is the command's.
        let _ = tell(&mut Stream::stderr(), &made, &ports);
    }
    let conditions = Conditions { env: Vec::new(), workdir: None, user: None, timeout: None };
    let command = Command { conditions, tty: false, no_stdin: false, words: flags.words };
    exec::exec_in(&daemon, &made.workspace_id, &command, output).await
}

/// Sets variables, opens ports and so on. Returns the ports that are open.
async fn equip(
    daemon: &Daemon,
    made: &WorkspaceCreated,
    with: Equipment,
) -> Result<Vec<(u16, u16)>, Failure> {
    let workspace_id = made.workspace_id.clone();
    if !with.env.is_empty() {
        let request = SetEnv { workspace_id: workspace_id.clone(), vars: with.env.into() };
        daemon.change("Still setting variables", &request).await?;
    }
    if with.restart {
        let restart = Some(true);
        let request =
            WorkspaceUpdate { workspace_id: workspace_id.clone(), restart, ..WorkspaceUpdate::default() };
        daemon.change("Still updating the workspace", &request).await?;
    }
    let mut open = Vec::new();
    for PortPair { host, guest } in with.forwards {
        let request =
            PortForward { workspace_id: workspace_id.clone(), guest_port: guest, host_port: host, to: None };
        let forwarded = daemon.change("Still opening the port", &request).await?;
        open.push((forwarded.host_port, forwarded.guest_port));
    }
    Ok(open)
}

/// Removes a workspace that could not be equipped. If that fails too, both failures are told.
async fn undo(daemon: &Daemon, made: WorkspaceCreated, failure: Failure) -> Failure {
    if failure.code() == Code::Cancelled {
        return failure;
    }
    let WorkspaceCreated { workspace_id, name, .. } = made;
    match daemon.change("Still removing the workspace", &WorkspaceDestroy { workspace_id }).await {
        Ok(_) => failure,
        Err(also) => Failure::new(failure.code(), format!("{failure}; removing {name} failed too: {also}"))
            .with_remedy(format!("remove it: agentiso rm --force {name}")),
    }
}

fn text_variable(text: &str) -> Result<Option<(String, Option<String>)>, Failure> {
    let Some((name, value)) = variable(text)? else { return Ok(None) };
    let value = value.into_string().map_err(|_| {
        Failure::new(Code::InvalidArgument, format!("the value of the variable {name} is not UTF-8"))
    })?;
    Ok(Some((name, Some(value))))
}

fn tell(out: &mut Stream, made: &WorkspaceCreated, ports: &[(u16, u16)]) -> io::Result<()> {
    let took = duration(Duration::from_millis(made.boot_time_ms));
    writeln!(out, "Created {} ({}): {}, {took}.", made.name, made.workspace_id, made.tier)?;
    for (host, guest) in ports {
        writeln!(out, "Forwarding 127.0.0.1:{host} -> {guest}")?;
    }
    if out.is_terminal() {
        writeln!(out, "Try: agentiso exec {} CMD", made.name)?;
    }
    Ok(())
}
