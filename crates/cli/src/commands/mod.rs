//! One verb, one file.

pub mod bench;
pub mod check;
pub mod image;
pub mod init;
mod interrupt;
pub mod run;

use self::interrupt::interruptible;
