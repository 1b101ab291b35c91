//! The calls into a running workspace.

use std::net::Ipv4Addr;
use std::sync::Arc;

use async_trait::async_trait;

use super::{
    ConnectionReader, ConnectionWriter, DirEntry, Exec, FileReader, FileWriter, Find, Found, Grep, Grepped,
    JobInfo, JobOutput, JobRead, LinkError, Metadata, Process, Status, TreeOptions, TreeReader, TreeWriter,
    WriteOptions,
};

/// A shared handle to a running workspace.
pub type Link = Arc<dyn WorkspaceLink>;

/// A connection to a running workspace. Paths are absolute paths of the guest, as bytes.
#[async_trait]
pub trait WorkspaceLink: Send + Sync {
    /// The agent's condition.
    async fn status(&self) -> Result<Status, LinkError>;

    /// Runs a command. It is queued at once; [`ProcessEvent::Started`](super::ProcessEvent::Started) is its first event.
    async fn exec(&self, exec: Exec) -> Result<Box<dyn Process>, LinkError>;

    /// Starts a command as a job and returns its number. It continues if the link is closed. A job has no
    /// terminal.
    async fn start_job(&self, exec: Exec) -> Result<u32, LinkError>;

    /// The jobs the agent remembers, in the order in which they were started.
    async fn jobs(&self) -> Result<Vec<JobInfo>, LinkError>;

    /// Reads a job's output, as soon as there is what the request waits for.
    async fn read_job(&self, read: JobRead) -> Result<JobOutput, LinkError>;

    /// Feeds a job's standard input, as fast as the job reads; with `close` these are the last bytes. If the future is
    /// dropped, some of them may have been fed.
    async fn write_job(&self, id: u32, bytes: &[u8], close: bool) -> Result<(), LinkError>;

    /// Sends a signal to a job's process group; 9 ends all its descendants. No effect on a job that has ended.
    async fn signal_job(&self, id: u32, signal: i32) -> Result<(), LinkError>;

    /// Metadata of a path; of the target of a symbolic link if `follow`.
    async fn stat(&self, path: &[u8], follow: bool) -> Result<Metadata, LinkError>;

    /// Lists a directory.
    async fn list(&self, path: &[u8]) -> Result<Vec<DirEntry>, LinkError>;

    /// Reads a file from `offset`; no more than `length` bytes, if given.
    async fn read_file(
        &self,
        path: &[u8],
        offset: u64,
        length: Option<u64>,
    ) -> Result<Box<dyn FileReader>, LinkError>;

    /// Writes a file. Nothing is replaced before [`FileWriter::finish`] succeeds.
    async fn write_file(&self, path: &[u8], options: WriteOptions) -> Result<Box<dyn FileWriter>, LinkError>;

    /// Removes a file or directory; a directory that is not empty only if `recursive`.
    async fn remove(&self, path: &[u8], recursive: bool) -> Result<(), LinkError>;

    /// Renames a file or directory; replaces an existing target only if `overwrite`.
    async fn rename(&self, from: &[u8], to: &[u8], overwrite: bool) -> Result<(), LinkError>;

    /// Makes a directory, with mode 0755 if none is given; with `parents` also those above it, and none of them need be
    /// new.
    async fn mkdir(&self, path: &[u8], mode: Option<u32>, parents: bool) -> Result<(), LinkError>;

    /// Sends a file or a whole directory to the host.
    async fn send_tree(&self, path: &[u8]) -> Result<Box<dyn TreeReader>, LinkError>;

    /// Receives a tree into a directory, which is created if missing.
    async fn receive_tree(&self, path: &[u8], options: TreeOptions)
    -> Result<Box<dyn TreeWriter>, LinkError>;

    /// Finds files and directories by their paths.
    async fn find(&self, find: Find) -> Result<Found, LinkError>;

    /// Searches text files for lines.
    async fn grep(&self, grep: Grep) -> Result<Grepped, LinkError>;

    /// The variables that every command of the machine gets, with their values.
    async fn env(&self) -> Result<Vec<(String, String)>, LinkError>;

    /// Sets variables for every later command and job, below those of its own request; a variable without a value is
    /// removed. Returns how many there are now. If one of them is refused, nothing changes.
    async fn set_env(&self, changes: Vec<(String, Option<String>)>) -> Result<u32, LinkError>;

    /// Connects to a TCP port on the guest's loopback addresses. If nothing listens there, the error is a
    /// [`LinkError::Guest`] of kind `NotFound`.
    async fn connect(
        &self,
        port: u16,
    ) -> Result<(Box<dyn ConnectionReader>, Box<dyn ConnectionWriter>), LinkError>;

    /// Connects to a TCP port of another workspace over the guest's network, as a program in the guest would. If the
    /// connection is refused, the error is a [`LinkError::Guest`] of kind `NotFound`.
    async fn connect_to(
        &self,
        address: Ipv4Addr,
        port: u16,
    ) -> Result<(Box<dyn ConnectionReader>, Box<dyn ConnectionWriter>), LinkError>;
}
