//! One command from request to envelope.
//!
//! ```text
//!  check ─► vault ─► policy ─┬─ deny ──────────────────────────────► denied (126)
//!                            ├─ require_approval ─► queue ─┬─ open ─► approval_required (3)
//!                            │                             └─ denied ► denied (126)
//!                            ▼ allowed, or granted
//!               fork ─► checkpoint ─► working directory ─► sandbox ─► command
//!                                                            │          ├─ time limit ─► timed_out (124)
//!                                                            │          ├─ signal ─────► killed
//!                                                            │          └─ exit ───────► done, failed
//!                                                            └─ no such program ───────► not_found (127)
//!               changes ◄─ recorded in the vault, in every case in which the command ran
//! ```
//!
//! What fails on the way is reported in the envelope too: `invalid_request` and `internal_error` (125). A killed process
//! leaves the vault as it was; its working directory is removed by a later run.

mod approve;
mod begin;
mod checkpoint;
mod child;
pub(crate) mod interrupt;
mod judge;
mod places;
pub(crate) mod record;
mod renames;
mod roots;
pub(crate) mod sandbox;
mod sweep;
mod target;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use agentiso_core::ports::Clock;
use agentiso_core::{Code, Failure};
use agentiso_policy::command::{Action, Category};
use agentiso_vfs::Vaults;

pub use child::{Live, OutputStream};
pub use interrupt::wait_for_interrupt;
pub use judge::explain;
pub use places::{Places, name_of};
pub use roots::{roots, work_dirs};
pub use sweep::reclaim;
pub use target::no_vault;

use crate::approvals::Asker;
use crate::envelope::{Envelope, ErrorReport, Outcome, ResultReport};
use crate::policies::PolicyFiles;
use crate::request::{Run, normal_cwd};
use crate::session::Resident;
use approve::Answer;
use target::Target;

/// Where commands pass from an agent to the host.
pub struct Boundary<'a> {
    /// The vaults.
    pub vaults: &'a Vaults,
    /// The directories and files of the installation.
    pub places: &'a Places,
    /// The policy files of the user and the system.
    pub policies: &'a PolicyFiles,
    /// The clock for time limits of approvals.
    pub clock: &'a dyn Clock,
}

/// Why a run ended before its command did.
enum Stop {
    /// With this outcome; the report says the rest.
    With(Outcome),
    /// With a failure.
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// The envelope of a request that could not even be tried.
pub fn refused(run: &Run, failure: &Failure) -> Envelope {
    let mut result = begin::result(run);
    let outcome = fail(&mut result, failure);
    end(&mut result, outcome);
    Envelope::new(run.report(), result)
}

/// What belongs to one call.
pub(crate) struct Call<'c> {
    /// Who sees output while the command runs.
    pub live: &'c dyn Live,
    /// Becomes readable when the command is to be ended.
    pub stop: BorrowedFd<'c>,
    /// Who asks.
    pub asker: Asker,
    /// What the command reads, if it reads anything.
    pub stdin: Option<File>,
}

impl Boundary<'_> {
    /// Runs a command in a sandbox of its own. Whatever happens is in the envelope.
    pub fn run(&self, run: &Run, live: &dyn Live) -> Envelope {
        let prepare = || {
            let stdin = if run.stdin { Some(io::stdin().as_fd().try_clone_to_owned()?.into()) } else { None };
            io::Result::Ok((stdin, interrupt::Interrupts::listen()?))
        };
        let (stdin, interrupts) = match prepare() {
            Ok(prepared) => prepared,
            Err(error) => {
                let message = format!("could not prepare the command: {error}");
                return refused(run, &Failure::new(Code::of_io(&error), message));
            }
        };
        let call = Call { live, stop: interrupts.as_fd(), asker: Asker::current(), stdin };
        self.run_in(run, call, None)
    }

    /// Runs a command in a sandbox of its own, or in one that stays.
    pub(crate) fn run_in(&self, run: &Run, mut call: Call<'_>, resident: Option<&mut Resident>) -> Envelope {
        let began = Instant::now();
        let mut result = begin::result(run);
        let outcome = match self.attempt(run, &mut call, resident, &mut result) {
            Ok(outcome) | Err(Stop::With(outcome)) => outcome,
            Err(Stop::Failed(failure)) => fail(&mut result, &failure),
        };
        end(&mut result, outcome);
        result.total_ms = millis(began);
        Envelope::new(run.report(), result)
    }

    fn attempt(
        &self,
        run: &Run,
        call: &mut Call<'_>,
        resident: Option<&mut Resident>,
        result: &mut ResultReport,
    ) -> Result<Outcome, Stop> {
        run.check()?;
        result.cwd = normal_cwd(&run.cwd)?;
        let mountpoint = sandbox::mountpoint(run)?;
        result.mountpoint = mountpoint.display().to_string();
        let target = Target::find(self.vaults, run)?;
        result.vault = target.source.name.clone();
        result.workspace = target.planned_name();
        let decision = self.judge(run, &target, &mountpoint, &result.cwd)?;
        result.decision = (&decision).into();
        if decision.action == Action::Deny {
            self.note_refusal(&target, result, "proxy_exec_denied");
            return Err(Stop::With(Outcome::Denied));
        }
        if resident.is_some() && decision.categories.has(Category::Networked) {
            return Err(Stop::Failed(no_network_in_a_session()));
        }
        let needs_approval = decision.action == Action::RequireApproval;
        if run.dry_run {
            let outcome = if needs_approval { Outcome::ApprovalRequired } else { Outcome::Planned };
            return Err(Stop::With(outcome));
        }
        if needs_approval {
            let (operation, outcome) = match self.approve(run, &target, &decision, call, result)? {
                Answer::Granted => return self.carry_out(run, target, &decision, call, resident, result),
                Answer::Waiting => ("proxy_exec_approval_required", Outcome::ApprovalRequired),
                Answer::Denied => ("proxy_exec_denied", Outcome::Denied),
            };
            self.note_refusal(&target, result, operation);
            return Err(Stop::With(outcome));
        }
        self.carry_out(run, target, &decision, call, resident, result)
    }
}

fn no_network_in_a_session() -> Failure {
    Failure::new(Code::Unsupported, "a session has no network")
        .with_remedy("run it in a sandbox of its own, with avfs proxy exec")
}

/// Reports a failure.
fn fail(result: &mut ResultReport, failure: &Failure) -> Outcome {
    result.error = Some(ErrorReport::from(failure));
    if result.decision.rule == "none" {
        result.decision.reason = Some(failure.message().to_owned());
    }
    match failure.code() {
        Code::InvalidArgument
        | Code::InvalidConfig
        | Code::SessionNotFound
        | Code::VaultNotFound
        | Code::VaultExists
        | Code::ApprovalNotFound
        | Code::ApprovalClosed
        | Code::FileNotFound
        | Code::NotADirectory
        | Code::Unsupported => Outcome::InvalidRequest,
        // A token for another command.
        Code::ApprovalRequired => Outcome::ApprovalRequired,
        _ => Outcome::InternalError,
    }
}

/// Sets what follows from the outcome.
fn end(result: &mut ResultReport, outcome: Outcome) {
    result.outcome = outcome;
    result.state = outcome.state();
    result.timed_out = outcome == Outcome::TimedOut;
    let status = match (outcome.exit_status(), result.signal) {
        (Some(status), _) => i32::from(status),
        // As shells do.
        (None, Some(signal)) => 128 + signal,
        (None, None) => result.exit_code,
    };
    result.exit_status = u8::try_from(status & 0xff).unwrap_or(u8::MAX);
    let ran = matches!(outcome, Outcome::Done | Outcome::Failed | Outcome::Killed | Outcome::TimedOut);
    if !ran {
        result.exit_code = i32::from(result.exit_status);
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
