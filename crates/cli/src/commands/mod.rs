//! One verb, one file.

mod attend;
pub mod bench;
pub mod check;
pub mod daemon;
pub mod exec;
pub mod fork;
mod hooks;
pub mod image;
pub mod init;
mod interrupt;
pub mod maintain;
pub mod run;
pub mod serve;
mod size;
pub mod snapshot;
mod waiting;
pub mod workspace;

pub use self::attend::FAILED as COMMAND_FAILED;

use self::interrupt::{Held, interruptible};
use self::waiting::waiting;
