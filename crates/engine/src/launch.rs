//! The one way in which commands start in workspaces.
//!
//! ```text
//!  exec, jobs, git, shell, streams ──► Context::launch
//!      checked ─► ruling ─► machine reached ─► checkpoint ─► shell chosen ─► image defaults ─► made to fit ─► started
//!                                                                ▲                                               │
//!                                                                └────────────── bash was removed ◄──────────────┘
//! ```
//!
//! Whatever applies to every command belongs here, so that no way of starting one can miss it.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::action::SnapshotKind;
use agentiso_core::admission::{ActionFacts, Amounts, Decision, Denial, decide};
use agentiso_core::ports::host::{OciDefaults, SnapshotRequest};
use agentiso_core::ports::link::{Exec, FileKind, Link, LinkError, Process, ProcessEvent};
use agentiso_core::{Code, Failure, SnapshotName, WorkspaceId};
use uuid::Uuid;

use crate::act::Context;
use crate::admission::{forbidden, needs_approval, not_owner};
use crate::command::{Command, Shell, with_image_defaults};
use crate::events::EventKind;
use crate::live_state::{LiveState, locked};
use crate::long_command::fit;
use crate::not_started::{NotStarted, Refused};
use crate::retry::while_held;

/// How long a machine may take to start a command before it is considered stuck.
const START_LIMIT: Duration = Duration::from_secs(120);

/// A command that was started.
pub(crate) struct Launched<T> {
    /// The process, or the job's number.
    pub started: T,
    /// The shell that runs it, if one does.
    pub shell: Option<Shell>,
    /// The machine it runs in.
    pub guest: Link,
}

impl Context {
    /// Starts a command that ends with its caller.
    pub(crate) async fn start_command(
        &self,
        command: &Command,
    ) -> Result<Launched<Box<dyn Process>>, NotStarted> {
        self.launch(command, process).await
    }

    /// Starts a command that outlives its caller.
    pub(crate) async fn start_job(&self, command: &Command) -> Result<Launched<u32>, NotStarted> {
        self.launch(command, |guest: Link, exec| async move { guest.start_job(exec).await }).await
    }

    async fn launch<T, F>(
        &self,
        command: &Command,
        start: impl Fn(Link, Exec) -> F,
    ) -> Result<Launched<T>, NotStarted>
    where
        F: Future<Output = Result<T, LinkError>>,
    {
        command.check()?;
        let checkpoint = self.admit_command(command)?;
        let guest = self.guest().await?;
        for workspace in checkpoint {
            self.take_checkpoint(workspace).await?;
        }
        match tokio::time::timeout(START_LIMIT, self.launch_in(&guest, command, start)).await {
            Ok(launched) => launched,
            Err(_) => Err(Failure::new(
                Code::Timeout,
                format!("the machine did not start the command within {} s", START_LIMIT.as_secs()),
            )
            .with_remedy("its console log may say why; stopping the workspace with force ends the machine")
            .into()),
        }
    }

    async fn launch_in<T, F>(
        &self,
        guest: &Link,
        command: &Command,
        start: impl Fn(Link, Exec) -> F,
    ) -> Result<Launched<T>, NotStarted>
    where
        F: Future<Output = Result<T, LinkError>>,
    {
        let id = self.workspace()?.id;
        let live = self.engine.live.of(id);
        let own = self.engine.env_of(id, Some(guest)).await?.names();
        let mut defaults = self.image_defaults().await?;
        // Behind those of the image, whose place they take.
        let given = self.engine.host.guest_variables(id).await?;
        defaults.env.extend(given.into_iter().map(|(name, value)| format!("{name}={value}")));
        let mut shell = match command.uses_shell() {
            true => live.shell(guest).await?,
            false => Shell::Sh,
        };
        loop {
            let exec = with_image_defaults(command.with_shell(shell), &defaults, &own);
            let (exec, stored) = fit(guest, exec).await?;
            let error = match while_held(|| start(guest.clone(), exec.clone())).await {
                Ok(started) => {
                    let shell = command.uses_shell().then_some(shell);
                    return Ok(Launched { started, shell, guest: guest.clone() });
                }
                Err(error) => error,
            };
            if let Some(path) = stored {
                let _ = guest.remove(path.as_bytes(), false).await;
            }
            let not_started = NotStarted::from(error);
            if shell == Shell::Bash && command.uses_shell() && not_started.refused == Some(Refused::NotFound)
            {
                shell = Shell::Sh;
                live.set_shell(shell);
                continue;
            }
            return Err(not_started.with_hint(guest, &exec.argv).await);
        }
    }

    /// Decides whether a command may run, and returns the workspaces to take a checkpoint of first.
    fn admit_command(&self, command: &Command) -> Result<Vec<WorkspaceId>, Failure> {
        let (engine, principal) = (&self.engine, self.caller.principal());
        let ruling = engine.policy.rule(principal, self.workspace()?.id, &command.with_shell(Shell::Sh));
        let action = ActionFacts { subjects: self.facts().to_vec(), ruling };
        match decide(engine.rules(), principal, &action) {
            Decision::Allow { .. } => Ok(Vec::new()),
            Decision::AllowWithCheckpoint { checkpoint, .. } => Ok(checkpoint),
            Decision::NeedsApproval { reason } => Err(needs_approval(&reason)),
            Decision::Deny(Denial::Forbidden { reason }) => Err(forbidden(&reason)),
            Decision::Deny(Denial::NotOwner(_) | Denial::Hidden(_)) => Err(not_owner(self.workspace()?)),
        }
    }

    /// Takes a snapshot of a workspace before a command, in its own task: a caller that disconnects leaves nothing
    /// half done.
    async fn take_checkpoint(&self, workspace: WorkspaceId) -> Result<(), Failure> {
        let name: SnapshotName = format!("checkpoint-{}", Uuid::new_v4().simple()).parse()?;
        let description = "taken before a command, as the command policy demands".to_owned();
        let kind = SnapshotKind::Checkpoint;
        let request = SnapshotRequest { workspace, name, kind, description, memory: false };
        let (engine, session) = (Arc::clone(&self.engine), self.caller.session);
        let taking = tokio::spawn(async move {
            let _reserved = engine.quota.reserve(&engine, session, Amounts::snapshot()).await?;
            engine.host.snapshot(&request).await
        });
        let taken = taking.await.map_err(|error| Failure::new(Code::Internal, error.to_string()))??;
        let (id, note) = (taken.snapshot.workspace, Some(taken.snapshot.name.to_string()));
        self.engine.events.tell(EventKind::Snapshot, id, self.workspace()?.name.as_str(), note).await;
        Ok(())
    }

    /// The environment, working directory and user the workspace's image defines; none if the image was removed.
    async fn image_defaults(&self) -> Result<OciDefaults, Failure> {
        match self.engine.host.image(&self.workspace()?.image).await {
            Ok(image) => Ok(image.defaults),
            Err(failure) if failure.code() == Code::ImageNotFound => Ok(OciDefaults::default()),
            Err(failure) => Err(failure),
        }
    }
}

/// Starts a command in a machine, and returns when it runs.
pub(crate) async fn process(guest: Link, exec: Exec) -> Result<Box<dyn Process>, LinkError> {
    let mut process = guest.exec(exec).await?;
    match process.next().await? {
        Some(ProcessEvent::Started { .. }) => Ok(process),
        _ => Err(LinkError::Violation("a command began in the middle".to_owned())),
    }
}

impl LiveState {
    /// The shell that runs command lines. Bash is cached; a workspace without it is checked each time, since bash may have
    /// been installed.
    pub async fn shell(&self, guest: &Link) -> Result<Shell, LinkError> {
        if self.known_shell() == Some(Shell::Bash) {
            return Ok(Shell::Bash);
        }
        let shell = match guest.stat(Shell::Bash.path().as_bytes(), true).await {
            Ok(found) if found.kind == FileKind::File && found.mode & 0o111 != 0 => Shell::Bash,
            Ok(_) | Err(LinkError::Guest(_)) => Shell::Sh,
            Err(error) => return Err(error),
        };
        self.set_shell(shell);
        Ok(shell)
    }

    /// The shell, if it has been determined since the machine started.
    pub fn known_shell(&self) -> Option<Shell> {
        *locked(&self.shell)
    }

    fn set_shell(&self, shell: Shell) {
        *locked(&self.shell) = Some(shell);
    }

    /// Forgets the shell: the workspace has another disk now.
    pub fn forget_shell(&self) {
        *locked(&self.shell) = None;
    }
}
