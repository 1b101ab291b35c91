//! The QEMU program: finding it, its command line, its process.

mod binary;
mod command;
mod credentials;
mod entry;
mod gate;
mod log;
mod process;
mod read_only;
mod short_log;
pub(crate) mod spawner;
mod status;

pub use binary::{MIN_VERSION, Qemu, find};
pub use command::node_name;
pub use command::{Boot, BootSource, CommandLine, DiskFile, LAYOUT, Memory, OwnDisks};
pub(crate) use command::{kernel_words, processor};
pub use credentials::{Credentials, lookup_user};
pub(crate) use entry::EntryMonitor;
pub(crate) use gate::Gatekeeper;
pub use log::is_remark;
pub(crate) use log::read_tail;
pub use process::{Confine, Isolate, Process, Spawn};
pub(crate) use short_log::ShortLog;
pub use status::{process_end, start_time};
