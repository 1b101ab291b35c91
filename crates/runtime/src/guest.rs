//! What callers say to a machine's agent, and hear from it.

pub use agentiso_proto::{
    ErrorKind, Exec, Exit, ExitStatus, FileKind, Find, Grep, GuestError, HookOutcome, HookReport, JobInfo,
    JobRead, JobWait, Metadata, Status, TreeEntry, TreeItem, TreeKind, TreeOptions, Usage, User, check_name,
};
pub use agentiso_vmm::link::{
    ConnectionReader, ConnectionWriter, FileReader, FileWriter, Guest, JobOutput, LinkError, Process,
    ProcessControl, ProcessEvent, Stdin, TreeReader, TreeWriter, WriteOptions,
};
