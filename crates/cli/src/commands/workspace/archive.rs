//! `agentiso workspace export` and `import`.

use std::io::Write;
use std::path::{Path, absolute};

use agentiso_config::paths::Paths;
use agentiso_core::action::{WorkspaceExport, WorkspaceImport};
use agentiso_core::{Code, Failure};

use crate::commands::Daemon;
use crate::output::Output;
use crate::ui::bytes;

/// Writes a workspace to an archive. The daemon writes it; it ends with this process.
pub async fn export(here: &Paths, workspace: String, file: &Path, output: Output) -> Result<u8, Failure> {
    let request = WorkspaceExport { workspace_id: workspace, host_path: host_path(file)? };
    let written = Daemon::reach(here, output).await?.ask("Still copying files", &request).await?;
    output.result(&written, |out| {
        let (name, files, size) = (&written.name, written.files, bytes(written.bytes));
        writeln!(out, "Exported {name} to {} ({files} files, {size}).", written.host_path)
    })?;
    Ok(0)
}

/// Makes a workspace from an archive. It ends with this process, unless the workspace is being started already.
pub async fn import(here: &Paths, file: &Path, name: Option<String>, output: Output) -> Result<u8, Failure> {
    let request = WorkspaceImport { host_path: host_path(file)?, name };
    let made = Daemon::reach(here, output).await?.ask("Still copying files", &request).await?;
    output.result(&made, |out| {
        writeln!(out, "Imported {}: {} files, image {}.", made.name, made.files, made.base_image)?;
        writeln!(out, "Try: agentiso shell {}", made.name)
    })?;
    Ok(0)
}

/// A path of this process's as the daemon understands it.
fn host_path(file: &Path) -> Result<String, Failure> {
    let invalid = |reason: String| Failure::new(Code::InvalidArgument, reason);
    let path = absolute(file).map_err(|error| invalid(format!("{}: {error}", file.display())))?;
    let path = path.into_os_string().into_string();
    path.map_err(|path| invalid(format!("{} is not UTF-8", Path::new(&path).display())))
}
