//! A command in a machine, and this process beside it: what `run`, `exec` and `shell` have in common.

mod conversation;
mod exit;
mod input;
mod keeper;
mod remote;
mod report;
mod request;
mod signals;

pub use self::conversation::{Outcome, attend};
pub use self::exit::{FAILED, exit_code, signal_code};
pub use self::remote::attend_in_workspace;
pub use self::report::CommandReport;
pub use self::request::{command, variable};
pub use self::signals::Signals;
