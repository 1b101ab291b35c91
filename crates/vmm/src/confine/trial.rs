//! Testing whether machines can be limited, with a process that does nothing.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use super::{ConfineError, Confinement, Group, Limits};
use crate::hardware::{Accel, Hardware, LinkKind};
use crate::qemu::Gatekeeper;

/// The size does not matter.
const SHAPE: Hardware = Hardware { accel: Accel::Tcg, link: LinkKind::Serial, vcpus: 1, memory_mb: 128 };

/// The result of the test.
#[derive(Debug)]
pub struct Trial {
    /// The cgroup of all machines.
    pub place: PathBuf,
    /// The limits that a machine would get.
    pub limits: Limits,
}

impl Confinement {
    /// Starts a process in a cgroup like a machine's, and removes both.
    pub fn try_out(&self) -> Result<Trial, ConfineError> {
        let failed = || ConfineError::io("start a process to try limits on");
        let (keeper, gate) = Gatekeeper::new().map_err(failed())?;
        let mut command = Command::new("true");
        // SAFETY: between fork and exec it only makes system calls.
        unsafe { command.pre_exec(move || gate.pass()) };
        let starting = thread::spawn(move || command.spawn());
        let name = format!("trial-{}", uuid::Uuid::new_v4().simple());
        let admitted = keeper.let_in(|pid| {
            let group = self.admit_all(&name, SHAPE, pid)?;
            let place = group.path().parent().unwrap_or(group.path()).to_owned();
            Ok::<_, ConfineError>((Trial { place, limits: group.limits() }, group))
        });
        let started = starting.join().unwrap_or_else(|_| Err(io::Error::other("its thread failed")));
        if let Ok(mut child) = started {
            let _ = child.wait();
        }
        self.give_up(&name);
        match admitted.map_err(failed())? {
            Some(admitted) => admitted.map(|(trial, _): (Trial, Group)| trial),
            None => Err(failed()(io::Error::other("it did not start"))),
        }
    }
}
