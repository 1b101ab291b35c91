//! The link port: what can be done inside a running workspace.
//!
//! A link is a cheap handle to the agent of one machine. Calls run side by side. Dropping a future or a stream stops the
//! work behind it, unless its documentation says otherwise. The data types are those of the guest protocol.

mod connection;
mod error;
mod files;
mod jobs;
mod process;
mod search;
mod trees;
mod workspace_link;

pub use agentiso_proto::{
    DirEntry, ErrorKind, Exec, Exit, ExitStatus, FileKind, Find, FoundEntry, Grep, GrepMatch, GuestError,
    HookOutcome, HookReport, JobInfo, JobRead, JobStream, JobWait, Metadata, Status, TreeEntry, TreeItem,
    TreeKind, TreeOptions, Usage, User, check_name,
};
pub use connection::{ConnectionReader, ConnectionWriter};
pub use error::LinkError;
pub use files::{FileReader, FileWriter, WriteOptions};
pub use jobs::JobOutput;
pub use process::{Process, ProcessControl, ProcessEvent, Stdin};
pub use search::{Found, Grepped};
pub use trees::{TreeReader, TreeWriter};
pub use workspace_link::{Link, WorkspaceLink};
