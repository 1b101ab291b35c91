//! `agentiso forward`: ports of this host that lead into a workspace.

use std::io::Write;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::{PortForward, PortForwardList, PortForwardRemove};

use super::Daemon;
use crate::args::{ForwardVerb, PortPair};
use crate::output::Output;
use crate::ui::Table;

/// Opens, lists or closes ports that lead into a workspace.
pub async fn forward(here: &Paths, verb: ForwardVerb, output: Output) -> Result<u8, Failure> {
    let daemon = Daemon::reach(here, output).await?;
    match verb {
        ForwardVerb::Add { workspace: workspace_id, ports: PortPair { host, guest }, to } => {
            let to_name = to.as_ref().map(|to| format!(" of {to}")).unwrap_or_default();
            let request = PortForward { workspace_id, guest_port: guest, host_port: host, to };
            let open = daemon.ask("Still opening the port", &request).await?;
            output.result(&open, |out| {
                writeln!(out, "Forwarding 127.0.0.1:{} -> {}{to_name}", open.host_port, open.guest_port)
            })?;
        }
        ForwardVerb::Rm { workspace: workspace_id, ports: PortPair { host, guest: guest_port } } => {
            let request = PortForwardRemove { workspace_id, guest_port, host_port: host };
            let closed = daemon.ask("Still closing the port", &request).await?;
            output.result(&closed, |out| match closed.removed {
                true => writeln!(out, "Removed the forward to port {guest_port}."),
                false => writeln!(out, "Port {guest_port} was not forwarded."),
            })?;
        }
        ForwardVerb::Ls { workspace: workspace_id, only } => {
            let listed = daemon.ask("Still looking", &PortForwardList { workspace_id }).await?;
            output.result(&listed, |out| {
                if only.names {
                    return listed.forwards.iter().try_for_each(|one| writeln!(out, "{}", one.guest_port));
                }
                let mut table = Table::new(["HOST", "PORT"]);
                for one in &listed.forwards {
                    let of = one.to.as_ref().map(|to| format!(" of {to}")).unwrap_or_default();
                    table.row([format!("127.0.0.1:{}", one.host_port), format!("{}{of}", one.guest_port)]);
                }
                table.write(out)
            })?;
        }
    }
    Ok(0)
}
