//! One verb, one file.

mod archive_file;
mod attend;
pub mod bench;
pub mod check;
pub mod completions;
pub mod cp;
pub mod daemon;
mod daemon_call;
pub mod edit;
pub mod env;
pub mod exec;
pub mod fork;
pub mod forward;
pub mod grant;
pub mod grow;
pub mod image;
pub mod init;
mod interrupt;
pub mod jobs;
pub mod kernel;
pub mod label;
pub mod logs;
pub mod man;
pub mod read;
pub mod recover;
pub mod rename;
pub mod run;
pub mod serve;
pub mod sessions;
pub mod shell;
pub mod snapshot;
pub mod stats;
pub mod status;
pub mod timeline;
mod waiting;
pub mod workspace;
pub mod write;

pub use self::attend::FAILED as COMMAND_FAILED;

use self::daemon_call::Daemon;
use self::interrupt::{interruptible, interruption};
use self::waiting::waiting;
