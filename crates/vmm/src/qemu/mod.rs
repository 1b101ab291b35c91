//! The QEMU program: finding it, its command line, its process.

mod binary;
mod command;
mod gate;
mod process;
mod short_log;
pub(crate) mod spawner;

pub use binary::{MIN_VERSION, Qemu, find};
pub use command::node_name;
pub use command::{Boot, BootSource, CommandLine, DiskFile, LAYOUT, Memory};
pub(crate) use command::{kernel_words, processor};
pub(crate) use gate::Gatekeeper;
pub(crate) use process::read_tail;
pub use process::{Confine, Credentials, Process, Spawn, is_remark, lookup_user, process_end, start_time};
pub(crate) use short_log::ShortLog;
