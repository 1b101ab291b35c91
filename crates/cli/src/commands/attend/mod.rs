//! A command in a machine, and this process beside it: what `run` and `exec` have in common.

mod conversation;
mod exit;
mod report;
mod request;
mod signals;

pub use self::conversation::{Outcome, attend};
pub use self::exit::{FAILED, exit_code, signal_code};
pub use self::report::CommandReport;
pub use self::request::{command, with_image_defaults};
pub use self::signals::Signals;
