//! Control groups: what the processes of a command cannot leave by forking, and what they are stopped by.
//!
//! ```text
//! /                    the agent and the kernel's threads
//! /agentiso/N          one command and all that descends from it
//! /agentiso-hooks-N    the hooks of one waking
//! /anything else       the user's own, of containers for example
//! ```
//!
//! The hierarchy is mounted in every root as usual, so that whoever is root in the guest can use it. The agent keeps
//! a descriptor of its top and does not depend on that mount.

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
/// Empty groups kept for the next commands: making one is dearer than all the rest of this.
const KEPT: usize = 8;
/// How long the members of a killed group may take to be gone.
const DEATH_PATIENCE: Duration = Duration::from_secs(10);
/// The kernel holds notices of a change back for up to ten milliseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The hierarchy.
pub(crate) struct Groups {
    top: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    /// Empty, for the next command.
    free: Vec<String>,
    /// Something a command left running is still in these.
    lingering: VecDeque<String>,
}

/// A group of one command's processes. When dropped it is kept for another command, or removed once it is empty.
pub(crate) struct Group {
    groups: Arc<Groups>,
    name: String,
    reusable: bool,
}

impl Groups {
    /// Mounts the hierarchy, if the kernel has one.
    pub(crate) fn mount() -> Option<Arc<Self>> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        let opened = mount("cgroup2", MOUNT_POINT, "cgroup2", flags, None).and_then(|()| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(MOUNT_POINT, flags, Mode::empty())
        });
        match opened {
            Ok(top) => Some(Arc::new(Self { top, state: Mutex::default() })),
            Err(errno) => {
                log(&format!("no control groups: {errno}"));
                None
            }
        }
    }

    /// An empty group for a command.
    pub(crate) fn for_command(self: &Arc<Self>) -> Outcome<Group> {
        let mut state = locked(&self.state);
        if let Some(name) = state.free.pop() {
            return Ok(self.group(name));
        }
        state.last += 1;
        let name = format!("{COMMANDS}/{}", state.last);
        drop(state);
        match self.make(&name) {
            // Root in the guest may have removed it, and it is not there at first.
            Err(Errno::NOENT) => self.make(COMMANDS).and_then(|()| self.make(&name)),
            made => made,
        }
        .during(|| "making a control group")?;
        Ok(self.group(name))
    }

    /// A group for hooks, which no hold has stopped.
    pub(crate) fn for_hooks(self: &Arc<Self>) -> Outcome<Group> {
        let mut state = locked(&self.state);
        state.last += 1;
        let name = format!("{COMMANDS}-hooks-{}", state.last);
        drop(state);
        self.make(&name).during(|| "making a control group")?;
        Ok(self.group(name))
    }

    /// The groups right below the top: between them they hold all processes but the agent, the kernel's threads, and
    /// what root in the guest has put at the top itself.
    pub(crate) fn topmost(&self) -> Result<Vec<String>> {
        let directories = Dir::read_from(&self.top)?.filter(|entry| {
            entry.as_ref().map_or(true, |entry| {
                entry.file_type() == FileType::Directory
                    && !matches!(entry.file_name().to_bytes(), b"." | b"..")
            })
        });
        directories.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned())).collect()
    }

    /// Whether a group was told to stand still.
    pub(crate) fn is_stopped(&self, group: &str) -> Result<bool> {
        Ok(self.read(&format!("{group}/cgroup.freeze"))?.starts_with(b"1"))
    }

    /// Tells a group to stand still, or to go on.
    pub(crate) fn stop(&self, group: &str, stop: bool) -> Result<()> {
        self.write(&format!("{group}/cgroup.freeze"), if stop { b"1" } else { b"0" })
    }

    /// Waits until all of a group stands still; says whether it came to that.
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
        // One at a time, so that many of them do not make every command slow.
        if let Some(name) = state.lingering.pop_front()
            && rustix::fs::unlinkat(&self.top, &name, AtFlags::REMOVEDIR) == Err(Errno::BUSY)
        {
            state.lingering.push_back(name);
        }
    }

    /// Neither processes nor groups are in it.
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
    /// What a process is cloned into. Not kept open, so that idle groups hold nothing.
    pub(crate) fn open(&self) -> Outcome<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        self.groups.open(&self.name, flags).during(|| "opening a control group")
    }

    /// Ends everything in it and waits, within reason, until that is gone.
    pub(crate) fn kill(&self) {
        let killed = self
            .groups
            .write(&format!("{}/cgroup.kill", self.name), b"1")
            .and_then(|()| self.groups.wait_for(&self.name, b"populated 0", Instant::now() + DEATH_PATIENCE));
        match killed {
            Ok(true) => {}
            Ok(false) => log(&format!("something in the group {} does not end", self.name)),
            Err(errno) => log(&format!("cannot end the group {}: {errno}", self.name)),
        }
    }

    /// It served a command as it should and may serve another.
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
    fn an_event_is_a_whole_line() {
        let events = b"populated 1\nfrozen 0\n";
        assert!(has(events, b"populated 1") && has(events, b"frozen 0"));
        assert!(!has(events, b"populated 0") && !has(events, b"frozen") && !has(b"", b"frozen 1"));
    }
}
