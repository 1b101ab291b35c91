//! The boundary in front of an agent's commands: one command in, one envelope out.
//!
//! ```text
//!  request ─► vault or fork ─► policy ─► approval ─► checkpoint ─► working directory ─► sandbox ─► changes ─► envelope
//! ```
//!
//! It puts the crates for policy, vaults, mounts and the sandbox together. It needs no daemon and no async runtime.

mod approvals;
mod capture;
pub mod envelope;
mod policies;
mod request;

pub use approvals::{Approvals, Asker, Granting};
pub use capture::{Captured, Limits as CaptureLimits};
pub use policies::{PolicyFiles, read_policy};
pub use request::{Fork, Invocation, RequestError, Run, parse_timeout};
