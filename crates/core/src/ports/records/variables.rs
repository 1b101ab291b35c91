//! Names of the variables of workspaces. Values are never stored.

use async_trait::async_trait;

use super::Settings;
use crate::{Failure, WorkspaceId};

/// A variable of a workspace, without its value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Variable {
    /// Its name; [`Variable::ANY`] means all variables that the machine has.
    pub name: String,
    /// Whether the user set it, not a session.
    pub by_operator: bool,
    /// Whether it was set while there was no machine. If a machine is resumed, its value of this name is older.
    pub waiting: bool,
}

impl Variable {
    /// All variables that the machine has: those that were set before names were stored.
    pub const ANY: &str = "*";
}

/// Decides which variables a workspace has, from its settings and those it has now. It runs inside a transaction, so it
/// must not block; if it fails, nothing changes.
pub type VariablesChange = Box<dyn FnOnce(&Settings, Vec<Variable>) -> Result<Vec<Variable>, Failure> + Send>;

/// Names of variables, and who set them.
#[async_trait]
pub trait VariableRecords: Send + Sync {
    /// The variables of a workspace, by name.
    async fn variables(&self, workspace: WorkspaceId) -> Result<Vec<Variable>, Failure>;

    /// Replaces the variables of a workspace if they are still the expected ones. Returns whether they were.
    async fn replace_variables(
        &self,
        workspace: WorkspaceId,
        expected: &[Variable],
        new: &[Variable],
    ) -> Result<bool, Failure>;

    /// Changes the variables of a workspace.
    async fn change_variables(&self, workspace: WorkspaceId, change: VariablesChange) -> Result<(), Failure>;

    /// Gives a workspace the variables of another one.
    async fn copy_variables(&self, from: WorkspaceId, to: WorkspaceId) -> Result<(), Failure>;
}
