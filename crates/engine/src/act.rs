//! The door: one way in for every action of every client.

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
use crate::record::Record;
use crate::redact::redacted;
use crate::rooms::AtWork;
use crate::sessions::Calling;
use crate::{Caller, Engine};

/// What an action has to work with.
#[derive(Clone)]
pub struct Context {
    /// The engine.
    pub(crate) engine: Arc<Engine>,
    /// Who asks.
    pub(crate) caller: Caller,
    /// What the action refers to, resolved and checked.
    subjects: Subjects,
    /// Who is told how far it has come.
    pub(crate) progress: Arc<dyn Progress>,
    /// Told when the way into the workspace was found.
    inside: Arc<Notify>,
    /// When the call was admitted.
    began: Instant,
    at_work: Arc<[AtWork]>,
    /// Changes when the workspace is not the caller's any more; none if all workspaces are the caller's.
    ownership: Option<watch::Receiver<u64>>,
    _calling: Option<Arc<Calling>>,
}

impl Context {
    /// The workspace the action works on.
    pub(crate) fn workspace(&self) -> Result<&Workspace, Failure> {
        let workspace = self.subjects.workspace.as_ref();
        workspace.ok_or_else(|| Failure::new(Code::Internal, "an action without a workspace"))
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

    /// The workspace whose past is of interest.
    pub(crate) fn past(&self) -> Option<WorkspaceId> {
        self.subjects.past
    }

    /// The way into the workspace, which is started if it does not run. Waits while it is being changed as a whole.
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

    /// The way into the workspace, if it runs: for what would be pointless in a machine that was just started.
    pub(crate) async fn running_guest(&self) -> Result<Link, Failure> {
        let guest = self.engine.guest(self.workspace()?.id).await?;
        self.inside.notify_one();
        Ok(guest)
    }

    /// Starts or resumes the workspace, in a task of its own: a caller that goes away leaves nothing half done.
    async fn start_for_use(&self) -> Result<(), Failure> {
        let (context, id) = (self.clone(), self.workspace()?.id);
        let starting = tokio::spawn(async move {
            let room = context.engine.rooms.of(id);
            let _turn = room.change().await;
            context.start().await.map(drop)
        });
        starting.await.map_err(|error| Failure::new(Code::Internal, format!("starting: {error}")))?
    }

    /// Waits, once somebody is inside, for the machine to stand still because the host's disk is full: whoever waits
    /// for it to do something would wait for ever.
    async fn standstill(&self) -> Failure {
        self.inside.notified().await;
        match &self.subjects.workspace {
            Some(workspace) => self.engine.host.standstill(workspace.id).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for the workspace to go to somebody else: a call inside it must not outlast that.
    pub(crate) async fn lost(&self) -> Failure {
        let lost = match self.ownership.clone() {
            Some(mut ownership) => ownership.changed().await.is_ok(),
            None => false,
        };
        if !lost {
            return std::future::pending().await;
        }
        Failure::new(Code::NotOwner, "the call was cut off: the workspace is not this session's any more")
            .with_remedy("use another workspace")
    }

    /// Says why a machine is gone: that somebody ended it on purpose, or else what it printed last.
    pub(crate) async fn explained(&self, failure: Failure) -> Failure {
        let mut rooms = self.at_work.iter().map(AtWork::room);
        let ended = rooms.find_map(|room| room.ended_since(self.began));
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
            changes: A::ABOUT.effect != Effect::Reads,
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
        let at_work: Arc<[AtWork]> = used.map(|id| self.rooms.work_on(*id)).collect();
        let owned = at_work.first().filter(|_| access == Access::Works && !caller.is_operator());
        let ownership = owned.map(|at_work| at_work.room().ownership());
        // Who lost it between the decision and now is not told by a change any more.
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
            at_work,
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
    /// Whether it changes anything, so that its timeline entry is stored first.
    pub changes: bool,
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
    // In a task of its own, so that a caller that goes away leaves nothing half done.
    // The user of this machine is told that the daemon goes on.
    let undone = !context.caller.is_operator() && action.is_undone_when_abandoned();
    let (answer, answered) = oneshot::channel();
    // Boxed, because what runs a task is compiled for every type of future.
    let work: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        let room = context.subjects.workspace.as_ref().map(|workspace| context.engine.rooms.of(workspace.id));
        let _ending = match (&room, &context.subjects.workspace) {
            (Some(room), Some(workspace)) if action.kills() => {
                let ending = room.ending();
                // Calls that are running end with the machine, and are to learn why.
                if let Some(what) = A::ENDS_MACHINE {
                    room.note_end(what);
                }
                // Should this fail, the action tries again and says why.
                if let Err(failure) = context.engine.host.switch_off(workspace.id).await {
                    tracing::warn!(%failure, "could not kill a machine at once");
                }
                Some(ending)
            }
            _ => None,
        };
        let turn = match (&room, A::ACCESS) {
            (Some(room), Access::Changes) => Some(room.change().await),
            _ => None,
        };
        if let (Some(room), Some(what)) = (&room, A::ENDS_MACHINE) {
            room.note_end(what);
        }
        let result = action.perform(&context).await;
        if let (Some(room), Some(_), Err(_)) = (&room, A::ENDS_MACHINE, &result) {
            room.forget_end();
        }
        drop(turn);
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
