//! How actions are carried out.

use std::future::Future;

use agentiso_core::action::Action;
use agentiso_core::{Failure, WorkspaceId};

use crate::act::Context;

/// How an action uses its workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// Reads records only. Cancelled with its caller; does not count as use of the workspace.
    Looks,
    /// Works inside the machine, concurrently with others. Cancelled with its caller.
    Works,
    /// Copies the workspace, concurrently with others. Runs to completion.
    Copies,
    /// Changes the workspace as a whole, under its exclusive lock. Runs to completion.
    Changes,
}

/// An action that can be carried out.
pub trait Perform: Action {
    /// How it uses its workspace.
    const ACCESS: Access;

    /// If it ends the machine: how, to continue "the workspace". Calls that are running are told so.
    const ENDS_MACHINE: Option<&'static str> = None;

    /// Whether it kills the machine before it waits for the lock, so that neither the guest nor a call that waits for the
    /// guest can delay it.
    fn kills(&self) -> bool {
        false
    }

    /// Carries it out.
    fn perform(self, context: &Context) -> impl Future<Output = Result<Self::Outcome, Failure>> + Send;

    /// Whether its outcome is undone if its caller has disconnected by then.
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

    /// A short description of what it changed, for the timeline.
    fn changed(_outcome: &Self::Outcome) -> Option<String> {
        None
    }
}
