//! `agentiso exec`: a command in a workspace, which goes on afterwards.
//!
//! ```text
//!   flags checked ─► workspace attached ─► command runs ─► exits ─► exit code
//!                        │ signal             │ signal: passed on to the command
//!                        ▼                    │ again: command ended with all its children
//!                  nothing has changed        ▼
//!                                     the workspace goes on
//! ```

use std::time::Duration;

use agentiso_core::{Failure, ImageName, WorkspaceId, WorkspaceName};
use agentiso_runtime::workspaces::{Attached, Workspaces};
use agentiso_runtime::{Installation, OciDefaults};
use serde::Serialize;

use super::attend::{
    CommandReport, Outcome, Signals, attend, command, exit_code, signal_code, with_image_defaults,
};
use crate::args;
use crate::output::Output;

/// How long the machine may take to hear that a command is to end.
const GOODBYE: Duration = Duration::from_secs(5);

/// What a command in a workspace came to.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    command: CommandReport,
    workspace: WorkspaceName,
    workspace_id: WorkspaceId,
}

/// Runs a command in a workspace and returns its exit code.
pub async fn exec(installation: &Installation, flags: args::Exec, output: Output) -> Result<u8, Failure> {
    let exec = command(&flags.command, output)?;
    let mut signals = Signals::new()?;
    let attached = tokio::select! {
        attached = reach(installation, &flags.workspace) => attached?,
        number = signals.ending() => return Ok(signal_code(number)),
    };
    let exec = with_image_defaults(exec, &defaults(installation, &attached.workspace.image));
    match attend(attached.machine(), exec, &mut signals, output).await? {
        Outcome::Interrupted(number) => {
            part(&attached).await;
            Ok(signal_code(number))
        }
        Outcome::Refused(code, failure) => {
            output.failure(&failure);
            Ok(code)
        }
        Outcome::Ended { exit, captured } => {
            if output.json {
                let command = CommandReport::new(&exit, &captured);
                let (workspace, workspace_id) = (attached.workspace.name.clone(), attached.workspace.id);
                output.result(&Report { command, workspace, workspace_id }, |_| Ok(()))?;
            }
            Ok(exit_code(&exit))
        }
    }
}

async fn reach(installation: &Installation, workspace: &str) -> Result<Attached, Failure> {
    Workspaces::open(installation).await?.attach(workspace).await
}

/// What the image says about how it wants to be run; nothing, should it be gone.
fn defaults(installation: &Installation, image: &ImageName) -> OciDefaults {
    let image = installation.images().ok().and_then(|images| images.get(image).ok());
    image.and_then(|image| image.meta.defaults).unwrap_or_default()
}

/// The command was told to end when its handle was dropped; an answer to anything asked afterwards says that the
/// machine has heard it.
async fn part(attached: &Attached) {
    // A machine that does not answer has other troubles, and the next command will say which.
    let _ = tokio::time::timeout(GOODBYE, attached.machine().guest().status()).await;
}
