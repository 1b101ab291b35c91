//! A command in a machine, connected to this process's input, output and signals: what `run`, `exec` and `shell` share.

mod conversation;
mod exit;
mod input;
mod keeper;
mod report;
mod request;
mod signals;

pub use self::conversation::{Attended, Outcome, attend_exec, attend_run};
pub use self::exit::{FAILED, exit_code, signal_code};
pub use self::report::CommandReport;
pub use self::request::{command, variable};
pub use self::signals::Signals;
