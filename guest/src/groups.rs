//! Cgroups (v2), one per command. Processes cannot leave theirs by forking, so it is used to freeze and kill them all.
//!
//! ```text
//! /                    the agent and the kernel's threads
//! /agentiso/N          one command and all its descendants
//! /agentiso-hooks-N    the hooks of one wake-up
//! /anything else       created by the user, for example for containers
//! ```
//!
//! The hierarchy is mounted in every root as usual, so that root in the guest can use it. The agent keeps a descriptor
//! of its top directory and does not depend on that mount.

use std::{
    collections::VecDeque,
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::{Errno, Result},
    mount::{MountFlags, mount},
};

use crate::{
    error::{During, Outcome},
    log::log,
    sync::locked,
};

const MOUNT_POINT: &str = "/sys/fs/cgroup";
const COMMANDS: &str = "agentiso";
/// Number of empty cgroups kept for later commands: creating a cgroup is slow.
const KEPT: usize = 8;
/// How long to wait for the processes of a killed cgroup to exit.
const DEATH_PATIENCE: Duration = Duration::from_secs(10);
/// Poll interval. The kernel delays notifications of a change by up to ten milliseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The cgroup hierarchy.
pub(crate) struct Groups {
    top: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    /// Empty cgroups, for later commands.
    free: Vec<String>,
    /// Cgroups in which a command left processes running.
    lingering: VecDeque<String>,
}

/// The cgroup of one command. On drop it is kept for another command, or removed once it is empty.
pub(crate) struct Group {
    groups: Arc<Groups>,
    name: String,
    reusable: bool,
}

impl Groups {
    /// Mounts the hierarchy. Returns `None` if the kernel has none.
    pub(crate) fn mount() -> Option<Arc<Self>> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        let opened = mount("cgroup2", MOUNT_POINT, "cgroup2", flags, None).and_then(|()| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(MOUNT_POINT, flags, Mode::empty())
        });
        match opened {
            Ok(top) => Some(Arc::new(Self { top, state: Mutex::default() })),
            Err(errno) => {
                log(&format!("cgroups are not available: {errno}"));
                None
            }
        }
    }

    /// Returns an empty cgroup for a command.
    pub(crate) fn for_command(self: &Arc<Self>) -> Outcome<Group> {
        let mut state = locked(&self.state);
        if let Some(name) = state.free.pop() {
            return Ok(self.group(name));
        }
        state.last += 1;
        let name = format!("{COMMANDS}/{}", state.last);
        drop(state);
        match self.make(&name) {
            // It does not exist at first, and root in the guest may have removed it.
            Err(Errno::NOENT) => self.make(COMMANDS).and_then(|()| self.make(&name)),
            made => made,
        }
        .during(|| "creating a cgroup")?;
        Ok(self.group(name))
    }

    /// Returns a cgroup for hooks. A hold does not freeze it.
    pub(crate) fn for_hooks(self: &Arc<Self>) -> Outcome<Group> {
        let mut state = locked(&self.state);
        state.last += 1;
        let name = format!("{COMMANDS}-hooks-{}", state.last);
        drop(state);
        self.make(&name).during(|| "creating a cgroup")?;
        Ok(self.group(name))
    }

    /// The cgroups directly below the top. Together they contain all processes except the agent, kernel threads, and
    /// those that root in the guest has moved to the top.
    pub(crate) fn topmost(&self) -> Result<Vec<String>> {
        let directories = Dir::read_from(&self.top)?.filter(|entry| {
            entry.as_ref().map_or(true, |entry| {
                entry.file_type() == FileType::Directory
                    && !matches!(entry.file_name().to_bytes(), b"." | b"..")
            })
        });
        directories.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned())).collect()
    }

    /// Whether a cgroup is set to be frozen.
    pub(crate) fn is_stopped(&self, group: &str) -> Result<bool> {
        Ok(self.read(&format!("{group}/cgroup.freeze"))?.starts_with(b"1"))
    }

    /// Freezes or thaws a cgroup.
    pub(crate) fn stop(&self, group: &str, stop: bool) -> Result<()> {
        self.write(&format!("{group}/cgroup.freeze"), if stop { b"1" } else { b"0" })
    }

    /// Waits until a whole cgroup is frozen. Returns false if the deadline passed.
    pub(crate) fn wait_for_standstill(&self, group: &str, deadline: Instant) -> Result<bool> {
        self.wait_for(group, b"frozen 1", deadline)
    }

    fn group(self: &Arc<Self>, name: String) -> Group {
        Group { groups: Arc::clone(self), name, reusable: false }
    }

    fn make(&self, name: &str) -> Result<()> {
        match rustix::fs::mkdirat(&self.top, name, Mode::from_raw_mode(0o755)) {
            Err(Errno::EXIST) => Ok(()),
            made => made,
        }
    }

    fn take_back(&self, name: String, reusable: bool) {
        let mut state = locked(&self.state);
        if reusable && state.free.len() < KEPT && self.is_as_new(&name) {
            state.free.push(name);
        } else {
            state.lingering.push_back(name);
        }
        // Check only one per call, so that many of them do not slow down every command.
        if let Some(name) = state.lingering.pop_front()
            && rustix::fs::unlinkat(&self.top, &name, AtFlags::REMOVEDIR) == Err(Errno::BUSY)
        {
            state.lingering.push_back(name);
        }
    }

    /// Whether it contains neither processes nor child cgroups.
    fn is_as_new(&self, name: &str) -> bool {
        const LINKS_WITHOUT_CHILDREN: u64 = 2;
        let childless = rustix::fs::statat(&self.top, name, AtFlags::empty())
            .is_ok_and(|stat| stat.st_nlink == LINKS_WITHOUT_CHILDREN);
        childless
            && self.read(&format!("{name}/cgroup.events")).is_ok_and(|events| has(&events, b"populated 0"))
    }

    fn wait_for(&self, group: &str, line: &[u8], deadline: Instant) -> Result<bool> {
        let events = self.open(&format!("{group}/cgroup.events"), OFlags::RDONLY)?;
        let mut buffer = [0; 128];
        loop {
            let len = rustix::io::pread(&events, &mut buffer, 0)?;
            if has(&buffer[..len], line) {
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let pause = Timespec::try_from(left.min(LOOK_AGAIN)).map_err(|_| Errno::INVAL)?;
            match poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&pause)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd> {
        rustix::fs::openat(&self.top, path, flags | OFlags::CLOEXEC, Mode::empty())
    }

    fn read(&self, path: &str) -> Result<Vec<u8>> {
        let mut buffer = vec![0; 128];
        let len = rustix::io::read(self.open(path, OFlags::RDONLY)?, &mut buffer)?;
        buffer.truncate(len);
        Ok(buffer)
    }

    fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        rustix::io::write(self.open(path, OFlags::WRONLY)?, content).map(|_| ())
    }
}

impl Group {
    /// Opens the cgroup for clone3. Not kept open, so that idle cgroups hold no descriptor.
    pub(crate) fn open(&self) -> Outcome<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        self.groups.open(&self.name, flags).during(|| "opening a cgroup")
    }

    /// Kills all processes in it and waits, up to a limit, until they are gone.
    pub(crate) fn kill(&self) {
        let killed = self
            .groups
            .write(&format!("{}/cgroup.kill", self.name), b"1")
            .and_then(|()| self.groups.wait_for(&self.name, b"populated 0", Instant::now() + DEATH_PATIENCE));
        match killed {
            Ok(true) => {}
            Ok(false) => log(&format!("some processes in cgroup {} did not exit after SIGKILL", self.name)),
            Err(errno) => log(&format!("cannot kill cgroup {}: {errno}", self.name)),
        }
    }

    /// Marks the cgroup as reusable: its command ended normally.
    pub(crate) fn reusable(mut self) -> Self {
        self.reusable = true;
        self
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.groups.take_back(std::mem::take(&mut self.name), self.reusable);
    }
}

fn has(events: &[u8], line: &[u8]) -> bool {
    events.split(|&byte| byte == b'\n').any(|found| found == line)
}

#[cfg(test)]
mod tests {
    use super::has;

    #[test]
    fn an_event_is_matched_as_a_whole_line() {
        let events = b"populated 1\nfrozen 0\n";
        assert!(has(events, b"populated 1") && has(events, b"frozen 0"));
        assert!(!has(events, b"populated 0") && !has(events, b"frozen") && !has(b"", b"frozen 1"));
    }
}
