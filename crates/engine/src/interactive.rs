//! Commands somebody sits in front of: their output comes as it is made, their input as it is typed.

use std::pin::Pin;
use std::sync::Arc;

use agentiso_core::action::Rate;
use agentiso_core::progress::Silent;
use agentiso_core::{Code, Failure};
use agentiso_runtime::OciDefaults;
use agentiso_runtime::guest::{ErrorKind, Exit, LinkError, Process, ProcessEvent};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::act::{Context, Record};
use crate::command::{Interaction, with_image_defaults};
use crate::redact::without_credentials;
use crate::{Caller, Engine, held};

/// A command that runs. When this is dropped the command is ended.
pub struct Interactive {
    /// The command.
    pub process: Process,
    /// Id of its workspace.
    pub workspace_id: String,
    /// Name of its workspace.
    pub workspace_name: String,
    /// Comes when the machine stands still because the host's disk is full.
    standstill: Pin<Box<dyn Future<Output = Failure> + Send>>,
    context: Context,
    record: Record,
}

/// Why a command does not run.
#[derive(Debug)]
pub struct NotStarted {
    /// What failed.
    pub failure: Failure,
    /// What the machine had against the command, if it was that.
    pub refused: Option<Refused>,
}

/// Why a machine refused to start a command.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refused {
    /// It is not there.
    NotFound,
    /// It cannot be executed.
    NotExecutable,
}

impl From<Failure> for NotStarted {
    fn from(failure: Failure) -> Self {
        Self { failure, refused: None }
    }
}

impl From<LinkError> for NotStarted {
    fn from(error: LinkError) -> Self {
        let (refused, message) = match &error {
            LinkError::Guest(error) if error.kind == ErrorKind::NotFound => {
                (Refused::NotFound, &error.message)
            }
            LinkError::Guest(error) if error.kind == ErrorKind::Denied => {
                (Refused::NotExecutable, &error.message)
            }
            _ => return Failure::from(error).into(),
        };
        let failure = Failure::new(Code::GuestFailed, format!("the command could not start: {message}"))
            .with_remedy("check the command's name, or use an image that has it");
        Self { failure, refused: Some(refused) }
    }
}

impl Interactive {
    /// What the command says next.
    pub async fn next(&mut self) -> Result<Option<ProcessEvent>, Failure> {
        tokio::select! {
            event = self.process.next() => event.map_err(|error| self.context.explained(error.into())),
            failure = &mut self.standstill => Err(failure),
        }
    }

    /// Remembers how it ended.
    pub fn ended(self, exit: &Exit) {
        let (code, _) = crate::actions::code_and_signal(exit);
        self.record.end(Ok(Some(format!("exit code {code}"))));
    }
}

impl Engine {
    /// Starts a command somebody sits in front of.
    pub async fn interact(
        self: &Arc<Self>,
        caller: &Caller,
        workspace: &str,
        asked: Interaction,
    ) -> Result<Interactive, NotStarted> {
        let name = if asked.tty.is_some() { "shell" } else { "exec_stream" };
        let words: Vec<String> = asked.argv.iter().map(|word| without_credentials(&word.shown())).collect();
        let detail = json!({ "argv": words });
        let detail = if detail.to_string().len() > agentiso_meta::MAX_DETAIL { json!({}) } else { detail };
        let mut record = Record::begin(self, caller, name, detail);
        let started = async {
            let context = self.admit(caller, Some(workspace), Rate::Exec, Arc::new(Silent), &mut record)?;
            let (workspace, guest) = (context.workspace()?, context.guest().await?);
            let (engine, id) = (Arc::clone(self), workspace.id);
            let mut standstill: Pin<Box<dyn Future<Output = Failure> + Send>> =
                Box::pin(async move { engine.workspaces.standstill(id).await });
            let start = async {
                let own = self.env_of(workspace.id, Some(&guest)).await?.names();
                let exec = with_image_defaults(asked.into_exec()?, &image_defaults(&context), &own);
                Ok::<_, NotStarted>(held::start(&guest, &exec).await?)
            };
            let process = tokio::select! {
                process = start => process?,
                failure = &mut standstill => return Err(failure.into()),
            };
            let (id, name) = (workspace.id.to_string(), workspace.name.to_string());
            Ok((process, standstill, id, name, context))
        };
        match started.await {
            Ok((process, standstill, workspace_id, workspace_name, context)) => {
                Ok(Interactive { process, workspace_id, workspace_name, standstill, context, record })
            }
            Err(error) => {
                let error: NotStarted = error;
                record.end(Err(error.failure.code()));
                Err(error)
            }
        }
    }
}

/// What the workspace's image says about how it wants to be run; nothing, should it be gone.
fn image_defaults(context: &Context) -> OciDefaults {
    let images = context.engine.installation().images().ok();
    let image = images.zip(context.workspace().ok()).and_then(|(images, one)| images.get(&one.image).ok());
    image.and_then(|image| image.meta.defaults).unwrap_or_default()
}
