//! One QEMU process: started apart from us, watched through a descriptor.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::gate::{Gate, Gatekeeper};
use super::spawner;
use super::way_in::{Traveller, WayIn};
use crate::VmError;
use crate::confine::{Confinement, Group};
use crate::hardware::Hardware;
use crate::isolation::{Isolation, Shown};

/// How much of QEMU's own complaints is shown.
const STDERR_TAIL: u64 = 2048;

/// The user a process runs as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Credentials {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Group that may use KVM, if it is one group's privilege.
    pub kvm_gid: Option<u32>,
}

/// What to start.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: Vec<std::ffi::OsString>,
    /// Descriptors it inherits under their own numbers.
    pub inherited: Vec<BorrowedFd<'a>>,
    /// File that takes its error output.
    pub stderr: PathBuf,
    /// Another user to become first.
    pub run_as: Option<Credentials>,
    /// All it is to see of the host, beside the program itself.
    pub isolate: Option<Isolate<'a>>,
    /// Ends with this process.
    pub ephemeral: bool,
    /// The group it is put into.
    pub confine: Option<Confine<'a>>,
}

/// What a process is to see.
#[derive(Debug)]
pub struct Isolate<'a> {
    /// Who does it.
    pub by: &'a Isolation,
    /// What it is shown.
    pub files: Vec<Shown>,
}

/// What a process is to be held to.
#[derive(Debug)]
pub struct Confine<'a> {
    /// Who does it.
    pub by: &'a Confinement,
    /// The name of its group.
    pub name: String,
    /// The machine it runs.
    pub hardware: Hardware,
}

/// A started process. Killed when dropped, unless it was released.
#[derive(Debug)]
pub struct Process {
    child: Mutex<Option<Child>>,
    pid: u32,
    pidfd: AsyncFd<OwnedFd>,
    stderr: PathBuf,
    group: Option<Group>,
    released: bool,
}

impl Process {
    /// Starts QEMU in a session of its own.
    pub fn spawn(mut spawn: Spawn<'_>) -> Result<Self, VmError> {
        let stderr = OpenOptions::new().create(true).append(true).mode(0o600).open(&spawn.stderr);
        let stderr = stderr.map_err(VmError::io(format!("open {}", spawn.stderr.display())))?;
        let mut command = Command::new(spawn.program);
        command.args(&spawn.arguments).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let starting = || VmError::io(format!("start {}", spawn.program.display()));
        let (gatekeeper, gate) = match &spawn.confine {
            None => (None, None),
            Some(_) => {
                Gatekeeper::new().map(|(keeper, gate)| (Some(keeper), Some(gate))).map_err(starting())?
            }
        };
        let (way_in, traveller) = match spawn.isolate.take() {
            None => (None, None),
            Some(Isolate { by, files }) => {
                let (way_in, traveller) = by.entry(files).and_then(WayIn::new).map_err(isolating(None))?;
                (Some(way_in), Some(traveller))
            }
        };
        prepare(&mut command, &spawn, gate, traveller);
        let started = match (&spawn.confine, gatekeeper) {
            (Some(confine), Some(gatekeeper)) => start_confined(command, confine, gatekeeper),
            _ => spawner::spawn(command).wait().map(|child| (child, None)).map_err(starting()),
        };
        let (child, group) = started.map_err(|error| match (error, way_in.and_then(WayIn::failed_to)) {
            (VmError::Io { cause, .. }, Some(step)) => isolating(Some(step))(cause),
            (error, _) => error,
        })?;
        let pid = child.id();
        let mut guard = KillOnDrop(Some(child));
        let pidfd = watch(pid).map_err(VmError::io("watch the QEMU process"))?;
        let child = Mutex::new(guard.0.take());
        Ok(Self { child, pid, pidfd, stderr: spawn.stderr, group, released: false })
    }

    /// Takes charge of a process that an earlier owner released. `None` if it is not there any more.
    pub fn adopt(pid: u32, started: u64, stderr: PathBuf, group: Option<Group>) -> io::Result<Option<Self>> {
        let pidfd = match watch(pid) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
            other => other?,
        };
        // The descriptor names one process for ever; only now can its number not be another's any more.
        if start_time(pid)? != Some(started) {
            return Ok(None);
        }
        Ok(Some(Self { child: Mutex::new(None), pid, pidfd, stderr, group, released: false }))
    }

    /// Lets it run on without an owner. When it ends, and we still run, nothing of it stays.
    pub fn release(mut self) {
        self.released = true;
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(mut child), Ok(runtime)) = (child, tokio::runtime::Handle::try_current()) {
            let pid = self.pid;
            runtime.spawn(async move {
                process_end(pid).await;
                let _ = child.wait();
            });
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The group it is in.
    pub fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// When it started, in the kernel's ticks since the host booted: with the process id, this names it for good.
    pub fn started(&self) -> io::Result<u64> {
        start_time(self.pid)?.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
    }

    /// Waits until it has ended and says how.
    pub async fn ended(&self) -> String {
        // A descriptor that cannot be watched any more belongs to a process that is gone.
        let _ = self.pidfd.readable().await.map(|mut ready| ready.retain_ready());
        let status = self.child.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(Child::wait);
        match status {
            Some(Ok(status)) => describe(status),
            _ => "QEMU is gone".to_owned(),
        }
    }

    /// Whether it ended because a file that is its memory could not be read, or could not grow.
    pub fn ended_by_bus_error(&self) -> bool {
        self.ended_by(Signal::BUS)
    }

    /// Whether somebody ended it: a person, or a kernel without memory.
    pub fn was_killed(&self) -> bool {
        self.ended_by(Signal::KILL) || self.ended_by(Signal::TERM)
    }

    fn ended_by(&self, signal: Signal) -> bool {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let status = child.as_mut().and_then(|child| child.try_wait().ok().flatten());
        status.and_then(|status| status.signal()) == Some(signal.as_raw())
    }

    /// Ends it at once. Harmless if it has ended.
    pub fn kill(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// The last lines of QEMU's own complaints.
    pub fn stderr_tail(&self) -> String {
        let said = read_tail(&self.stderr, STDERR_TAIL).unwrap_or_default();
        said.lines().filter(|line| !is_remark(line)).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        self.kill();
        if let Some(child) = self.child.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // It was sent a signal it cannot refuse, so this does not wait long; without it a zombie stays.
            let _ = child.wait();
        }
        if let Some(group) = &self.group {
            group.remove();
        }
    }
}

/// Whether a line of QEMU's says nothing of what went wrong: that a network is missing that is meant to be, or that it
/// waited for its console.
pub fn is_remark(line: &str) -> bool {
    line.contains(": warning: ") || line.contains(": info: ")
}

/// Starts a process that does nothing before it is in its group.
fn start_confined(
    command: Command,
    confine: &Confine<'_>,
    gatekeeper: Gatekeeper,
) -> Result<(Child, Option<Group>), VmError> {
    let Confine { by, name, hardware } = confine;
    by.prepare();
    let spawning = spawner::spawn(command);
    let admitted = gatekeeper.let_in(|pid| by.admit(name, *hardware, pid));
    let started = spawning.wait();
    let failed = VmError::io("start QEMU");
    match (admitted, started) {
        (Ok(Some(Ok(group))), Ok(child)) => Ok((child, group)),
        (Ok(Some(Err(error))), _) => {
            by.give_up(name);
            Err(error.into())
        }
        (Ok(Some(Ok(_))), Err(error)) => {
            by.give_up(name);
            Err(failed(error))
        }
        // It never came to the gate.
        (Ok(None), Err(error)) | (Err(error), Err(_)) => Err(failed(error)),
        (Ok(None) | Err(_), Ok(child)) => {
            drop(KillOnDrop(Some(child)));
            Err(failed(io::Error::other("it went past the gate to its group")))
        }
    }
}

struct KillOnDrop(Option<Child>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn watch(pid: u32) -> io::Result<AsyncFd<OwnedFd>> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("not a process id"))?;
    let fd = pidfd_open(pid, PidfdFlags::NONBLOCK).or_else(|_| pidfd_open(pid, PidfdFlags::empty()))?;
    // SAFETY: an `OwnedFd` names the same open descriptor for as long as it lives, and the `AsyncFd` owns it.
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    Ok(watched?)
}

/// Waits for the end of a process, whoever's child it is. One that cannot be watched is gone.
pub async fn process_end(pid: u32) {
    if let Ok(watched) = watch(pid) {
        let _ = watched.readable().await;
    }
}

/// When a process started; `None` if there is none of that number, or nothing but its exit status is left of it.
pub fn start_time(pid: u32) -> io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => return Ok(None),
        other => other?,
    };
    // The name in parentheses may hold anything, so counting starts behind it.
    let mut fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ')).into_iter().flatten();
    let state = fields.next().unwrap_or("Z");
    let threads = fields.nth(16).and_then(|count| count.parse::<u32>().ok());
    let started = fields.nth(1).and_then(|ticks| ticks.parse().ok());
    // While one thread is still on its way out, the process has its files and their locks.
    let over = matches!(state, "Z" | "X") && threads.is_none_or(|count| count <= 1);
    Ok(started.filter(|_| !over))
}

/// Why a QEMU that was to be isolated did not start.
fn isolating(step: Option<String>) -> impl FnOnce(io::Error) -> VmError {
    VmError::io(match step {
        Some(step) => format!("isolate QEMU from its host: could not {step}"),
        None => "isolate QEMU from its host".to_owned(),
    })
}

fn prepare(command: &mut Command, spawn: &Spawn<'_>, gate: Option<Gate>, traveller: Option<Traveller>) {
    let inherited: Vec<RawFd> = spawn.inherited.iter().map(AsRawFd::as_raw_fd).collect();
    let (run_as, ephemeral) = (spawn.run_as, spawn.ephemeral);
    let parent = rustix::process::getpid();
    let in_child = move || {
        if let Some(gate) = &gate {
            gate.pass()?;
        }
        rustix::process::setsid()?;
        if !ephemeral {
            // Where a security module lets only a parent read a process's memory, snapshots need an exception: the
            // parent is gone by then. Elsewhere the request is unknown, which is fine.
            // SAFETY: this request only takes numbers.
            unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
        }
        // What else is open here by mistake, or was when we were started, is not for QEMU. An older kernel cannot do this.
        // SAFETY: this call takes numbers, and only marks descriptors to be closed by exec.
        unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int) };
        for &fd in &inherited {
            // SAFETY: the caller of `Process::spawn` holds these descriptors open until the fork is over, and the
            // child has its own copies.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
        }
        if let Some(traveller) = &traveller {
            traveller.go()?;
        }
        if let Some(Credentials { uid, gid, kvm_gid }) = run_as {
            let gid = rustix::thread::Gid::from_raw(gid);
            let also = rustix::thread::Gid::from_raw(kvm_gid.unwrap_or(gid.as_raw()));
            rustix::thread::set_thread_groups(&[also])?;
            rustix::thread::set_thread_res_gid(gid, gid, gid)?;
            let uid = rustix::thread::Uid::from_raw(uid);
            rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        }
        if ephemeral {
            // After the change of user, which would clear it.
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            if rustix::process::getppid() != Some(parent) {
                return Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()));
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls on data it owns; it neither allocates nor
    // takes a lock.
    unsafe { command.pre_exec(in_child) };
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "QEMU exited".to_owned(),
        (Some(code), _) => format!("QEMU exited with code {code}"),
        (None, Some(signal)) => format!("QEMU was ended by signal {signal}"),
        (None, None) => "QEMU ended".to_owned(),
    }
}

/// Reads the last `limit` bytes of a file, from the start of a line where possible.
pub(crate) fn read_tail(path: &Path, limit: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(limit)))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match text.split_once('\n') {
        Some((_, rest)) if length > limit => rest.to_owned(),
        _ => text.into_owned(),
    })
}

/// The group that may use KVM, if the device belongs to one. Never root's own: what that may do is not for QEMU.
fn kvm_group() -> Option<u32> {
    let meta = fs::metadata("/dev/kvm").ok()?;
    usable_group(meta.mode(), meta.gid())
}

fn usable_group(mode: u32, gid: u32) -> Option<u32> {
    (mode & 0o060 == 0o060 && gid != 0).then_some(gid)
}

/// Looks a user up in `/etc/passwd`.
pub fn lookup_user(name: &str) -> Option<Credentials> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        match fields[..] {
            [user, _, uid, gid, ..] if user == name => {
                Some(Credentials { uid: uid.parse().ok()?, gid: gid.parse().ok()?, kvm_gid: kvm_group() })
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemu_joins_the_group_of_kvm_unless_that_is_roots() {
        assert_eq!(usable_group(0o20660, 104), Some(104));
        assert_eq!(usable_group(0o20660, 0), None);
        assert_eq!(usable_group(0o20600, 104), None);
    }
}
