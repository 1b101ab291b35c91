//! The process that owns an operation, and whether it is still alive.

use std::fs;
use std::io;
use std::path::Path;

const PROC: &str = "/proc";
const ESRCH: i32 = 3;

/// A process. The start time distinguishes it from later processes with the same id.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Owner {
    /// The process id.
    pub pid: u32,
    /// Start time in clock ticks since the host booted.
    pub started: u64,
}

impl Owner {
    /// This process. Fails if `/proc` cannot be read: other processes could not tell that it is alive.
    pub fn current() -> io::Result<Self> {
        let pid = std::process::id();
        let unknown = || io::Error::other("/proc does not tell when it started");
        let started = start_of(Path::new(PROC), pid)?.ok_or_else(unknown)?;
        Ok(Self { pid, started })
    }

    /// Whether this exact process is still running. If that cannot be determined, for example because the process is out
    /// of file descriptors, it is assumed to be: an operation must not be undone while its owner works on it.
    pub fn is_alive(&self) -> bool {
        self.is_alive_in(Path::new(PROC))
    }

    fn is_alive_in(&self, proc: &Path) -> bool {
        start_of(proc, self.pid).map_or(true, |started| started == Some(self.started))
    }
}

/// Returns the start time of a process, or `None` if it has exited.
#[expect(clippy::disallowed_methods, reason = "procfs is memory: reading it waits for no device")]
fn start_of(proc: &Path, pid: u32) -> io::Result<Option<u64>> {
    let stat = match fs::read_to_string(proc.join(pid.to_string()).join("stat")) {
        // ESRCH: it ended between the open and the read.
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH) => {
            return Ok(None);
        }
        read => read?,
    };
    Ok(parse_start(&stat))
}

fn parse_start(stat: &str) -> Option<u64> {
    // The second field is the program's name in brackets and may contain brackets and spaces too.
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // Field 22 of the line; the state is field 3.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_another_with_the_same_pid_is_not() {
        let me = Owner::current().unwrap();
        assert!(me.started > 0);
        assert!(me.is_alive());
        assert!(!Owner { started: me.started + 1, ..me }.is_alive());
    }

    #[test]
    fn a_process_that_cannot_be_looked_at_is_assumed_to_be_alive() {
        let proc = tempfile::tempdir().unwrap();
        let owner = Owner { pid: 7, started: 1 };
        assert!(!owner.is_alive_in(proc.path()), "it does not exist");
        // Reading a directory fails, and not because it is missing.
        fs::create_dir_all(proc.path().join("7/stat")).unwrap();
        assert!(owner.is_alive_in(proc.path()));
    }

    #[test]
    fn a_process_that_ended_is_not_alive_even_before_it_is_reaped() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let owner = Owner { pid, started: start_of(Path::new(PROC), pid).unwrap().unwrap() };
        assert!(owner.is_alive());
        child.kill().unwrap();
        let id = rustix::process::WaitId::Pid(rustix::process::Pid::from_raw(pid as i32).unwrap());
        let leave = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(id, leave).unwrap();
        assert!(!owner.is_alive());
        child.wait().unwrap();
        assert!(!owner.is_alive());
    }
}
