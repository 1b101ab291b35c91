//! Unix sockets in a directory whose path may be longer than a socket address.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A directory for sockets.
///
/// A socket address is limited to 107 bytes. A path through `/proc/self/fd` is always short, and because the directory is
/// open it cannot be replaced.
#[derive(Debug)]
pub struct SocketDir {
    dir: File,
}

impl SocketDir {
    /// Opens a directory.
    #[expect(
        clippy::disallowed_methods,
        reason = "called `in_place`, by the start of a machine and by reconnecting"
    )]
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::PATH;
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        Ok(Self { dir: OpenOptions::new().read(true).custom_flags(flags).open(path)? })
    }

    /// Creates a listening socket.
    pub fn listen(&self, name: &str) -> io::Result<UnixListener> {
        UnixListener::bind(self.address(name))
    }

    /// Connects to a socket.
    pub fn connect(&self, name: &str) -> io::Result<UnixStream> {
        UnixStream::connect(self.address(name))
    }

    /// The path of a file in it, valid while this is open.
    pub(crate) fn address(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.dir.as_raw_fd()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_socket_works_in_a_directory_with_a_very_long_path() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("d".repeat(120)).join("e".repeat(120));
        std::fs::create_dir_all(&deep).unwrap();
        let sockets = SocketDir::open(&deep).unwrap();
        let listener = sockets.listen("x.sock").unwrap();
        let mut client = SocketDir::open(&deep).unwrap().connect("x.sock").unwrap();
        client.write_all(b"hi").unwrap();
        drop(client);
        let mut said = String::new();
        listener.accept().unwrap().0.read_to_string(&mut said).unwrap();
        assert_eq!(said, "hi");
    }
}
