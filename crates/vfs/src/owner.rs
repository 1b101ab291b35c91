//! The process that works on something, and whether it is still alive.

use std::fs;
use std::io;

use crate::VfsError;

/// A process. The start time distinguishes it from later ones with the same id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// In clock ticks since the host booted.
    pub(crate) started: u64,
}

impl Owner {
    pub(crate) fn current() -> Result<Self, VfsError> {
        let pid = std::process::id();
        let unknown = || io::Error::other("/proc does not tell when this process started");
        let started = start_of(pid).and_then(|started| started.ok_or_else(unknown));
        Ok(Self { pid, started: started.map_err(VfsError::io("read", "/proc"))? })
    }

    /// Whether this process is running. One that cannot be looked at counts as running.
    pub(crate) fn is_alive(self) -> bool {
        start_of(self.pid).map_or(true, |started| started == Some(self.started))
    }
}

/// The start time of a process; nothing if it has ended.
fn start_of(pid: u32) -> io::Result<Option<u64>> {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => Ok(parse_start(&stat)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // It ended between the open and the read.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse_start(stat: &str) -> Option<u64> {
    // The second field is the name in brackets, which may contain brackets and spaces.
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
    fn this_process_is_alive_and_another_with_its_id_is_not() {
        let me = Owner::current().unwrap();
        assert!(me.is_alive());
        assert!(!Owner { started: me.started + 1, ..me }.is_alive());
    }
}
