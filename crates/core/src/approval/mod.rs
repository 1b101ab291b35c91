//! Requests for approval: what a workspace or its agent may not do unless somebody else allows exactly that.
//!
//! ```text
//!              granted once ──► used, or its time is over: used or expired
//!             ╱
//!  raised: open ──► granted for the workspace, or always: holds until it is revoked (denied)
//!             ╲╲
//!              ╲ denied: equal requests are refused without asking, until its time is over
//!               ╲ nobody answered in time: expired
//! ```
//!
//! A request is bound to the exact thing it asks for, by a digest. It is answered by the operator or by a session that the
//! operator named as approver, and never by the session that asked or that owns the workspace. Everything here is pure.

mod asked;
mod bounds;
mod request;
mod rules;

pub use asked::{ApprovalKind, Asked, MAX_ASKED, NetworkDestination};
pub use bounds::{Counts, OpenLimits};
pub use request::{Answer, Approval, ApprovalState, GrantScope, MAX_REASON};
pub use rules::{Approver, Refusal, Transition, may_answer, may_answer_so, may_see, transition};
