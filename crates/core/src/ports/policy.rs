//! The command policy port.

use super::link::Exec;
use crate::WorkspaceId;
use crate::admission::{Principal, Ruling};

/// Rules on commands before they start. It is asked before every command, so it must answer at once and without I/O.
pub trait CommandPolicy: Send + Sync {
    /// The ruling on a command of a principal in a workspace. Its environment and user may still lack what the image
    /// defines.
    fn rule(&self, principal: Principal, workspace: WorkspaceId, command: &Exec) -> Ruling;
}

/// The policy of an installation without one: every command may run.
#[derive(Clone, Copy, Debug)]
pub struct AllowAll;

impl CommandPolicy for AllowAll {
    fn rule(&self, _: Principal, _: WorkspaceId, _: &Exec) -> Ruling {
        Ruling::Allow
    }
}
