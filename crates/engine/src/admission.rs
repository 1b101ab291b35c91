//! Admission: what an action refers to, and whether its caller may use it.
//!
//! ```text
//!  references ──► found, each once ──► decided ──► those that nobody owns adopted ──► Subjects
//! ```
//!
//! Every reference of every action is resolved here and nowhere else: whoever carries an action out gets ids and
//! records. A workspace is decided on before anything that belongs to it is looked up, so that a refusal tells nothing
//! about another session's snapshots. Nothing is adopted unless everything is allowed.

use std::time::Duration;

use agentiso_config::Isolation;
use agentiso_core::action::Subject;
use agentiso_core::{Code, Failure, SessionId, WorkspaceId};
use agentiso_meta::{MetaError, Snapshot, Workspace};
use agentiso_runtime::workspaces::Point;

use crate::act::Record;
use crate::actions::refuse_suspend_snapshot;
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
    /// The workspace the caller wants to own. Only found, not decided on.
    pub claimed: Option<Workspace>,
    /// The workspace whose past is of interest.
    pub past: Option<WorkspaceId>,
    /// The workspaces that are in use while the action is carried out.
    pub used: Vec<WorkspaceId>,
}

/// What a session may do with a workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Decision {
    /// Use it.
    Allow,
    /// Use it, and own it from then on.
    Adopt,
    /// Nothing: it belongs to another session.
    Deny,
}

/// Decides whether a caller may use a workspace of an owner. `None` is the operator as a caller, and nobody as an owner.
pub(crate) fn decide(caller: Option<SessionId>, owner: Option<SessionId>, isolation: Isolation) -> Decision {
    match (caller, owner) {
        (None, _) => Decision::Allow,
        (Some(_), None) if isolation == Isolation::Strict => Decision::Deny,
        (Some(_), None) => Decision::Adopt,
        (Some(caller), Some(owner)) if caller == owner => Decision::Allow,
        (Some(_), Some(_)) => Decision::Deny,
    }
}

impl Engine {
    /// Resolves everything an action refers to, once, and refuses what its caller may not use.
    pub(crate) fn resolve(
        &self,
        caller: &Caller,
        references: &[Subject<'_>],
        record: &mut Record,
    ) -> Result<Subjects, Failure> {
        let mut resolving =
            Resolving { engine: self, caller, subjects: Subjects::default(), orphans: Vec::new() };
        for reference in references {
            resolving.add(*reference, record)?;
        }
        let Resolving { subjects, orphans, .. } = resolving;
        if let Some(session) = caller.session {
            for orphan in orphans {
                self.adopt(session, orphan, Duration::MAX)?;
            }
        }
        Ok(subjects)
    }
}

struct Resolving<'a> {
    engine: &'a Engine,
    caller: &'a Caller,
    subjects: Subjects,
    /// Workspaces that nobody owns.
    orphans: Vec<WorkspaceId>,
}

impl Resolving<'_> {
    fn add(&mut self, reference: Subject<'_>, record: &mut Record) -> Result<(), Failure> {
        match reference {
            Subject::Workspace(asked) | Subject::Removed(asked) => {
                let workspace = self.find(asked)?;
                let removed = matches!(reference, Subject::Removed(_));
                let decision = self.require_use(&workspace, asked)?;
                // Not before: a refused caller reads its own record, which must not say more than the refusal does.
                record.about(&workspace);
                if decision == Decision::Adopt && !removed {
                    self.orphans.push(workspace.id);
                }
                self.subjects.used.push(workspace.id);
                self.subjects.workspace = Some(workspace);
            }
            Subject::Snapshot(name) => {
                let workspace = self.workspace()?;
                let snapshot = self.find_snapshot(workspace, name)?;
                refuse_suspend_snapshot(&snapshot)?;
                self.subjects.snapshot = Some(snapshot);
            }
            Subject::Point(text) => {
                let point = self.find_point(text)?;
                self.subjects.points.push(point);
            }
            Subject::Claimed(asked) => {
                let workspace = self.find(asked)?;
                if self.isolates() {
                    self.use_or_adopt(&workspace, asked)?;
                }
                self.subjects.claimed = Some(workspace);
            }
            Subject::Past(asked) => self.subjects.past = Some(self.find_past(asked)?),
        }
        Ok(())
    }

    fn isolates(&self) -> bool {
        self.engine.isolates(self.caller)
    }

    fn find(&self, asked: &str) -> Result<Workspace, Failure> {
        match self.engine.meta().read(|read| read.find_workspace(asked)) {
            // The names of others are not suggested to a session that does not see them.
            Err(MetaError::WorkspaceNotFound { .. } | MetaError::WorkspaceAmbiguous { .. })
                if self.isolates() =>
            {
                Err(unknown(asked))
            }
            found => Ok(found?),
        }
    }

    fn find_snapshot(&self, workspace: WorkspaceId, name: &str) -> Result<Snapshot, Failure> {
        Ok(self.engine.meta().read(|read| read.find_snapshot(workspace, name))?)
    }

    fn workspace(&self) -> Result<WorkspaceId, Failure> {
        let workspace = self.subjects.workspace.as_ref().map(|workspace| workspace.id);
        workspace.ok_or_else(|| Failure::new(Code::Internal, "an action names a snapshot of no workspace"))
    }

    /// A point of the action's workspace, or, behind a colon, of another one.
    fn find_point(&mut self, text: &str) -> Result<Point, Failure> {
        let (workspace, name) = match text.split_once(':') {
            None => (self.workspace()?, text),
            Some((asked, name)) => {
                let other = self.find(asked)?;
                self.use_or_adopt(&other, asked)?;
                self.subjects.used.push(other.id);
                (other.id, name)
            }
        };
        match name {
            NOW => Ok(Point::Now(workspace)),
            name => Ok(Point::Snapshot(self.find_snapshot(workspace, name)?.id)),
        }
    }

    /// A workspace whose past is of interest. The operator may ask about a destroyed one by its id.
    fn find_past(&mut self, asked: &str) -> Result<WorkspaceId, Failure> {
        match self.find(asked) {
            Ok(workspace) => {
                self.use_or_adopt(&workspace, asked)?;
                Ok(workspace.id)
            }
            Err(failure) => match asked.parse() {
                Ok(id) if self.caller.is_operator() => Ok(id),
                _ => Err(failure),
            },
        }
    }

    fn use_or_adopt(&mut self, workspace: &Workspace, asked: &str) -> Result<(), Failure> {
        if self.require_use(workspace, asked)? == Decision::Adopt {
            self.orphans.push(workspace.id);
        }
        Ok(())
    }

    fn require_use(&self, workspace: &Workspace, asked: &str) -> Result<Decision, Failure> {
        let owner = self.engine.meta().read(|read| read.settings(workspace.id))?.owner;
        match decide(self.caller.session, owner, self.engine.config().sessions.isolation) {
            Decision::Deny if self.isolates() => Err(unknown(asked)),
            Decision::Deny => Err(not_owner(workspace)),
            allowed => Ok(allowed),
        }
    }
}

/// What a session is told of a workspace that it does not see, and of one that does not exist.
fn unknown(asked: &str) -> Failure {
    MetaError::WorkspaceNotFound { asked: asked.to_owned(), nearest: None }.into()
}

pub(crate) fn not_owner(workspace: &Workspace) -> Failure {
    let message = format!("the workspace {:?} belongs to another session", workspace.name.as_str());
    Failure::new(Code::NotOwner, message)
        .with_remedy("if its owner has gone, call workspace_adopt with force; or use another workspace")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn session(number: Option<u8>) -> Option<SessionId> {
        number.map(|number| SessionId::from_uuid(Uuid::from_u128(number.into())))
    }

    proptest! {
        #[test]
        fn a_session_never_gets_what_is_anothers(caller in 0u8..4, owner in 0u8..4) {
            let expected = if caller == owner { Decision::Allow } else { Decision::Deny };
            for isolation in [Isolation::Shared, Isolation::Strict] {
                prop_assert_eq!(decide(session(Some(caller)), session(Some(owner)), isolation), expected);
            }
        }

        #[test]
        fn the_operator_may_use_everything_and_owns_nothing(owner in proptest::option::of(0u8..4)) {
            prop_assert_eq!(decide(None, session(owner), Isolation::Strict), Decision::Allow);
        }
    }

    #[test]
    fn what_nobody_owns_is_adopted_by_the_session_that_uses_it() {
        assert_eq!(decide(session(Some(1)), None, Isolation::Shared), Decision::Adopt);
        assert_eq!(decide(session(Some(1)), None, Isolation::Strict), Decision::Deny);
    }
}
