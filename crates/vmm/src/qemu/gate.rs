//! A gate between fork and exec: a new process waits there until it has been put into its cgroup.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// The parent's end.
pub(crate) struct Gatekeeper(UnixStream);

/// The child's end.
pub(crate) struct Gate {
    ours: OwnedFd,
    /// The child's copy of the parent's end. It is closed first, or the child would not notice the parent's death.
    keepers: RawFd,
}

impl Gatekeeper {
    /// A closed gate.
    pub fn new() -> io::Result<(Self, Gate)> {
        let (keeper, ours) = UnixStream::pair()?;
        let keepers = keeper.as_raw_fd();
        Ok((Self(keeper), Gate { ours: ours.into(), keepers }))
    }

    /// Waits for the child and opens the gate if `admit`, which gets its process id, succeeds. `None` if the child died.
    pub fn let_in<T, E>(self, admit: impl FnOnce(u32) -> Result<T, E>) -> io::Result<Option<Result<T, E>>> {
        let mut pid = [0; 4];
        let Self(mut stream) = self;
        match stream.read_exact(&mut pid) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let admitted = admit(u32::from_le_bytes(pid));
        if admitted.is_ok() {
            stream.write_all(&[1])?;
        }
        Ok(Some(admitted))
    }
}

impl Gate {
    /// Waits until the gate is opened. Runs between fork and exec, so it only makes system calls.
    pub fn pass(&self) -> io::Result<()> {
        // SAFETY: the descriptor is the child's copy of one that only the parent uses.
        unsafe { libc::close(self.keepers) };
        let pid = rustix::process::getpid().as_raw_nonzero().get().cast_unsigned().to_le_bytes();
        rustix::io::write(&self.ours, &pid)?;
        match rustix::io::read(&self.ours, &mut [0; 1])? {
            0 => Err(rustix::io::Errno::CANCELED.into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    fn gated(program: &str) -> (Gatekeeper, Command) {
        let (keeper, gate) = Gatekeeper::new().unwrap();
        let mut command = Command::new(program);
        // SAFETY: it only makes system calls.
        unsafe { command.pre_exec(move || gate.pass()) };
        (keeper, command)
    }

    #[test]
    fn a_process_that_is_let_in_runs() {
        let (keeper, mut command) = gated("true");
        let spawned = std::thread::spawn(move || command.spawn().unwrap());
        let pid = keeper.let_in(Ok::<_, ()>).unwrap().unwrap().unwrap();
        let mut child = spawned.join().unwrap();
        assert_eq!(child.id(), pid);
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn one_that_is_not_never_does() {
        let (keeper, mut command) = gated("true");
        let spawned = std::thread::spawn(move || command.spawn());
        assert_eq!(keeper.let_in(|_| Err::<(), _>("no")).unwrap(), Some(Err("no")));
        assert_eq!(spawned.join().unwrap().unwrap_err().raw_os_error(), Some(libc::ECANCELED));
    }

    #[test]
    fn nobody_is_waited_for_in_vain() {
        let (keeper, command) = gated("true");
        drop(command);
        assert!(keeper.let_in(Ok::<_, ()>).unwrap().is_none());
    }
}
