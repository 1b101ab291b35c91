//! Admission: may a principal carry out an action?
//!
//! Everything here is a pure function of facts that the engine has read. The engine acts on the answer afterwards: it
//! adopts, takes checkpoints, reserves quota and records.
//!
//! ```text
//!  subjects found ──► decide ──► deny with a reason, or needs approval: nothing has happened
//!                       │
//!                       └──► allow: adopt workspaces without an owner, take the checkpoint, then perform the action
//! ```

mod decision;
mod facts;
mod quota;
mod takeover;

pub use decision::{Decision, Denial, decide};
pub use facts::{ActionFacts, Principal, Rules, Ruling, SubjectFacts, Use};
pub use quota::{Amounts, QuotaExceeded, QuotaKind, check_quota};
pub use takeover::{OwnerFacts, Takeover, TakeoverDenial, decide_takeover};
