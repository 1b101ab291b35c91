//! What requests, responses and controls say. Version 4.
//!
//! Encoded with postcard: the order of fields and variants *is* the format, so both are append-only within a
//! version, and `tests/frozen.rs` compares every message with bytes written down once. Later versions only added
//! messages: version 2 the requests from [`Request::StartJob`] on, version 3 those from [`Request::Clock`] on,
//! version 4 [`Control::Detach`], and version 5 [`Control::ReportInput`]. All else is as it was in version 1.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    job::{JobInfo, JobRead},
    search::{Find, FoundEntry, Grep, GrepMatch, GrepSummary},
    variables::Secret,
    wake::{HookReport, Wake},
};

/// A path in the guest, as the kernel sees it: any bytes but NUL.
pub type RawPath = Vec<u8>;

/// What the host asks for. Each request opens a stream.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Request {
    /// Makes this machine a distinct one and, if asked, mounts its disk and enters it. Answered by
    /// [`Response::Done`]. Frames behind it wait until it is finished, so a command may follow at once.
    Configure(Configure),
    /// Runs a command. [`Response::Started`], then data on stdout and stderr, then a final [`Response::Exited`].
    Exec(Exec),
    /// Reads a file: [`Response::Metadata`], data on the main channel, end of data, final [`Response::Done`].
    ReadFile {
        /// The file.
        path: RawPath,
        /// First byte.
        offset: u64,
        /// Number of bytes; all that follow if absent.
        length: Option<u64>,
    },
    /// Writes a file from the main channel up to its end of data. Final [`Response::Written`].
    WriteFile {
        /// The file.
        path: RawPath,
        /// Permission bits; those of the file that is replaced, else 0644, if absent.
        mode: Option<u32>,
        /// Adds to the file instead of replacing it atomically.
        append: bool,
        /// Creates missing parent directories.
        parents: bool,
    },
    /// [`Response::Metadata`] of a path.
    Stat {
        /// The path.
        path: RawPath,
        /// Looks through a symbolic link at the end.
        follow: bool,
    },
    /// Lists a directory: any number of [`Response::Entries`], final [`Response::Done`].
    List {
        /// The directory.
        path: RawPath,
    },
    /// Removes a file or directory. [`Response::Done`].
    Remove {
        /// What to remove.
        path: RawPath,
        /// Also a directory that is not empty.
        recursive: bool,
    },
    /// Renames. [`Response::Done`].
    Rename {
        /// The old name.
        from: RawPath,
        /// The new name.
        to: RawPath,
        /// Replaces what has the new name.
        overwrite: bool,
    },
    /// Makes a directory. [`Response::Done`].
    Mkdir {
        /// The directory.
        path: RawPath,
        /// Permission bits, 0755 if absent.
        mode: Option<u32>,
        /// Makes missing parents too, and is content if the directory exists.
        parents: bool,
    },
    /// Changes permission bits. [`Response::Done`].
    Chmod {
        /// The path.
        path: RawPath,
        /// The new bits.
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
        /// How.
        options: TreeOptions,
    },
    /// Flushes the root file system and holds all writes to it back. [`Response::Done`].
    Freeze,
    /// Ends a freeze. [`Response::Done`].
    Thaw,
    /// Grows the root file system to the size its disk has now. [`Response::Done`].
    Grow,
    /// Flushes all file systems. [`Response::Done`].
    Sync,
    /// The agent's own condition. [`Response::Status`].
    Status,
    /// Ends all processes, unmounts the disk cleanly and powers off. [`Response::Done`] comes just before.
    PowerOff,
    /// Stops every process but the agent, so that a copy of this machine's memory does nothing before it was made
    /// a machine of its own. Until [`Self::Release`] or [`Self::Wake`] commands are refused as
    /// [`ErrorKind::Busy`]; files can be read. Ends by itself if the session is lost. [`Response::Done`].
    Hold {
        /// Flushes the root and then, when nothing runs any more, freezes it too.
        root: bool,
    },
    /// Ends a hold, and a freeze of the root with it. [`Response::Done`].
    Release,
    /// Makes a machine that may have been held itself and lets it go on. [`Response::Woken`]. As with
    /// [`Self::Configure`], frames behind it wait until it is finished, hooks included.
    Wake(Wake),
    /// Starts a job: a command that outlives the session and whose output the agent keeps. A job has no terminal,
    /// and its input comes by [`Self::WriteJob`]. [`Response::JobStarted`].
    StartJob(Exec),
    /// The jobs the agent remembers: any number of [`Response::Jobs`], final [`Response::Done`].
    ListJobs,
    /// Reads a job's output: data on stdout and stderr, final [`Response::JobOutput`].
    ReadJob(JobRead),
    /// Feeds a job's input, as soon as the job took what came before. [`Response::Written`].
    WriteJob {
        /// The job.
        id: u32,
        /// At most [`crate::JOB_INPUT`] bytes.
        bytes: Vec<u8>,
        /// They are the last.
        close: bool,
    },
    /// Sends a signal to a job's process group; 9 ends everything that descends from the job. A job that has ended
    /// is left alone. [`Response::Done`].
    SignalJob {
        /// The job.
        id: u32,
        /// The signal.
        signal: i32,
    },
    /// Forgets a job that has ended, and its output. [`Response::Done`].
    ForgetJob {
        /// The job.
        id: u32,
    },
    /// Changes the variables that every later command and job gets, below those of its own request. Checked as a
    /// whole first: [`crate::check_name`], [`crate::MAX_VARIABLES`], [`crate::MAX_VARIABLES_BYTES`].
    /// [`Response::EnvSet`].
    SetEnv {
        /// Names and values; a variable without a value is removed.
        changes: Vec<(String, Option<Secret>)>,
    },
    /// The variables set so. [`Response::Env`].
    GetEnv,
    /// Connects to a TCP port of the guest's own, on 127.0.0.1 or else on ::1. [`Response::Connected`], then data on
    /// the main channel both ways. Each side's end of data ends its way and leaves the other open; when both have
    /// ended, final [`Response::Done`].
    Connect {
        /// The port.
        port: u16,
    },
    /// Finds files: any number of [`Response::Found`], sorted by path, final [`Response::FindDone`]. Symbolic links
    /// are not followed, and `/proc`, `/sys` and `/dev` not entered unless they are the root or above it.
    Find(Find),
    /// Searches files for lines: any number of [`Response::Matches`], sorted by path and line, final
    /// [`Response::GrepDone`]. Goes where [`Self::Find`] does.
    Grep(Grep),
    /// Reads the clock that nobody sets. [`Response::Clock`].
    Clock,
    /// Sets the wall clock by the one that nobody sets, so that it does not matter when this is heard.
    /// [`Response::Done`].
    SetClock {
        /// By how many nanoseconds since the epoch the wall clock is ahead of it.
        ahead: u64,
    },
}

/// What makes this machine itself. Every field is optional: what is absent stays as it is.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Configure {
    /// Fresh entropy for the kernel's generator, 32 to 512 bytes. If it cannot be taken in, the request fails.
    pub entropy: Option<Vec<u8>>,
    /// Wall clock, nanoseconds since the epoch.
    pub unix_nanos: Option<u64>,
    /// Host name.
    pub hostname: Option<String>,
    /// 32 hex digits for `/etc/machine-id`.
    pub machine_id: Option<String>,
    /// MAC address of the first network interface.
    pub mac: Option<[u8; 6]>,
    /// Disk to mount and, usually, enter as the root.
    pub root: Option<RootDisk>,
}

/// A disk to mount as the root.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RootDisk {
    /// The device, `/dev/vda`.
    pub device: String,
    /// The file system, `ext4`.
    pub fstype: String,
    /// Nothing may be written to it.
    pub read_only: bool,
    /// Makes it the root. Else it is only mounted, at `/newroot`, for receiving a tree.
    pub enter: bool,
}

/// A command to run.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Exec {
    /// Program and arguments; the program is looked up in the command's `PATH` unless it contains a slash.
    pub argv: Vec<Vec<u8>>,
    /// Environment on top of the agent's defaults and the machine's variables.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Working directory; the user's home, else `/`, if absent.
    pub workdir: Option<RawPath>,
    /// Who runs it; root if absent.
    pub user: Option<User>,
    /// Whether the main channel feeds its standard input; else it reads nothing.
    pub stdin: bool,
    /// A terminal of that many columns and rows instead of pipes.
    pub tty: Option<(u16, u16)>,
    /// Milliseconds after which the whole tree of processes is ended.
    pub timeout_ms: Option<u64>,
}

/// Who runs a command.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum User {
    /// A name from the guest's `/etc/passwd`.
    Name(String),
    /// Numbers.
    Id {
        /// User.
        uid: u32,
        /// Group.
        gid: u32,
    },
}

/// How a tree is received.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct TreeOptions {
    /// Sets owners as sent; else everything belongs to root.
    pub owners: bool,
}

/// Something for a running stream.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Control {
    /// The terminal's new size.
    Resize {
        /// Columns.
        columns: u16,
        /// Rows.
        rows: u16,
    },
    /// A signal for the command's process group.
    Signal(i32),
    /// Turns the running command into a job. Output sent so far is not kept by the job, whose counts go on from there.
    /// The stream ends with [`Response::Detached`], or with [`Response::Exited`] if the command was faster. A command
    /// with a terminal stays as it is, and so does any other when there is no room for another job.
    Detach {
        /// Milliseconds since the start of the command after which it is ended; no limit if absent.
        timeout_ms: Option<u64>,
    },
    /// Asks how much of its input the command reads: [`Response::InputRead`] comes when it has read the first piece, of
    /// at most a page, and once more before [`Response::Exited`]. For input that was sent after this; a command with a
    /// terminal, or without input, reports nothing.
    ReportInput,
}

/// What the guest answers.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Response {
    /// It is done.
    Done,
    /// It failed.
    Error(GuestError),
    /// The command runs.
    Started {
        /// Its process.
        pid: u32,
    },
    /// The command ended.
    Exited(Exit),
    /// About a path.
    Metadata(Metadata),
    /// Some of a directory's entries.
    Entries(Vec<DirEntry>),
    /// So many bytes of content were written.
    Written {
        /// Bytes.
        bytes: u64,
    },
    /// The agent's condition.
    Status(Status),
    /// The machine goes on.
    Woken {
        /// What became of its hooks, in the order in which they ran.
        hooks: Vec<HookReport>,
    },
    /// The job runs.
    JobStarted {
        /// Its number.
        id: u32,
    },
    /// Some of the jobs.
    Jobs(Vec<JobInfo>),
    /// What a job had written at one moment; the bytes came as data.
    JobOutput {
        /// The job at that moment.
        info: JobInfo,
        /// Where the bytes of standard output begin.
        stdout_from: u64,
        /// Where the bytes of standard error begin.
        stderr_from: u64,
    },
    /// The machine's variables were changed.
    EnvSet {
        /// How many there are now.
        variables: u32,
    },
    /// The machine's variables, sorted by name.
    Env(Vec<(String, Secret)>),
    /// The connection is made.
    Connected,
    /// Some of what was found.
    Found(Vec<FoundEntry>),
    /// That was all.
    FindDone {
        /// There is more than was sent.
        truncated: bool,
    },
    /// Some of the lines that match.
    Matches(Vec<GrepMatch>),
    /// That was all.
    GrepDone(GrepSummary),
    /// The clock that nobody sets.
    Clock {
        /// Nanoseconds since the machine was booted, without those in which it stood still.
        nanos: u64,
    },
    /// The command goes on as a job.
    Detached {
        /// The job.
        id: u32,
    },
    /// How much of its input the command has read so far.
    InputRead {
        /// Bytes since its start.
        bytes: u64,
    },
}

/// Why a request failed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct GuestError {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// The kernel's error number, if it had one.
    pub errno: Option<i32>,
    /// What the agent was doing, in words.
    pub message: String,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum ErrorKind {
    /// The request makes no sense or is out of bounds.
    Invalid,
    /// There is no such file, program, user or job, or nothing listens there.
    NotFound,
    /// It exists already.
    Exists,
    /// Not permitted, or not executable.
    Denied,
    /// No space left.
    NoSpace,
    /// It was cancelled.
    Cancelled,
    /// The kernel refused for another reason.
    Io,
    /// The agent cannot do this here.
    Unsupported,
    /// Not now: the machine is held, or cannot be brought to rest.
    Busy,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Exit {
    /// Code or signal.
    pub status: ExitStatus,
    /// It was ended because its time was up.
    pub timed_out: bool,
    /// It was ended because the host said so.
    pub cancelled: bool,
    /// What it used.
    pub usage: Usage,
}

/// Exit code or signal.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// Resources a command used, its waited-for children included.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Usage {
    /// From start to exit, microseconds.
    pub wall_us: u64,
    /// Processor time in user mode, microseconds.
    pub user_us: u64,
    /// Processor time in the kernel, microseconds.
    pub system_us: u64,
    /// Largest resident size of one process, KiB.
    pub max_rss_kib: u64,
}

/// What kind of file.
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

/// About a path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Metadata {
    /// What it is.
    pub kind: FileKind,
    /// Length in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names.
    pub links: u64,
    /// Last modification, nanoseconds since the epoch.
    pub modified_ns: i64,
    /// Where a symbolic link points.
    pub target: Option<RawPath>,
}

/// One entry of a directory.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DirEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// About it; a symbolic link is not followed.
    pub metadata: Metadata,
}

/// The agent's own condition.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Status {
    /// The agent's resident memory, KiB.
    pub rss_kib: u64,
    /// Its open file descriptors.
    pub open_fds: u32,
    /// Its threads.
    pub threads: u32,
    /// Children that ended and nobody waited for.
    pub zombies: u32,
    /// Commands that run now.
    pub running: u32,
    /// Memory the guest has, KiB.
    pub mem_total_kib: u64,
    /// Memory the guest could still use, KiB.
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

/// Decodes a message; bytes left over are an error.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, postcard::Error> {
    let (message, rest) = postcard::take_from_bytes(bytes)?;
    if rest.is_empty() { Ok(message) } else { Err(postcard::Error::DeserializeBadEncoding) }
}
