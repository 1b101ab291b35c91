//! The QEMU program: finding it, its command line, its process.

mod binary;
mod command;
mod gate;
mod process;
mod short_log;
pub(crate) mod spawner;
mod way_in;

pub use binary::{MIN_VERSION, Qemu, find};
pub use command::node_name;
pub use command::{Boot, BootSource, CommandLine, DiskFile, LAYOUT, Memory, OwnDisks};
pub(crate) use command::{kernel_words, processor};
pub(crate) use gate::Gatekeeper;
pub(crate) use process::read_tail;
pub use process::{
    Confine, Credentials, Isolate, Process, Spawn, is_remark, lookup_user, process_end, start_time,
};
pub(crate) use short_log::ShortLog;
pub(crate) use way_in::WayIn;
