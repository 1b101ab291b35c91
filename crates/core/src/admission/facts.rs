//! The facts a decision is made from.

use crate::{Isolation, SessionId, WorkspaceId};

/// Who asks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Principal {
    /// The user of this machine, who may use every workspace and owns none.
    Operator,
    /// A client with a session of its own.
    Session(SessionId),
}

/// The rules of the installation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rules {
    /// How far sessions are kept apart.
    pub isolation: Isolation,
}

/// What an action does with a workspace it refers to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Use {
    /// Reads it or works on it. A workspace without an owner is adopted.
    Work,
    /// Removes it. A workspace without an owner is not adopted first.
    Remove,
    /// Asks to own it. [`decide_takeover`](super::decide_takeover) decides whether it may; this only decides whether the
    /// principal may know of it.
    Claim,
}

/// A workspace that an action refers to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SubjectFacts {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The session that owns it.
    pub owner: Option<SessionId>,
    /// What the action does with it.
    pub usage: Use,
}

/// What the command policy says about a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ruling {
    /// It may run.
    Allow,
    /// It may run after a snapshot of the workspace was taken.
    Checkpoint,
    /// It may run only if the operator approves of it.
    Approval {
        /// Why, in a few words.
        reason: String,
    },
    /// It must not run.
    Deny {
        /// Why, in a few words.
        reason: String,
    },
}

/// Everything a decision needs to know about an action.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ActionFacts {
    /// The workspaces it refers to, in the order in which it names them.
    pub subjects: Vec<SubjectFacts>,
    /// The ruling on the command it runs; [`Ruling::Allow`] if it runs none.
    pub ruling: Ruling,
}
