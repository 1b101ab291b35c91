//! The path of an action: admission, execution, and the end of its timeline entry.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use agentiso_core::action::{Effect, Rate, Subject};
use agentiso_core::admission::SubjectFacts;
use agentiso_core::ports::host::Point;
use agentiso_core::ports::link::Link;
use agentiso_core::ports::records::{Snapshot, Workspace};
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, WorkspaceId};
use tokio::sync::{Notify, oneshot, watch};

use crate::access::{Access, Perform};
use crate::admission::{Subjects, not_owner};
use crate::live_state::InUse;
use crate::record::Record;
use crate::redact::redacted;
use crate::sessions::Calling;
use crate::{Caller, Engine};

/// Everything an action needs while it is carried out.
#[derive(Clone)]
pub struct Context {
    /// The engine.
    pub(crate) engine: Arc<Engine>,
    /// The caller.
    pub(crate) caller: Caller,
    /// The subjects of the action, resolved and allowed.
    subjects: Subjects,
    /// Receives progress reports.
    pub(crate) progress: Arc<dyn Progress>,
    /// Notified when the action has connected to the machine.
    inside: Arc<Notify>,
    /// When the call was admitted.
    began: Instant,
    in_use: Arc<[InUse]>,
    /// Changes when the caller loses the workspace; `None` for the operator, who cannot.
    ownership: Option<watch::Receiver<u64>>,
    _calling: Option<Arc<Calling>>,
}

impl Context {
    /// The workspace the action works on.
    pub(crate) fn workspace(&self) -> Result<&Workspace, Failure> {
        let workspace = self.subjects.workspace.as_ref();
        workspace.ok_or_else(|| Failure::new(Code::Internal, "an action without a workspace"))
    }

    /// The other workspace that the action refers to, if its caller named one.
    pub(crate) fn other(&self) -> Option<&Workspace> {
        self.subjects.other.as_ref()
    }

    /// The snapshot the action works on.
    pub(crate) fn snapshot(&self) -> Result<&Snapshot, Failure> {
        self.snapshot_if_any().ok_or_else(|| Failure::new(Code::Internal, "an action without a snapshot"))
    }

    /// The snapshot the action works on, if its caller named one.
    pub(crate) fn snapshot_if_any(&self) -> Option<&Snapshot> {
        self.subjects.snapshot.as_ref()
    }

    /// The facts the action was admitted on.
    pub(crate) fn facts(&self) -> &[SubjectFacts] {
        &self.subjects.facts
    }

    /// The points the action compares.
    pub(crate) fn points(&self) -> &[Point] {
        &self.subjects.points
    }

    /// The workspace the caller wants to own.
    pub(crate) fn claimed(&self) -> Option<&Workspace> {
        self.subjects.claimed.as_ref()
    }

    /// The workspace whose timeline is read.
    pub(crate) fn past(&self) -> Option<WorkspaceId> {
        self.subjects.past
    }

    /// The link into the workspace, which is started if it does not run. Waits while it is being changed as a whole.
    pub(crate) async fn guest(&self) -> Result<Link, Failure> {
        match self.running_guest().await {
            Err(failure) if failure.code() == Code::WorkspaceNotRunning => {
                if !self.engine.settings.start_on_use {
                    return Err(failure);
                }
                self.start_for_use().await?;
                self.running_guest().await
            }
            answered => answered,
        }
    }

    /// The link into the workspace, if it runs. For actions that are pointless in a machine that was just started.
    pub(crate) async fn running_guest(&self) -> Result<Link, Failure> {
        let guest = self.engine.guest(self.workspace()?.id).await?;
        self.inside.notify_one();
        Ok(guest)
    }

    /// Starts or resumes the workspace, in its own task: a caller that disconnects leaves nothing half done.
    async fn start_for_use(&self) -> Result<(), Failure> {
        let (context, id) = (self.clone(), self.workspace()?.id);
        let starting = tokio::spawn(async move {
            let live = context.engine.live.of(id);
            let _lock = live.lock_exclusive().await;
            context.start().await.map(drop)
        });
        starting.await.map_err(|error| Failure::new(Code::Internal, format!("starting: {error}")))?
    }

    /// Once connected, waits until the machine is paused because the host's disk is full: a call that waits for it would
    /// wait forever.
    pub(crate) async fn standstill(&self) -> Failure {
        self.inside.notified().await;
        match &self.subjects.workspace {
            Some(workspace) => self.engine.host.standstill(workspace.id).await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the caller loses the workspace. A call inside it must not outlast that.
    pub(crate) async fn lost(&self) -> Failure {
        let lost = match self.ownership.clone() {
            Some(mut ownership) => ownership.changed().await.is_ok(),
            None => false,
        };
        if !lost {
            return std::future::pending().await;
        }
        Failure::new(Code::NotOwner, "the call was cut off: the workspace no longer belongs to this session")
            .with_remedy("use another workspace")
    }

    /// Adds to a failure why the machine is gone: who ended it on purpose, or else the last lines of its console.
    pub(crate) async fn explained(&self, failure: Failure) -> Failure {
        let ended = self.in_use.iter().find_map(|used| used.live().ended_since(self.began));
        match &self.subjects.workspace {
            Some(workspace) if failure.code() == Code::VmCrashed && ended.is_some() => {
                cut_off(workspace, ended.unwrap_or_default())
            }
            Some(workspace) if failure.code() == Code::VmCrashed => {
                self.engine.host.explain_end(workspace.id, failure).await
            }
            _ => failure,
        }
    }
}

impl Engine {
    /// Carries out what a caller asks for, if it may.
    pub async fn act<A: Perform>(
        self: &Arc<Self>,
        caller: &Caller,
        action: A,
        progress: Arc<dyn Progress>,
    ) -> Result<A::Outcome, Failure> {
        let mut record = Record::begin(self, caller, A::ABOUT.name, redacted(&action));
        let call = Call {
            subjects: &action.subjects(),
            rate: A::ABOUT.rate,
            access: A::ACCESS,
            effect: A::ABOUT.effect,
        };
        match self.admit(caller, call, progress, &mut record).await {
            Ok(context) => run(action, context, record).await,
            Err(failure) => {
                record.end(Err(failure.code())).await?;
                Err(failure)
            }
        }
    }

    /// Lets a caller in, if it may use everything it refers to, and resolves what that is. The entry of an action that
    /// changes something is stored before the first side effect.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        caller: &Caller,
        call: Call<'_>,
        progress: Arc<dyn Progress>,
        record: &mut Record,
    ) -> Result<Context, Failure> {
        self.sessions.touch(caller);
        self.rates.admit(caller, call.rate)?;
        let access = call.access;
        let subjects = self.resolve(caller, call, record).await?;
        // Looking at a workspace does not use it: one that is only watched is idle.
        let used = subjects.used.iter().filter(|_| access != Access::Looks);
        let in_use: Arc<[InUse]> = used.map(|id| self.live.use_workspace(*id)).collect();
        let owned = in_use.first().filter(|_| access == Access::Works && !caller.is_operator());
        let ownership = owned.map(|in_use| in_use.live().ownership());
        // The workspace may have changed hands between the decision and the subscription.
        if ownership.is_some()
            && let Some(workspace) = &subjects.workspace
            && self.records.settings(workspace.id).await?.owner != caller.session
        {
            return Err(not_owner(workspace));
        }
        Ok(Context {
            engine: Arc::clone(self),
            caller: caller.clone(),
            subjects,
            progress,
            inside: Arc::default(),
            began: Instant::now(),
            in_use,
            ownership,
            _calling: self.sessions.calling(caller).map(Arc::new),
        })
    }
}

/// What admission has to know of a call.
pub(crate) struct Call<'a> {
    pub subjects: &'a [Subject<'a>],
    pub rate: Rate,
    pub access: Access,
    /// What it does. The timeline entry of a call that changes something is stored first.
    pub effect: Effect,
}

async fn run<A: Perform>(action: A, context: Context, record: Record) -> Result<A::Outcome, Failure> {
    if matches!(A::ACCESS, Access::Looks | Access::Works) {
        let done = tokio::select! {
            done = action.perform(&context) => done,
            failure = context.standstill() => Err(failure),
            failure = context.lost() => Err(failure),
        };
        let done = match done {
            Err(failure) => Err(context.explained(failure).await),
            done => done,
        };
        return finish::<A>(&context, record, done).await;
    }
    // In its own task, so that a caller that disconnects leaves nothing half done. The operator's command line says that
    // the daemon continues, so nothing of the operator's is undone.
    let undone = !context.caller.is_operator() && action.is_undone_when_abandoned();
    let (answer, answered) = oneshot::channel();
    // Boxed, because what runs a task is compiled for every type of future.
    let work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        let live = context.subjects.workspace.as_ref().map(|workspace| context.engine.live.of(workspace.id));
        let _ending = match (&live, &context.subjects.workspace) {
            (Some(live), Some(workspace)) if action.kills() => {
                let ending = live.announce_end();
                // Calls that are running end with the machine and are told why.
                if let Some(what) = A::ENDS_MACHINE {
                    live.note_end(what);
                }
                // Should this fail, the action tries again and says why.
                if let Err(failure) = context.engine.host.switch_off(workspace.id).await {
                    tracing::warn!(%failure, "could not kill a machine at once");
                }
                Some(ending)
            }
            _ => None,
        };
        let lock = match (&live, A::ACCESS) {
            (Some(live), Access::Changes) => Some(live.lock_exclusive().await),
            _ => None,
        };
        if let (Some(live), Some(what)) = (&live, A::ENDS_MACHINE) {
            live.note_end(what);
        }
        let result = action.perform(&context).await;
        if let (Some(live), Some(_), Err(_)) = (&live, A::ENDS_MACHINE, &result) {
            live.forget_end();
        }
        drop(lock);
        let result = finish::<A>(&context, record, result).await;
        if let Err(Ok(outcome)) = answer.send(result)
            && undone
        {
            A::undo(outcome, &context).await;
        }
    });
    tokio::spawn(work);
    answered
        .await
        .map_err(|_| Failure::new(Code::Internal, format!("{} ended with a fault", A::ABOUT.name)))?
}

/// Completes the timeline entry of an action, before its answer leaves.
async fn finish<A: Perform>(
    context: &Context,
    mut record: Record,
    result: Result<A::Outcome, Failure>,
) -> Result<A::Outcome, Failure> {
    let end = match &result {
        Ok(outcome) => {
            if let Some(made) = A::made(outcome)
                && let Ok(workspace) = context.engine.records.workspace(made).await
            {
                record.about(&workspace);
            }
            Ok(A::changed(outcome))
        }
        Err(failure) => Err(failure.code()),
    };
    record.end(end).await?;
    result
}

/// A call that ended because its machine was ended on purpose.
fn cut_off(workspace: &Workspace, what: &str) -> Failure {
    Failure::new(
        Code::Cancelled,
        format!("the call was cut off: workspace {} {what} while it ran", workspace.name),
    )
    .with_remedy("nothing is wrong with the machine; repeat the call if it is still needed")
}
