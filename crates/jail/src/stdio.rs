//! The standard streams of a command.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The descriptors that become 0, 1 and 2 of a command. The caller reads and writes the other ends of its pipes itself.
///
/// A pipe's reader sees the end of the stream when the last process that holds it has ended, which is at the latest when
/// [`crate::Running::wait`] returns.
#[derive(Debug)]
pub struct Stdio {
    /// Standard input.
    pub stdin: OwnedFd,
    /// Standard output.
    pub stdout: OwnedFd,
    /// Standard error.
    pub stderr: OwnedFd,
}

impl Stdio {
    /// Nothing to read, and what is written is discarded.
    pub fn null() -> io::Result<Self> {
        let null = OwnedFd::from(OpenOptions::new().read(true).write(true).open("/dev/null")?);
        Ok(Self { stdin: null.try_clone()?, stdout: null.try_clone()?, stderr: null })
    }

    /// The caller's own standard streams.
    pub fn inherit() -> io::Result<Self> {
        Ok(Self {
            stdin: io::stdin().as_fd().try_clone_to_owned()?,
            stdout: io::stdout().as_fd().try_clone_to_owned()?,
            stderr: io::stderr().as_fd().try_clone_to_owned()?,
        })
    }
}
