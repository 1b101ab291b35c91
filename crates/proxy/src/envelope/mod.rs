//! The envelope: what every command that goes through the boundary answers with, whatever became of it.
//!
//! These types are a wire format. Fields are only added; a change of meaning needs another `schema_version`.

mod capture;
mod change;
mod decision;
mod request;
mod result;
mod sandbox;

pub use capture::{CaptureReport, Encoding};
pub use change::{ChangeKind, ChangeReport, FileConflict};
pub use decision::DecisionReport;
pub use request::{CheckpointMode, CommandMode, RequestReport, TimeoutReport};
pub use result::{ApprovalReport, ErrorReport, ForkReport, Outcome, ResultReport, RunState};
pub use sandbox::{EnforcementReport, Protection, ProtectionState, UsageReport};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the envelope.
pub const SCHEMA_VERSION: u32 = 1;
/// The kind of an execution's envelope.
pub const KIND: &str = "proxy_exec_result";

/// What became of one command.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Envelope {
    /// The version of this form: 1.
    pub schema_version: u32,
    /// Always `proxy_exec_result`.
    pub kind: String,
    /// Whether the command ran and exited with 0.
    pub success: bool,
    /// What was asked for.
    pub request: RequestReport,
    /// What became of it.
    pub result: ResultReport,
}

impl Envelope {
    /// Puts request and result together.
    pub fn new(request: RequestReport, result: ResultReport) -> Self {
        let success = matches!(result.outcome, Outcome::Done | Outcome::Planned);
        Self { schema_version: SCHEMA_VERSION, kind: KIND.to_owned(), success, request, result }
    }
}
