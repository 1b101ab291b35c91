//! An idle process that keeps the scope alive while this process starts and watches machines.
//!
//! Systemd removes a scope as soon as it is empty, and with it the kernel's record of why the last machine ended.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::{ConfineError, Confinement, Group};
use crate::qemu::{Gatekeeper, spawner};

/// The idle process. Killed when dropped, and by the kernel when this process ends.
#[derive(Debug)]
pub(super) struct Keeper {
    child: Child,
    group: Group,
}

impl Keeper {
    /// Starts it in its own cgroup.
    pub fn start(confinement: &Confinement) -> Result<Self, ConfineError> {
        let failed = || ConfineError::io("start a process that keeps the scope");
        let (gatekeeper, gate) = Gatekeeper::new().map_err(failed())?;
        let mut command = Command::new("sleep");
        command.arg("infinity").env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let in_child = move || {
            gate.pass()?;
            set_parent_process_death_signal(Some(Signal::KILL))?;
            Ok(())
        };
        // SAFETY: between fork and exec it only makes system calls.
        unsafe { command.pre_exec(in_child) };
        let name = format!("keeper-{}", std::process::id());
        let spawning = spawner::spawn(command);
        let admitted = gatekeeper.let_in(|pid| confinement.take_in_unlimited(&name, pid));
        let started = spawning.wait();
        match (admitted.map_err(failed())?, started) {
            (Some(Ok(group)), Ok(child)) => Ok(Self { child, group }),
            (Some(Err(error)), _) => Err(error),
            (_, Err(error)) => Err(failed()(error)),
            (None, Ok(mut child)) => {
                let _ = child.kill().and_then(|()| child.wait());
                Err(failed()(io::Error::other("it went past the gate")))
            }
        }
    }

    /// Whether the process and its cgroup still exist.
    pub fn is_there(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None)) && self.group.path().is_dir()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
        self.group.remove();
    }
}
