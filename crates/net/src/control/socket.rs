//! The socket on which a router is controlled.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The socket on which a router is controlled. Holding it means being the only router of the installation.
#[derive(Debug)]
pub struct ControlSocket {
    pub(super) listener: UnixListener,
    lock: File,
    file: SocketFile,
}

/// Removes the socket from the file system. Absent for a router that runs as another user than the creator of the socket.
#[derive(Debug)]
struct SocketFile(Option<PathBuf>);

impl ControlSocket {
    /// Creates the socket, in a directory that is closed to other users. Fails with `AddrInUse` if a router has it; a
    /// socket that a dead router left is replaced. The lock is a file of the installation: once it is removed, the router
    /// ends.
    #[expect(clippy::disallowed_methods, reason = "runs once, before the router serves")]
    pub fn bind(path: &Path, lock: &Path) -> io::Result<Self> {
        let lock = File::options().create(true).append(true).open(lock)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => {
                io::Error::new(io::ErrorKind::AddrInUse, "another router of this installation is running")
            }
            other => other.into(),
        })?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        let file = SocketFile(Some(path.to_owned()));
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, lock, file })
    }

    /// The listener and the lock, for a router in another process: it holds the lock as long as it has the descriptor.
    pub fn into_descriptors(mut self) -> (OwnedFd, OwnedFd) {
        self.file.0 = None;
        (self.listener.into(), self.lock.into())
    }

    /// The socket of a router that was started with it.
    pub fn from_descriptors(listener: OwnedFd, lock: OwnedFd) -> io::Result<Self> {
        let listener = UnixListener::from(listener);
        listener.set_nonblocking(true)?;
        Ok(Self { listener, lock: lock.into(), file: SocketFile(None) })
    }

    /// Whether the installation was removed: its lock is in no directory any more.
    pub(super) fn is_abandoned(&self) -> io::Result<bool> {
        Ok(self.lock.metadata()?.nlink() == 0)
    }
}

impl Drop for SocketFile {
    #[expect(clippy::disallowed_methods, reason = "the router is ending")]
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Best effort: the next router replaces it.
            let _ = std::fs::remove_file(path);
        }
    }
}
