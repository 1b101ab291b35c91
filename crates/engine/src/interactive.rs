//! Commands somebody sits in front of: their output comes as it is made, their input as it is typed.

use std::sync::Arc;

use agentiso_core::action::Rate;
use agentiso_core::progress::Silent;
use agentiso_core::{Code, Failure};
use agentiso_runtime::OciDefaults;
use agentiso_runtime::guest::{Exit, LinkError, Process, ProcessEvent};
use serde_json::json;

use crate::act::{Context, Record};
use crate::command::{Interaction, with_image_defaults};
use crate::redact::without_credentials;
use crate::{Caller, Engine, held};

/// A command that runs. When this is dropped the command is ended.
pub struct Interactive {
    /// The command.
    pub process: Process,
    first: Option<held::First>,
    /// Id of its workspace.
    pub workspace_id: String,
    /// Name of its workspace.
    pub workspace_name: String,
    record: Record,
}

impl Interactive {
    /// What it says next.
    pub async fn next(&mut self) -> Result<Option<ProcessEvent>, LinkError> {
        match self.first.take() {
            Some(first) => first,
            None => self.process.next().await,
        }
    }

    /// Remembers how it ended.
    pub fn ended(self, exit: &Exit) {
        let (code, _) = crate::actions::code_and_signal(exit);
        self.record.end(Ok(Some(format!("exit code {code}"))));
    }

    /// Remembers why it could not be run.
    pub fn failed(self, code: Code) {
        self.record.end(Err(code));
    }
}

impl Engine {
    /// Starts a command somebody sits in front of.
    pub async fn interact(
        self: &Arc<Self>,
        caller: &Caller,
        workspace: &str,
        asked: Interaction,
    ) -> Result<Interactive, Failure> {
        let name = if asked.tty.is_some() { "shell" } else { "exec_stream" };
        let words: Vec<String> = asked.argv.iter().map(|word| without_credentials(&word.shown())).collect();
        let detail = json!({ "argv": words });
        let detail = if detail.to_string().len() > agentiso_meta::MAX_DETAIL { json!({}) } else { detail };
        let mut record = Record::begin(self, caller, name, detail);
        let started = async {
            let context = self.admit(caller, Some(workspace), Rate::Exec, Arc::new(Silent), &mut record)?;
            let (workspace, guest) = (context.workspace()?, context.guest().await?);
            let own = self.env_of(workspace.id, Some(&guest)).await?.names();
            let exec = with_image_defaults(asked.into_exec()?, &image_defaults(&context)?, &own);
            let (process, first) = held::begin(&guest, &exec).await?;
            Ok((process, first, workspace.id.to_string(), workspace.name.to_string()))
        };
        match started.await {
            Ok((process, first, workspace_id, workspace_name)) => {
                let first = Some(first);
                Ok(Interactive { process, first, workspace_id, workspace_name, record })
            }
            Err(failure) => {
                let failure: Failure = failure;
                record.end(Err(failure.code()));
                Err(failure)
            }
        }
    }
}

/// What the workspace's image says about how it wants to be run; nothing, should it be gone.
fn image_defaults(context: &Context) -> Result<OciDefaults, Failure> {
    let images = context.engine.installation().images()?;
    let image = images.get(&context.workspace()?.image).ok();
    Ok(image.and_then(|image| image.meta.defaults).unwrap_or_default())
}
