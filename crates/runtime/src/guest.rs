//! What callers say to a machine's agent, and hear from it.

pub use agentiso_proto::{
    ErrorKind, Exec, Exit, ExitStatus, GuestError, HookOutcome, HookReport, Metadata, Status, TreeEntry,
    TreeItem, TreeKind, TreeOptions, User,
};
pub use agentiso_vmm::link::{
    FileReader, FileWriter, Guest, LinkError, Process, ProcessControl, ProcessEvent, Stdin, TreeReader,
    TreeWriter, WriteOptions,
};
