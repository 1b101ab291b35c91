//! Who began an operation, and whether they still live.

use std::fs;
use std::io;

/// A process, told from later ones of the same number by when it started.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Owner {
    /// The process id.
    pub pid: u32,
    /// When it started, in clock ticks since the host booted.
    pub started: u64,
}

impl Owner {
    /// This process. Fails where `/proc` cannot be read: others could not tell that it lives.
    pub fn current() -> io::Result<Self> {
        let pid = std::process::id();
        let started = start_of(pid).ok_or_else(|| io::Error::other("/proc does not tell when it started"))?;
        Ok(Self { pid, started })
    }

    /// Whether that very process still runs.
    pub fn is_alive(&self) -> bool {
        start_of(self.pid) == Some(self.started)
    }
}

/// Returns when a process started, unless it has ended.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets and may hold anything, brackets and spaces too.
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // Field 22 of the whole line; the state is field 3.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_another_of_the_same_number_is_not() {
        let me = Owner::current().unwrap();
        assert!(me.started > 0);
        assert!(me.is_alive());
        assert!(!Owner { started: me.started + 1, ..me }.is_alive());
    }

    #[test]
    fn a_process_that_ended_is_not_alive_even_before_it_is_reaped() {
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
