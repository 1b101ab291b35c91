//! `agentiso forward`.

use std::io::Write;

use agentiso_core::Failure;
use agentiso_core::action::{PortForward, PortForwardList, PortForwardRemove};
use agentiso_runtime::Installation;

use super::Daemon;
use crate::args;
use crate::output::Output;
use crate::ui::Table;

/// Opens, lists or closes ports that lead into a workspace.
pub async fn forward(here: &Installation, flags: args::Forward, output: Output) -> Result<u8, Failure> {
    let daemon = Daemon::reach(here, output).await?;
    let args::Forward { workspace: workspace_id, port, host_port, rm, .. } = flags;
    match (port, rm) {
        (Some(guest_port), _) => {
            let wish = PortForward { workspace_id, guest_port, host_port };
            let open = daemon.ask("Still opening the port", &wish).await?;
            output.result(&open, |out| {
                writeln!(out, "127.0.0.1:{} leads to port {}.", open.host_port, open.guest_port)
            })?;
        }
        (None, Some(guest_port)) => {
            let wish = PortForwardRemove { workspace_id, guest_port };
            let closed = daemon.ask("Still closing the port", &wish).await?;
            output.result(&closed, |out| match closed.removed {
                true => writeln!(out, "Port {guest_port} is forwarded no more."),
                false => writeln!(out, "Port {guest_port} was not forwarded."),
            })?;
        }
        (None, None) => {
            let listed = daemon.ask("Still looking", &PortForwardList { workspace_id }).await?;
            output.result(&listed, |out| {
                let mut table = Table::new(["HOST", "PORT"]).align_right(1);
                for one in &listed.forwards {
                    table.row([format!("127.0.0.1:{}", one.host_port), one.guest_port.to_string()]);
                }
                table.write(out)
            })?;
        }
    }
    Ok(0)
}
