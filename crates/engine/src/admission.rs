//! Admission: what an action refers to, and whether its caller may use it.
//!
//! ```text
//!  references ──► workspaces found ──► decide ──► snapshots and points found ──► entry stored ──► adopt
//!                                        │
//!                                        └──► denied: nothing has changed
//! ```
//!
//! Every reference of every action is resolved here and nowhere else: the code that carries an action out gets ids and
//! records. The decision itself is [`agentiso_core::admission::decide`], which is pure. It comes before anything that
//! belongs to a workspace is looked up, so that a refusal tells nothing about another session's snapshots.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::action::{Effect, Subject};
use agentiso_core::admission::{
    ActionFacts, Decision, Denial, Principal, Rules, Ruling, SubjectFacts, Use, decide,
};
use agentiso_core::ports::host::Point;
use agentiso_core::ports::records::{Snapshot, Workspace};
use agentiso_core::{Code, Failure, WorkspaceId};

use crate::act::Call;
use crate::actions::refuse_suspend_snapshot;
use crate::record::Record;
use crate::{Caller, Engine};

/// The name of the present state of a workspace, among the names of its snapshots.
pub(crate) const NOW: &str = agentiso_core::action::forms::NOW;

/// Everything an action refers to, resolved and allowed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subjects {
    /// The workspace the action works on.
    pub workspace: Option<Workspace>,
    /// The snapshot of it that the action works on.
    pub snapshot: Option<Snapshot>,
    /// Points of workspaces, in the order in which the action names them.
    pub points: Vec<Point>,
    /// The other workspace that the action refers to.
    pub other: Option<Workspace>,
    /// The workspace the caller wants to own. Whether it may is decided when it is taken over.
    pub claimed: Option<Workspace>,
    /// The workspace whose timeline is read.
    pub past: Option<WorkspaceId>,
    /// The workspaces that are in use while the action is carried out.
    pub used: Vec<WorkspaceId>,
    /// What was decided on, with the owners the workspaces have since.
    pub facts: Vec<SubjectFacts>,
}

/// A workspace that a reference names.
struct Found<'a> {
    reference: &'a str,
    workspace: Workspace,
    facts: SubjectFacts,
}

impl Engine {
    /// Resolves everything an action refers to, and refuses what its caller may not use.
    pub(crate) async fn resolve(
        self: &Arc<Self>,
        caller: &Caller,
        call: Call<'_>,
        record: &mut Record,
    ) -> Result<Subjects, Failure> {
        let references = call.subjects;
        let mut found = Vec::with_capacity(references.len());
        for reference in references {
            found.push(self.find_subject(caller, *reference).await?);
        }
        let facts: Vec<SubjectFacts> = found.iter().flatten().map(|found| found.facts).collect();
        let action = ActionFacts { subjects: facts, ruling: Ruling::Allow };
        let adopt = match decide(self.rules(), caller.principal(), &action) {
            Decision::Allow { adopt } | Decision::AllowWithCheckpoint { adopt, .. } => adopt,
            Decision::NeedsApproval { reason } => return Err(needs_approval(&reason)),
            Decision::Deny(denial) => return Err(refusal(&denial, &found)),
        };
        let mut subjects = Subjects { facts: action.subjects, ..Subjects::default() };
        for (reference, found) in references.iter().zip(found) {
            self.add(&mut subjects, *reference, found, record).await?;
        }
        match call.effect {
            Effect::Reads => {}
            Effect::Changes => record.store().await?,
            Effect::Destroys => record.store_unless_full().await?,
        }
        if let Some(session) = caller.session {
            for workspace in adopt {
                self.adopt(session, workspace, Duration::MAX).await?;
                let theirs = subjects.facts.iter_mut().filter(|facts| facts.workspace == workspace);
                theirs.for_each(|facts| facts.owner = Some(session));
            }
        }
        Ok(subjects)
    }

    /// The rules that decisions are made by.
    pub(crate) fn rules(&self) -> Rules {
        Rules { isolation: self.settings.isolation }
    }

    /// Finds the workspace that a reference names, if it names one.
    async fn find_subject<'a>(
        &self,
        caller: &Caller,
        reference: Subject<'a>,
    ) -> Result<Option<Found<'a>>, Failure> {
        let (name, usage) = match reference {
            Subject::Workspace(name) | Subject::Other(name) | Subject::Past(name) => (name, Use::Work),
            Subject::Removed(name) => (name, Use::Remove),
            Subject::Claimed(name) => (name, Use::Claim),
            Subject::Point(text) => match text.split_once(':') {
                Some((name, _)) => (name, Use::Work),
                None => return Ok(None),
            },
            Subject::Snapshot(_) => return Ok(None),
        };
        let workspace = match self.find_workspace(caller, name).await {
            // The operator may ask about the past of a destroyed workspace by its id.
            Err(failure)
                if failure.code() == Code::WorkspaceNotFound
                    && matches!(reference, Subject::Past(_))
                    && caller.is_operator()
                    && name.parse::<WorkspaceId>().is_ok() =>
            {
                return Ok(None);
            }
            found => found?,
        };
        let owner = self.records.settings(workspace.id).await?.owner;
        let facts = SubjectFacts { workspace: workspace.id, owner, usage };
        Ok(Some(Found { reference: name, workspace, facts }))
    }

    async fn find_workspace(&self, caller: &Caller, name: &str) -> Result<Workspace, Failure> {
        match self.records.find_workspace(name).await {
            // The names of others are not suggested to a session that does not see them.
            Err(failure)
                if self.isolates(caller)
                    && matches!(failure.code(), Code::WorkspaceNotFound | Code::InvalidArgument) =>
            {
                Err(unknown(name))
            }
            found => found,
        }
    }

    /// Adds what a reference means to the subjects of an action that is allowed.
    async fn add(
        &self,
        subjects: &mut Subjects,
        reference: Subject<'_>,
        found: Option<Found<'_>>,
        record: &mut Record,
    ) -> Result<(), Failure> {
        let other = found.map(|found| found.workspace);
        match reference {
            Subject::Workspace(_) | Subject::Removed(_) => {
                if let Some(workspace) = other {
                    // Not before the decision: a refused caller reads its own record, which must not say more than the
                    // refusal does.
                    record.about(&workspace);
                    subjects.used.push(workspace.id);
                    subjects.workspace = Some(workspace);
                }
            }
            Subject::Snapshot(name) => {
                let workspace = main_workspace(subjects)?;
                let snapshot = self.records.find_snapshot(workspace, name).await?;
                refuse_suspend_snapshot(&snapshot)?;
                subjects.snapshot = Some(snapshot);
            }
            Subject::Point(text) => {
                let (workspace, name) = match (other, text.split_once(':')) {
                    (Some(other), Some((_, name))) => {
                        subjects.used.push(other.id);
                        (other.id, name)
                    }
                    _ => (main_workspace(subjects)?, text),
                };
                subjects.points.push(match name {
                    NOW => Point::Now(workspace),
                    name => Point::Snapshot(self.records.find_snapshot(workspace, name).await?.id),
                });
            }
            Subject::Other(_) => {
                subjects.used.extend(other.as_ref().map(|workspace| workspace.id));
                subjects.other = other;
            }
            Subject::Claimed(_) => subjects.claimed = other,
            Subject::Past(name) => {
                subjects.past = other.map(|workspace| workspace.id).or_else(|| name.parse().ok());
            }
        }
        Ok(())
    }
}

impl Caller {
    /// Who it is, as decisions see it.
    pub(crate) fn principal(&self) -> Principal {
        self.session.map_or(Principal::Operator, Principal::Session)
    }
}

fn main_workspace(subjects: &Subjects) -> Result<WorkspaceId, Failure> {
    let workspace = subjects.workspace.as_ref().map(|workspace| workspace.id);
    workspace.ok_or_else(|| Failure::new(Code::Internal, "an action names a snapshot of no workspace"))
}

/// The failure for a caller that was denied something.
fn refusal(denial: &Denial, found: &[Option<Found<'_>>]) -> Failure {
    let of = |id| found.iter().flatten().find(|found| found.workspace.id == id);
    match denial {
        Denial::NotOwner(id) => match of(*id) {
            Some(found) => not_owner(&found.workspace),
            None => unknown(&id.to_string()),
        },
        Denial::Hidden(id) => match of(*id) {
            Some(found) => unknown(found.reference),
            None => unknown(&id.to_string()),
        },
        Denial::Forbidden { reason } => forbidden(reason),
    }
}

/// What a session is told of a workspace that it does not see, and of one that does not exist.
fn unknown(reference: &str) -> Failure {
    Failure::new(Code::WorkspaceNotFound, format!("there is no workspace {reference:?}"))
        .with_remedy("list workspaces with workspace_list; an id can be shortened to 6 of its last 8 digits")
}

pub(crate) fn not_owner(workspace: &Workspace) -> Failure {
    let message = format!("the workspace {:?} belongs to another session", workspace.name.as_str());
    Failure::new(Code::NotOwner, message)
        .with_remedy("if its owner has gone, call workspace_adopt with force; or use another workspace")
}

/// What a caller is told whose command the policy forbids.
pub(crate) fn forbidden(reason: &str) -> Failure {
    Failure::new(Code::NotPermitted, format!("the command policy does not allow this: {reason}"))
        .with_remedy("run a command that the policy allows, or ask the operator to change the policy")
}

/// What a caller is told whose command the operator has to approve of.
pub(crate) fn needs_approval(reason: &str) -> Failure {
    Failure::new(Code::ApprovalRequired, format!("this needs the operator's approval: {reason}"))
        .with_remedy("ask the operator to run it, or run a command that needs no approval")
}
