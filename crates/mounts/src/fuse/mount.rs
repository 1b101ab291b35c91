//! Mounts by the program fusermount3, which may do it for ordinary users, and which unmounts when the server is gone.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::io::{FdFlags, fcntl_setfd};

use crate::descriptors::receive;
use crate::error::MountError;
use crate::support::fusermount;

/// A mount that waits for the server to be ready. Its program stays in the namespaces in which it was started.
pub(super) struct Prepared {
    child: Child,
    socket: UnixStream,
}

/// A mount that exists.
pub(super) struct Mounted {
    pub(super) device: OwnedFd,
    /// The program unmounts when this is closed.
    pub(super) keep: UnixStream,
}

impl Prepared {
    /// Starts the program, which waits.
    pub(super) fn start(point: &Path, read_only: bool, for_everybody: bool) -> Result<Self, MountError> {
        let program = fusermount().ok_or_else(|| MountError::Unsupported {
            what: "a mount",
            reason: "the program fusermount3 is not installed (package fuse3)".to_owned(),
        })?;
        let failed = || MountError::io("start", &program);
        let mut options =
            String::from("nosuid,nodev,default_permissions,auto_unmount,fsname=avfs,subtype=avfs");
        options.push_str(if read_only { ",ro" } else { ",rw" });
        if for_everybody {
            options.push_str(",allow_other");
        }
        let (ours, theirs) = UnixStream::pair().map_err(failed())?;
        fcntl_setfd(theirs.as_fd(), FdFlags::empty()).map_err(|error| failed()(error.into()))?;
        // The program must be started before this process changes its namespaces, and mount only after it has.
        let child = Command::new("/bin/sh")
            .args(["-c", "read -r _ && exec \"$@\"", "sh"])
            .arg(&program)
            .args(["-o", &options, "--"])
            .arg(point)
            .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed())?;
        drop(theirs);
        Ok(Self { child, socket: ours })
    }

    /// Mounts.
    pub(super) fn mount(mut self, point: &Path) -> Result<Mounted, MountError> {
        let go = self.child.stdin.take().map_or(Ok(()), |mut pipe| pipe.write_all(b"\n"));
        match go.and_then(|()| receive(&self.socket)) {
            Ok(device) => Ok(Mounted { device, keep: self.socket }),
            Err(error) => Err(MountError::Mount { point: point.to_owned(), reason: self.reason(error) }),
        }
    }

    /// What the program said when it failed.
    fn reason(&mut self, error: io::Error) -> String {
        let mut text = String::new();
        let read = self.child.stderr.take().map_or(Ok(0), |pipe| pipe.take(4096).read_to_string(&mut text));
        match (read, text.trim()) {
            (Ok(_), said) if !said.is_empty() => said.to_owned(),
            _ => error.to_string(),
        }
    }
}
