//! How actions are carried out.

use std::future::Future;

use agentiso_core::Failure;
use agentiso_core::action::Action;

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

    /// Carries it out.
    fn perform(self, context: &Context) -> impl Future<Output = Result<Self::Outcome, Failure>> + Send;

    /// The id of the workspace it made, if it made one.
    fn made(_outcome: &Self::Outcome) -> Option<&str> {
        None
    }

    /// What it changed, in a few words for the timeline.
    fn changed(_outcome: &Self::Outcome) -> Option<String> {
        None
    }
}
