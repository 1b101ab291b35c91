//! How actions are carried out.

use std::future::Future;

use agentiso_core::action::Action;
use agentiso_core::{Failure, WorkspaceId};

use crate::act::Context;

/// How an action gets at its workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// It asks the database, or nobody.
    Looks,
    /// It works inside, beside others, and ends with its caller.
    Works,
    /// It copies the workspace, beside others, and is never left half done.
    Copies,
    /// It changes the workspace as a whole: one at a time, and never left half done.
    Changes,
}

/// An action that can be carried out.
pub trait Perform: Action {
    /// How it gets at its workspace.
    const ACCESS: Access;

    /// Set if it ends the workspace's machine: how, after "the workspace". Calls that were running learn it.
    const ENDS_MACHINE: Option<&'static str> = None;

    /// Whether it ends the machine at once. Then QEMU is killed before anything is waited for, so that neither the guest
    /// nor a call that waits for the guest can delay it.
    fn kills(&self) -> bool {
        false
    }

    /// Carries it out.
    fn perform(self, context: &Context) -> impl Future<Output = Result<Self::Outcome, Failure>> + Send;

    /// Whether its outcome is undone when its caller has gone before it came.
    fn is_undone_when_abandoned(&self) -> bool {
        false
    }

    /// Undoes it.
    fn undo(_outcome: Self::Outcome, _context: &Context) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// The id of the workspace it made, if it made one.
    fn made(_outcome: &Self::Outcome) -> Option<WorkspaceId> {
        None
    }

    /// What it changed, in a few words for the timeline.
    fn changed(_outcome: &Self::Outcome) -> Option<String> {
        None
    }
}
