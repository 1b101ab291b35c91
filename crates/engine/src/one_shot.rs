//! Workspaces that exist for one command.
//!
//! ```text
//!  requested ──► created ──► command runs ──► destroyed
//!      │            │             ▲
//!      │            └─ caller gone, command not started, machine crashed: destroyed
//!      └─ caller gone, not admitted: nothing was created, or the creation is undone
//!
//!  daemon stops: destroyed     daemon killed: the next daemon destroys it when it starts
//! ```
//!
//! The workspace is recorded as a one-shot in the transaction that adds it, so there is no instant at which a killed daemon
//! leaves one behind that the next daemon does not recognise. Commands run in it through [`Engine::interact`] like in any
//! other workspace.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::action::{Action, WorkspaceCreate, WorkspaceCreated, WorkspaceDestroy};
use agentiso_core::progress::{Progress, Silent};
use agentiso_core::wire::{RunMachine, RunWorkspace};
use agentiso_core::{Code, Failure, WorkspaceId};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::access::Access;
use crate::act::Call;
use crate::actions::{Lifetime, Make};
use crate::record::Record;
use crate::redact::redacted;
use crate::upkeep::DAEMON;
use crate::{Caller, Engine, Perform};

/// How soon a workspace that could not be destroyed is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// A workspace that exists for one command. Dropping it destroys it in the background.
pub struct OneShot {
    engine: Arc<Engine>,
    /// `None` once it is destroyed.
    id: Option<WorkspaceId>,
    machine: RunMachine,
}

impl OneShot {
    /// The workspace's id.
    pub fn workspace_id(&self) -> String {
        self.id.map(|id| id.to_string()).unwrap_or_default()
    }

    /// The machine that was started.
    pub fn machine(&self) -> &RunMachine {
        &self.machine
    }

    /// Destroys the workspace, and returns when it is gone.
    pub async fn destroy(mut self) {
        let Some(id) = self.id.take() else { return };
        let engine = Arc::clone(&self.engine);
        // In a task of its own: it is finished even if the caller is gone.
        let destroying = tokio::spawn(async move { engine.destroy_one_shot(id).await });
        if let Err(error) = destroying.await {
            tracing::warn!(%error, workspace = %id, "destroying a one-shot workspace failed");
        }
    }
}

impl Drop for OneShot {
    fn drop(&mut self) {
        // Without a runtime the daemon is ending, and the next one destroys it.
        let (Some(id), Ok(runtime)) = (self.id.take(), Handle::try_current()) else { return };
        let engine = Arc::clone(&self.engine);
        runtime.spawn(async move { engine.destroy_one_shot(id).await });
    }
}

impl Engine {
    /// Creates a workspace for one command. If the future is dropped, the creation is undone.
    pub async fn create_one_shot(
        self: &Arc<Self>,
        caller: &Caller,
        requested: RunWorkspace,
        progress: Arc<dyn Progress>,
    ) -> Result<OneShot, Failure> {
        let RunWorkspace { base_image, vcpus, memory_mb, disk_gb, network, cold } = requested;
        let create =
            WorkspaceCreate { base_image, vcpus, memory_mb, disk_gb, network, cold, ..Default::default() };
        let (engine, caller) = (Arc::clone(self), caller.clone());
        let (mut answer, answered) = oneshot::channel();
        // In a task of its own, so that no caller can leave between the creation and the guard that destroys.
        tokio::spawn(async move {
            let began = Instant::now();
            let created = engine.create_for(&caller, create, progress, &mut answer).await;
            let one_shot = created.map(|created| engine.guard(created, began));
            // If the caller is gone, the guard comes back and is dropped.
            drop(answer.send(one_shot));
        });
        answered.await.map_err(|_| Failure::new(Code::Internal, "creating a one-shot workspace failed"))?
    }

    /// Creates the workspace, unless the receiver of the answer is gone.
    async fn create_for<T: Send>(
        self: &Arc<Self>,
        caller: &Caller,
        create: WorkspaceCreate,
        progress: Arc<dyn Progress>,
        answer: &mut oneshot::Sender<T>,
    ) -> Result<WorkspaceCreated, Failure> {
        let about = WorkspaceCreate::ABOUT;
        let mut record = Record::begin(self, caller, about.name, redacted(&create));
        let subjects = create.subjects();
        let call =
            Call { subjects: &subjects, rate: about.rate, access: Access::Changes, effect: about.effect };
        let created = match self.admit(caller, call, progress, &mut record).await {
            Ok(context) => {
                let abandoned = std::pin::pin!(answer.closed());
                create.make(&context, Lifetime::OneCommand(abandoned)).await
            }
            Err(failure) => Err(failure),
        };
        if let Some(id) = created.as_ref().ok().and_then(WorkspaceCreate::made)
            && let Ok(workspace) = self.records.workspace(id).await
        {
            record.about(&workspace);
        }
        let ended = record.end(match &created {
            Ok(created) => Ok(WorkspaceCreate::changed(created)),
            Err(failure) => Err(failure.code()),
        });
        ended.await?;
        created
    }

    fn guard(self: &Arc<Self>, created: WorkspaceCreated, began: Instant) -> OneShot {
        let machine = RunMachine {
            start_ms: began.elapsed().as_secs_f64() * 1000.0,
            tier: created.tier,
            accel: created.accel,
            base_image: created.base_image,
            resources: created.resources,
        };
        OneShot { engine: Arc::clone(self), id: created.workspace_id.parse().ok(), machine }
    }

    /// Destroys the one-shot workspaces that exist: those of a daemon that was killed, or those of a daemon that ends.
    pub(crate) async fn destroy_one_shots(self: &Arc<Self>) {
        match self.records.one_shots().await {
            Ok(ids) => {
                for id in ids {
                    self.destroy_one_shot(id).await;
                }
            }
            Err(error) => tracing::warn!(%error, "could not look for one-shot workspaces"),
        }
    }

    async fn destroy_one_shot(self: &Arc<Self>, id: WorkspaceId) {
        if self.try_to_destroy(id).await {
            return;
        }
        // For example because the host's disk is full: then nothing about it could be written down either.
        let engine = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(RETRY).await;
                let Some(engine) = engine.upgrade() else { return };
                if engine.try_to_destroy(id).await {
                    return;
                }
            }
        });
    }

    /// Returns whether the workspace is gone.
    async fn try_to_destroy(self: &Arc<Self>, id: WorkspaceId) -> bool {
        // As agentiso itself: the caller's rate limit must not keep the workspace.
        let destroy = WorkspaceDestroy { workspace_id: id.to_string() };
        match self.act(&Caller::operator(DAEMON), destroy, Arc::new(Silent)).await {
            Ok(_) => true,
            Err(failure) if failure.code() == Code::WorkspaceNotFound => true,
            Err(failure) => {
                tracing::warn!(%failure, workspace = %id, "a one-shot workspace could not be destroyed yet");
                false
            }
        }
    }
}
