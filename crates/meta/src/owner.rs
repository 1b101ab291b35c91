//! The process that owns an operation, and whether it is still alive.

use std::fs;
use std::io;

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
        let started =
            start_of(pid).ok_or_else(|| io::Error::other("/proc does not report its start time"))?;
        Ok(Self { pid, started })
    }

    /// Whether this exact process is still running.
    pub fn is_alive(&self) -> bool {
        start_of(self.pid) == Some(self.started)
    }
}

/// Returns the start time of a process, or `None` if it has exited.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program name in parentheses. It may contain any character, including parentheses.
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
    fn a_zombie_is_not_alive() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let owner = Owner { pid, started: start_of(pid).unwrap() };
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
