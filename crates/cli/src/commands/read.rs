//! `agentiso read`.

use std::io::Write;

use agentiso_config::paths::Paths;
use agentiso_core::action::{Encoding, FileContent, FileRead};
use agentiso_core::{Code, Failure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Daemon;
use crate::args;
use crate::output::Output;

/// Bytes of one call.
const PIECE: u64 = 4 << 20;

/// Prints a file, whatever is in it.
pub async fn read(here: &Paths, flags: args::Read, output: Output) -> Result<u8, Failure> {
    let daemon = Daemon::reach(here, output).await?;
    let mut request = FileRead { workspace_id: flags.workspace, path: flags.path, ..FileRead::default() };
    if output.json {
        let content = match daemon.ask("Still reading", &request).await {
            Err(failure) if failure.code() == Code::FileNotText => {
                request.encoding = Some(Encoding::Base64);
                daemon.ask("Still reading", &request).await?
            }
            read => read?,
        };
        output.result(&content, |_| Ok(()))?;
        return Ok(0);
    }
    print(&daemon, &request.workspace_id, &request.path, output).await
}

/// Prints the bytes of a file, whatever they are.
pub(super) async fn print(
    daemon: &Daemon,
    workspace: &str,
    path: &str,
    output: Output,
) -> Result<u8, Failure> {
    let mut request = FileRead {
        workspace_id: workspace.to_owned(),
        path: path.to_owned(),
        encoding: Some(Encoding::Base64),
        limit: Some(PIECE),
        ..FileRead::default()
    };
    loop {
        let content = daemon.ask("Still reading", &request).await?;
        let bytes = decoded(&content)?;
        Output { json: false, ..output }.result(&content, |out| out.write_all(&bytes))?;
        if !content.truncated || content.bytes == 0 {
            return Ok(0);
        }
        request.offset = Some(content.offset + content.bytes);
    }
}

fn decoded(content: &FileContent) -> Result<Vec<u8>, Failure> {
    STANDARD.decode(&content.content).map_err(|error| {
        Failure::new(Code::DaemonUnavailable, format!("the daemon's response is invalid: {error}"))
    })
}
