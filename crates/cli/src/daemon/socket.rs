//! The socket, which may lie deeper than the kernel takes a path.
#![expect(clippy::disallowed_methods, reason = "before the daemon serves")]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};
use tokio::net::UnixListener;

const NAME: &str = "daemon.sock";
/// What the kernel takes, with a little less.
const LONGEST: usize = 100;

/// A path to the socket that the kernel takes for as long as this is there.
pub struct SocketPath {
    path: PathBuf,
    _directory: Option<File>,
}

impl SocketPath {
    /// The socket in a directory.
    pub fn of(run_dir: &Path) -> io::Result<Self> {
        let plain = run_dir.join(NAME);
        if plain.as_os_str().len() <= LONGEST {
            return Ok(Self { path: plain, _directory: None });
        }
        let directory = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::DIRECTORY.bits().cast_signed())
            .open(run_dir)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd()));
        Ok(Self { path, _directory: Some(directory) })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Where the socket of a daemon is.
pub fn socket_file(run_dir: &Path) -> PathBuf {
    run_dir.join(NAME)
}

/// Listens on the socket: that of the service manager if it gave us one, else our own. The caller has the lock, so
/// whatever is there belongs to nobody.
pub fn listen(run_dir: &Path) -> Result<UnixListener, Failure> {
    let trouble =
        |error: io::Error| Failure::new(Code::of_io(&error), format!("{}: {error}", run_dir.display()));
    if let Some(inherited) = inherited() {
        return inherited.map_err(trouble);
    }
    make_private(run_dir).map_err(trouble)?;
    let socket = SocketPath::of(run_dir).map_err(trouble)?;
    match fs::remove_file(run_dir.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(trouble(error)),
        _ => {}
    }
    let listener = UnixListener::bind(socket.path()).map_err(trouble)?;
    fs::set_permissions(run_dir.join(NAME), fs::Permissions::from_mode(0o600)).map_err(trouble)?;
    Ok(listener)
}

/// Makes the directory and lets nobody else in. One that somebody else made is not used.
fn make_private(run_dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(run_dir)?;
    let metadata = fs::symlink_metadata(run_dir)?;
    if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the directory belongs to another user"));
    }
    fs::set_permissions(run_dir, fs::Permissions::from_mode(0o700))
}

/// The socket a service manager listens on for us: the first descriptor after the standard ones.
fn inherited() -> Option<io::Result<UnixListener>> {
    const FIRST: i32 = 3;
    let var = |name| std::env::var(name).ok();
    let for_us = var("LISTEN_PID")?.parse() == Ok(std::process::id());
    if !for_us || var("LISTEN_FDS")?.parse::<u32>().ok()? < 1 {
        return None;
    }
    // SAFETY: the service manager opened this descriptor for us and nothing else in this process knows of it; that
    // it is one for this very process was checked.
    let listener = unsafe { std::os::unix::net::UnixListener::from_raw_fd(FIRST) };
    let ours_alone = || {
        // It was left open for us across exec; machines must not get it as well.
        rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::CLOEXEC)?;
        listener.set_nonblocking(true)
    };
    Some(ours_alone().and_then(|()| UnixListener::from_std(listener)))
}
