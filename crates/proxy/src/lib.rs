//! The boundary in front of an agent's commands: one command in, one envelope out.
//!
//! ```text
//!  request ─► vault or fork ─► policy ─► approval ─► checkpoint ─► working directory ─► sandbox ─► changes ─► envelope
//! ```
//!
//! It puts the crates for policy, vaults, mounts and the sandbox together. It needs no daemon and no async runtime.

mod approvals;
mod capture;
mod changes;
mod entering;
pub mod envelope;
mod mounting;
mod policies;
mod request;
mod run;
mod session;

pub use agentiso_jail::run_helper_if_requested;
pub use agentiso_mounts::{By, MountState, serve_mount};
pub use approvals::{Approvals, Asker, Granting};
pub use changes::{
    change as change_report, entry as kind_name, exact as exact_path, notice, reason as conflict_reason,
    shown as shown_path,
};
pub use entering::enter;
pub use mounting::{BroughtBack, Mounted, Mounting, SERVE_MOUNT};
pub use policies::{PolicyFiles, read_policy};
pub use request::{Fork, Invocation, RequestError, Run, parse_timeout, parse_variable};
pub use run::{
    Boundary, Live, OutputStream, Places, explain, name_of, no_vault, reclaim, refused, roots,
    wait_for_interrupt,
};
pub use session::{SessionInfo, Sessions, serve_session};
