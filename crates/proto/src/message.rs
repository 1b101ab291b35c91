//! Requests, responses and controls.
//!
//! Encoded with postcard: the order of fields and variants *is* the format, so both are append-only within a version,
//! and `tests/frozen.rs` compares every message with recorded bytes. Later versions only added messages: version 2 the
//! requests from [`Request::StartJob`] on, version 3 those from [`Request::Clock`] on, version 4 [`Control::Detach`],
//! version 5 [`Control::ReportInput`], version 6 [`Request::SetCard`], version 7 [`Request::ConnectTo`]. Everything else is
//! unchanged since version 1.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    job::{JobInfo, JobRead},
    search::{Find, FoundEntry, Grep, GrepMatch, GrepSummary},
    variables::Secret,
    wake::{HookReport, Wake},
};

/// A path in the guest: any bytes except NUL.
pub type RawPath = Vec<u8>;

/// A request of the host. Each opens a stream.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Request {
    /// Gives the machine its identity and, if requested, mounts its disk and changes root into it. Answered by
    /// [`Response::Done`]. Later frames wait until it has finished, so a command may follow immediately.
    Configure(Configure),
    /// Runs a command. [`Response::Started`], then data on stdout and stderr, then a final [`Response::Exited`].
    Exec(Exec),
    /// Reads a file: [`Response::Metadata`], data on the main channel, end of data, final [`Response::Done`].
    ReadFile {
        /// The file.
        path: RawPath,
        /// First byte to read.
        offset: u64,
        /// Number of bytes; to the end of the file if absent.
        length: Option<u64>,
    },
    /// Writes a file from the main channel up to its end of data. Final [`Response::Written`].
    WriteFile {
        /// The file.
        path: RawPath,
        /// Permission bits. If absent, those of the replaced file, otherwise 0644.
        mode: Option<u32>,
        /// Appends to the file instead of replacing it atomically.
        append: bool,
        /// Creates missing parent directories.
        parents: bool,
    },
    /// Returns the [`Response::Metadata`] of a path.
    Stat {
        /// The path.
        path: RawPath,
        /// Follows a symbolic link in the last component.
        follow: bool,
    },
    /// Lists a directory: any number of [`Response::Entries`], final [`Response::Done`].
    List {
        /// The directory.
        path: RawPath,
    },
    /// Removes a file or directory. [`Response::Done`].
    Remove {
        /// The file or directory.
        path: RawPath,
        /// Also removes a directory that is not empty.
        recursive: bool,
    },
    /// Renames a file or directory. [`Response::Done`].
    Rename {
        /// The old path.
        from: RawPath,
        /// The new path.
        to: RawPath,
        /// Replaces an existing file at the new path.
        overwrite: bool,
    },
    /// Creates a directory. [`Response::Done`].
    Mkdir {
        /// The directory.
        path: RawPath,
        /// Permission bits, 0755 if absent.
        mode: Option<u32>,
        /// Also creates missing parents, and succeeds if the directory exists.
        parents: bool,
    },
    /// Changes permission bits. [`Response::Done`].
    Chmod {
        /// The path.
        path: RawPath,
        /// The new permission bits.
        mode: u32,
    },
    /// Sends a file or directory tree to the host as [`crate::TreeItem`]s on the main channel. Final
    /// [`Response::Done`].
    SendTree {
        /// The root of the tree.
        path: RawPath,
    },
    /// Receives tree items on the main channel into a directory. Final [`Response::Written`].
    ReceiveTree {
        /// The directory, created if missing.
        path: RawPath,
        /// Options for this tree.
        options: TreeOptions,
    },
    /// Flushes the root file system and blocks all writes to it. [`Response::Done`].
    Freeze,
    /// Ends a freeze. [`Response::Done`].
    Thaw,
    /// Grows the root file system to the current size of its disk. [`Response::Done`].
    Grow,
    /// Flushes all file systems. [`Response::Done`].
    Sync,
    /// Returns the agent's [`Response::Status`].
    Status,
    /// Ends all processes, unmounts the disk cleanly and powers off. [`Response::Done`] is sent just before.
    PowerOff,
    /// Freezes every process but the agent, so that a copy of the machine's memory runs nothing until it has its own
    /// identity. Until [`Self::Release`] or [`Self::Wake`], commands fail with [`ErrorKind::Busy`]; files can be read.
    /// Ends automatically if the session is lost. [`Response::Done`].
    Hold {
        /// Also flushes the root and freezes it once no process runs.
        root: bool,
    },
    /// Ends a hold, and the freeze of the root that came with it. [`Response::Done`].
    Release,
    /// Gives a machine, which may be held, its identity and releases it. [`Response::Woken`]. As with
    /// [`Self::Configure`], later frames wait until it has finished, including its hooks.
    Wake(Wake),
    /// Starts a job: a command that outlives the session and whose output the agent keeps. A job has no terminal; its
    /// input is sent with [`Self::WriteJob`]. [`Response::JobStarted`].
    StartJob(Exec),
    /// Lists the jobs: any number of [`Response::Jobs`], final [`Response::Done`].
    ListJobs,
    /// Reads a job's output: data on stdout and stderr, final [`Response::JobOutput`].
    ReadJob(JobRead),
    /// Writes to a job's input once the job has taken the previous input. [`Response::Written`].
    WriteJob {
        /// The job number.
        id: u32,
        /// At most [`crate::JOB_INPUT`] bytes.
        bytes: Vec<u8>,
        /// Closes the input after these bytes.
        close: bool,
    },
    /// Sends a signal to a job's process group; 9 kills all descendants of the job. Does nothing if the job has ended.
    /// [`Response::Done`].
    SignalJob {
        /// The job number.
        id: u32,
        /// The signal number.
        signal: i32,
    },
    /// Removes an ended job and its output. [`Response::Done`].
    ForgetJob {
        /// The job number.
        id: u32,
    },
    /// Changes the variables in the environment of every later command and job; variables in their own requests
    /// override them. Checked as a whole first: [`crate::check_name`], [`crate::MAX_VARIABLES`],
    /// [`crate::MAX_VARIABLES_BYTES`]. [`Response::EnvSet`].
    SetEnv {
        /// Names and values. A variable without a value is removed.
        changes: Vec<(String, Option<Secret>)>,
    },
    /// Returns the variables set with [`Self::SetEnv`]. [`Response::Env`].
    GetEnv,
    /// Connects to a TCP port of the guest, on 127.0.0.1 or else ::1. [`Response::Connected`], then data on the main
    /// channel in both directions. End of data closes one direction and leaves the other open; when both are closed,
    /// final [`Response::Done`].
    Connect {
        /// The port.
        port: u16,
    },
    /// Finds files: any number of [`Response::Found`], sorted by path, final [`Response::FindDone`]. Symbolic links are
    /// not followed; `/proc`, `/sys` and `/dev` are not entered unless the search starts there.
    Find(Find),
    /// Searches files for lines: any number of [`Response::Matches`], sorted by path and line, final
    /// [`Response::GrepDone`]. Searches the same directories as [`Self::Find`].
    Grep(Grep),
    /// Reads the monotonic clock. [`Response::Clock`].
    Clock,
    /// Sets the wall clock relative to the monotonic clock, so that delays in transit do not matter.
    /// [`Response::Done`].
    SetClock {
        /// Nanoseconds since the epoch minus the monotonic clock.
        ahead: u64,
    },
    /// Configures the network card, or takes it down. Connections that used the card before are reset.
    /// [`Response::Done`].
    SetCard {
        /// The card's new configuration; without one it is taken down.
        card: Option<Card>,
    },
    /// Connects to a TCP port of another machine, over the network of the guest. The answers are those of
    /// [`Self::Connect`].
    ConnectTo {
        /// The IPv4 address.
        address: [u8; 4],
        /// The port.
        port: u16,
    },
}

/// The configuration of the network card. The machine reaches everything through the gateway, its neighbours too.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Card {
    /// Its MAC address.
    pub mac: [u8; 6],
    /// The machine's IPv4 address.
    pub address: [u8; 4],
    /// The router, which need not be in a network of the machine's address.
    pub gateway: [u8; 4],
    /// The resolver, for `/etc/resolv.conf`.
    pub resolver: [u8; 4],
    /// The largest packet, [`Self::MIN_MTU`] to [`Self::MAX_MTU`].
    pub mtu: u16,
}

impl Card {
    /// The smallest MTU.
    pub const MIN_MTU: u16 = 1280;
    /// The largest MTU.
    pub const MAX_MTU: u16 = 65_520;
}

/// The identity of a machine. Absent fields stay unchanged.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Configure {
    /// Entropy for the kernel's random generator, 32 to 512 bytes. The request fails if it cannot be added.
    pub entropy: Option<Vec<u8>>,
    /// Wall clock time in nanoseconds since the epoch.
    pub unix_nanos: Option<u64>,
    /// Host name.
    pub hostname: Option<String>,
    /// 32 hex digits for `/etc/machine-id`.
    pub machine_id: Option<String>,
    /// MAC address of the first network interface.
    pub mac: Option<[u8; 6]>,
    /// Disk to mount and, usually, to change root into.
    pub root: Option<RootDisk>,
}

/// A disk to mount as the root.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RootDisk {
    /// The device, for example `/dev/vda`.
    pub device: String,
    /// The file system type, for example `ext4`.
    pub fstype: String,
    /// Mounts it read-only.
    pub read_only: bool,
    /// Changes root into it. Otherwise it is only mounted, at `/newroot`, to receive a tree.
    pub enter: bool,
}

/// A command to run.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Exec {
    /// Program and arguments. The program is looked up in the command's `PATH` unless it contains a slash.
    pub argv: Vec<Vec<u8>>,
    /// Variables that override the agent's defaults and the machine's variables.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Working directory. If absent, the user's home, otherwise `/`.
    pub workdir: Option<RawPath>,
    /// The user that runs it; root if absent.
    pub user: Option<User>,
    /// Connects standard input to the main channel. Otherwise standard input is empty.
    pub stdin: bool,
    /// Columns and rows of a terminal to use instead of pipes.
    pub tty: Option<(u16, u16)>,
    /// Milliseconds after which the command and all its descendants are killed.
    pub timeout_ms: Option<u64>,
}

/// The user that runs a command.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum User {
    /// A name from the guest's `/etc/passwd`.
    Name(String),
    /// Numeric ids.
    Id {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
    },
}

/// Options for receiving a tree.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct TreeOptions {
    /// Sets the owners from the tree. Otherwise everything belongs to root.
    pub owners: bool,
}

/// A control message for a running stream.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Control {
    /// Changes the size of the terminal.
    Resize {
        /// New width.
        columns: u16,
        /// New height.
        rows: u16,
    },
    /// Sends a signal to the command's process group.
    Signal(i32),
    /// Turns the running command into a job. Output already sent is not kept by the job; its byte counts continue. The
    /// stream ends with [`Response::Detached`], or with [`Response::Exited`] if the command exits first. Ignored for a
    /// command with a terminal, and if there is no room for another job.
    Detach {
        /// New timeout in milliseconds since the start of the command; none if absent.
        timeout_ms: Option<u64>,
    },
    /// Requests reports of how much of its input the command has read: one [`Response::InputRead`] when it has read the
    /// first chunk of at most a page, and one before [`Response::Exited`]. Covers input sent after this. A command with
    /// a terminal or without input reports nothing.
    ReportInput,
}

/// A response of the guest.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Response {
    /// The request succeeded.
    Done,
    /// The request failed.
    Error(GuestError),
    /// The command has started.
    Started {
        /// Its process id in the guest.
        pid: u32,
    },
    /// The command has exited.
    Exited(Exit),
    /// Metadata of a path.
    Metadata(Metadata),
    /// Some of the entries of a directory.
    Entries(Vec<DirEntry>),
    /// The content was written.
    Written {
        /// Number of bytes written.
        bytes: u64,
    },
    /// The agent's status.
    Status(Status),
    /// The machine was woken.
    Woken {
        /// Results of its hooks, in the order in which they ran.
        hooks: Vec<HookReport>,
    },
    /// The job has started.
    JobStarted {
        /// The job number.
        id: u32,
    },
    /// Some of the jobs.
    Jobs(Vec<JobInfo>),
    /// A job's output; the bytes were sent as data.
    JobOutput {
        /// The job at the time of reading.
        info: JobInfo,
        /// Offset of the first byte of standard output that was sent.
        stdout_from: u64,
        /// Offset of the first byte of standard error that was sent.
        stderr_from: u64,
    },
    /// The machine's variables were changed.
    EnvSet {
        /// Number of variables now.
        variables: u32,
    },
    /// The machine's variables, sorted by name.
    Env(Vec<(String, Secret)>),
    /// The connection is established.
    Connected,
    /// Some of the files found.
    Found(Vec<FoundEntry>),
    /// The search is complete.
    FindDone {
        /// There are more matches than were sent.
        truncated: bool,
    },
    /// Some of the matching lines.
    Matches(Vec<GrepMatch>),
    /// The search is complete.
    GrepDone(GrepSummary),
    /// The monotonic clock.
    Clock {
        /// Nanoseconds since the machine booted, not counting the time it was paused.
        nanos: u64,
    },
    /// The command continues as a job.
    Detached {
        /// The job number.
        id: u32,
    },
    /// How much of its input the command has read.
    InputRead {
        /// Bytes since the command's start.
        bytes: u64,
    },
}

/// Why a request failed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct GuestError {
    /// The category of the failure.
    pub kind: ErrorKind,
    /// The kernel's error number, if a system call failed.
    pub errno: Option<i32>,
    /// What failed and why, for a user.
    pub message: String,
}

/// Categories of failures.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum ErrorKind {
    /// The request is malformed or out of bounds.
    Invalid,
    /// The file, program, user or job does not exist, or nothing listens on the port.
    NotFound,
    /// It already exists.
    Exists,
    /// Not permitted, or not executable.
    Denied,
    /// No space left.
    NoSpace,
    /// The request was cancelled.
    Cancelled,
    /// Another error of the kernel.
    Io,
    /// The agent or the kernel does not support it.
    Unsupported,
    /// Not possible at the moment: the machine is held, or its processes cannot be frozen.
    Busy,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Exit {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// It was killed at its timeout.
    pub timed_out: bool,
    /// It was killed because the host cancelled it.
    pub cancelled: bool,
    /// Resources it used.
    pub usage: Usage,
}

/// Exit code or signal.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
}

/// Resources used by a command and its reaped children.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Usage {
    /// Wall clock time from start to exit, in microseconds.
    pub wall_us: u64,
    /// CPU time in user mode, in microseconds.
    pub user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub system_us: u64,
    /// Maximum resident set size of a single process, in KiB.
    pub max_rss_kib: u64,
}

/// The type of a file.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, pipe or socket.
    Other,
}

/// Metadata of a path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Metadata {
    /// Type of the file.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner's user id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Number of hard links.
    pub links: u64,
    /// Modification time in nanoseconds since the epoch.
    pub modified_ns: i64,
    /// Target of a symbolic link.
    pub target: Option<RawPath>,
}

/// One entry of a directory.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DirEntry {
    /// File name without directories.
    pub name: Vec<u8>,
    /// Metadata; a symbolic link is not followed.
    pub metadata: Metadata,
}

/// Resource usage of the agent and the machine.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Status {
    /// The agent's resident memory, KiB.
    pub rss_kib: u64,
    /// Open file descriptors of the agent.
    pub open_fds: u32,
    /// Threads of the agent.
    pub threads: u32,
    /// Exited children that were not reaped yet.
    pub zombies: u32,
    /// Running commands.
    pub running: u32,
    /// Total memory of the guest, KiB.
    pub mem_total_kib: u64,
    /// Available memory of the guest, KiB.
    pub mem_available_kib: u64,
    /// Size of the root file system in bytes, 0 if none is mounted.
    pub root_bytes: u64,
    /// Free bytes of the root file system.
    pub root_free_bytes: u64,
}

/// Encodes a message.
pub fn to_bytes<T: Serialize>(message: &T) -> Result<Vec<u8>, postcard::Error> {
    postcard::to_allocvec(message)
}

/// Decodes a message. Trailing bytes are an error.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, postcard::Error> {
    let (message, rest) = postcard::take_from_bytes(bytes)?;
    if rest.is_empty() { Ok(message) } else { Err(postcard::Error::DeserializeBadEncoding) }
}
