//! What became of a command.

use agentiso_core::approval::ApprovalState;
use agentiso_core::{Code, Failure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CaptureReport, ChangeReport, DecisionReport, EnforcementReport, FileConflict, UsageReport};

/// What became of a command.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ResultReport {
    /// The vault that was used; empty if none was found.
    pub vault: String,
    /// The directory at which the command sees the vault.
    pub mountpoint: String,
    /// The directory in the vault in which the command starts.
    pub cwd: String,
    /// The command as one line.
    pub command: String,
    /// The exit code of the command; -1 if a signal ended it; the exit code of `avfs` if it did not run.
    pub exit_code: i32,
    /// What it wrote to standard output; the middle is left out if it is long.
    pub stdout: String,
    /// What it wrote to standard error; the middle is left out if it is long.
    pub stderr: String,
    /// Whether the vault was read-only for the command.
    pub readonly: bool,
    /// Whether the vault is still mounted.
    pub kept_mounted: bool,
    /// How long the command ran, in milliseconds.
    pub duration_ms: u64,
    /// The checkpoint that was taken before the command.
    pub checkpoint: Option<String>,
    /// The paths of changed files, sorted; the first ones if there are more than the limit.
    pub changed_files: Vec<String>,
    /// What the policy decided.
    pub decision: DecisionReport,
    /// The state the run ended in.
    pub state: RunState,
    /// Whether the time limit ended the command.
    pub timed_out: bool,
    /// What became of the command.
    pub outcome: Outcome,
    /// The exit code of `avfs`.
    pub exit_status: u8,
    /// The arguments that were executed, with the shell of a shell line.
    pub argv: Vec<String>,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// The name of the signal.
    pub signal_name: Option<String>,
    /// The vault or fork that the command ran in.
    pub workspace: String,
    /// The fork, if one was asked for.
    pub fork: Option<ForkReport>,
    /// What happened to standard output.
    pub stdout_capture: CaptureReport,
    /// What happened to standard error.
    pub stderr_capture: CaptureReport,
    /// The changed files, sorted by path; the first ones if there are more than the limit.
    pub changes: Vec<ChangeReport>,
    /// The number of all changed files.
    pub changes_total: u64,
    /// Whether `changes` and `changed_files` are shortened.
    pub changes_truncated: bool,
    /// Changes that could not be merged with what was changed in the vault while the command ran.
    pub conflicts: Vec<FileConflict>,
    /// What the command used.
    pub usage: Option<UsageReport>,
    /// What confined the command; null if it did not run.
    pub enforcement: Option<EnforcementReport>,
    /// The request for approval, if there is one.
    pub approval: Option<ApprovalReport>,
    /// What went wrong, unless the command itself did.
    pub error: Option<ErrorReport>,
    /// What the caller should know besides.
    pub warnings: Vec<String>,
    /// How long everything took, in milliseconds.
    pub total_ms: u64,
}

/// The state a run ended in. `completed` is the only one in which the command ran to its own end.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// The command ran to its own end, with whatever exit code.
    Completed,
    /// The policy denied it.
    Denied,
    /// It waits for approval.
    ApprovalRequired,
    /// The time limit ended it.
    TimedOut,
    /// A signal ended it.
    Killed,
    /// It was only judged.
    Planned,
    /// It did not run, or what it did could not be kept.
    Failed,
}

/// What became of a command.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It exited with 0.
    Done,
    /// It exited with another code.
    Failed,
    /// The policy, or the owner, denied it.
    Denied,
    /// The owner has to approve of it first.
    ApprovalRequired,
    /// The time limit ended it.
    TimedOut,
    /// There is no such program, or it cannot be executed.
    NotFound,
    /// A signal ended it.
    Killed,
    /// It was only judged, and it would run.
    Planned,
    /// The request itself is wrong.
    InvalidRequest,
    /// agentiso failed.
    InternalError,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 10] = [
        Self::Done,
        Self::Failed,
        Self::Denied,
        Self::ApprovalRequired,
        Self::TimedOut,
        Self::NotFound,
        Self::Killed,
        Self::Planned,
        Self::InvalidRequest,
        Self::InternalError,
    ];

    /// The exit code of `avfs`, if it does not depend on the command.
    pub const fn exit_status(self) -> Option<u8> {
        match self {
            Self::Done | Self::Planned => Some(0),
            Self::Failed | Self::Killed => None,
            Self::ApprovalRequired => Some(3),
            Self::TimedOut => Some(124),
            Self::InvalidRequest | Self::InternalError => Some(125),
            Self::Denied => Some(126),
            Self::NotFound => Some(127),
        }
    }

    /// The state it ends in.
    pub const fn state(self) -> RunState {
        match self {
            Self::Done | Self::Failed => RunState::Completed,
            Self::Denied => RunState::Denied,
            Self::ApprovalRequired => RunState::ApprovalRequired,
            Self::TimedOut => RunState::TimedOut,
            Self::Killed => RunState::Killed,
            Self::Planned => RunState::Planned,
            Self::NotFound | Self::InvalidRequest | Self::InternalError => RunState::Failed,
        }
    }
}

/// The fork that a command ran in.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ForkReport {
    /// Its name.
    pub name: String,
    /// The vault it was made from.
    pub source: String,
    /// Whether this run made it.
    pub created: bool,
}

/// A request for approval.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ApprovalReport {
    /// Its id, which is also the token for `--approve`.
    pub token: String,
    /// Its state.
    pub state: ApprovalState,
    /// When its state ends.
    pub expires_at: Option<String>,
    /// The command with which the owner grants it.
    pub grant_with: String,
    /// Identifies exactly what was asked for.
    pub digest: String,
}

/// What went wrong.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ErrorReport {
    /// A stable code.
    pub code: Code,
    /// What failed and why.
    pub message: String,
    /// What to do next.
    pub remedy: Option<String>,
}

impl From<&Failure> for ErrorReport {
    fn from(failure: &Failure) -> Self {
        Self {
            code: failure.code(),
            message: failure.message().to_owned(),
            remedy: failure.remedy().map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_outcome_of_agentiso_can_be_told_by_its_exit_code_or_is_the_commands() {
        let codes: Vec<u8> = [
            Outcome::ApprovalRequired,
            Outcome::TimedOut,
            Outcome::InternalError,
            Outcome::Denied,
            Outcome::NotFound,
        ]
        .into_iter()
        .filter_map(Outcome::exit_status)
        .collect();
        assert_eq!(codes, [3, 124, 125, 126, 127]);
        assert_eq!(codes.iter().collect::<BTreeSet<_>>().len(), codes.len());
    }

    #[test]
    fn only_a_command_that_ran_to_its_end_is_completed() {
        for outcome in Outcome::ALL {
            let ran = matches!(outcome, Outcome::Done | Outcome::Failed);
            assert_eq!(outcome.state() == RunState::Completed, ran, "{outcome:?}");
        }
    }
}
