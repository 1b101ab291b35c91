//! One QEMU process: started in its own session, watched through a pidfd.
//!
//! A [`Process`] owns the QEMU it names: dropping it kills QEMU and removes its cgroup, unless it was released. A
//! process of an earlier owner is adopted only if its start time matches, so a reused process id is never touched.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

use agentiso_blocking::in_place;
use rustix::process::{Signal, pidfd_send_signal};
use tokio::io::unix::AsyncFd;

use super::credentials::Credentials;
use super::entry::{EntryChild, EntryMonitor};
use super::gate::{Gate, Gatekeeper};
use super::log::{is_remark, read_tail};
use super::read_only::ask_for_tracing;
use super::spawner;
use super::status::{process_end, start_time, watch};
use crate::VmError;
use crate::confine::{Confinement, Group};
use crate::hardware::Hardware;
use crate::isolation::{Isolation, Shown};

/// How many bytes of QEMU's log an error shows.
const STDERR_TAIL: u64 = 2048;

/// A program to start, and how.
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
    /// The files of the host that it may see, besides the program's own.
    pub isolate: Option<Isolate<'a>>,
    /// A file that it must open for reading, though it asks to write to it too.
    pub read_only: Option<&'a Path>,
    /// Killed by the kernel when this process ends.
    pub ephemeral: bool,
    /// The cgroup it is put into.
    pub confine: Option<Confine<'a>>,
}

/// The view of the host that a process gets.
#[derive(Debug)]
pub struct Isolate<'a> {
    /// Sets the view up.
    pub by: &'a Isolation,
    /// The visible files.
    pub files: Vec<Shown>,
}

/// The cgroup limits of a process.
#[derive(Debug)]
pub struct Confine<'a> {
    /// Creates the cgroup.
    pub by: &'a Confinement,
    /// The name of the cgroup.
    pub name: String,
    /// The machine's size, from which the limits follow.
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
    /// Starts QEMU in a session of its own. Blocks for the fork and for systemd, so async callers use `in_place`.
    #[expect(clippy::disallowed_methods, reason = "async callers use `in_place`")]
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
        let (entry, entry_child) = match spawn.isolate.take() {
            None => (None, None),
            Some(Isolate { by, files }) => {
                let (entry, entry_child) =
                    by.entry(files).and_then(EntryMonitor::new).map_err(isolating(None))?;
                (Some(entry), Some(entry_child))
            }
        };
        let read_only = spawn.read_only.map(|file| CString::new(file.as_os_str().as_bytes())).transpose();
        let read_only = read_only.map_err(io::Error::other).map_err(starting())?;
        prepare(&mut command, &spawn, gate, entry_child);
        let started = match (&spawn.confine, gatekeeper) {
            (Some(confine), Some(gatekeeper)) => start_confined(command, read_only, confine, gatekeeper),
            _ => {
                spawner::spawn_with(command, read_only).wait().map(|child| (child, None)).map_err(starting())
            }
        };
        let (child, group) =
            started.map_err(|error| match (error, entry.and_then(EntryMonitor::failed_to)) {
                (VmError::Io { cause, .. }, Some(step)) => isolating(Some(step))(cause),
                (error, _) => error,
            })?;
        let pid = child.id();
        let mut guard = KillOnDrop(Some(child));
        let pidfd = watch(pid).map_err(VmError::io("watch the QEMU process"))?;
        let child = Mutex::new(guard.0.take());
        Ok(Self { child, pid, pidfd, stderr: spawn.stderr, group, released: false })
    }

    /// Takes over a process that an earlier owner released. `None` if it has ended.
    pub fn adopt(pid: u32, started: u64, stderr: PathBuf, group: Option<Group>) -> io::Result<Option<Self>> {
        let pidfd = match watch(pid) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
            other => other?,
        };
        // The pidfd pins the process, so from here on its id cannot be reused.
        if start_time(pid)? != Some(started) {
            return Ok(None);
        }
        Ok(Some(Self { child: Mutex::new(None), pid, pidfd, stderr, group, released: false }))
    }

    /// Lets it run without an owner. If this process is still running when it ends, it is reaped.
    pub fn release(mut self) {
        self.released = true;
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(mut child), Ok(runtime)) = (child, tokio::runtime::Handle::try_current()) {
            let pid = self.pid;
            runtime.spawn(async move {
                process_end(pid).await;
                // It has ended, so this reaps it without waiting.
                let _ = child.try_wait();
            });
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its cgroup.
    pub fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// When it started, in clock ticks since boot. Together with the process id this identifies it.
    pub fn started(&self) -> io::Result<u64> {
        start_time(self.pid)?.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
    }

    /// Waits until it has ended and describes how.
    pub async fn ended(&self) -> String {
        // A pidfd that cannot be watched any more belongs to a process that has ended.
        let _ = self.pidfd.readable().await.map(|mut ready| ready.retain_ready());
        match self.exit_status() {
            Some(status) => describe(status),
            None => "QEMU is gone".to_owned(),
        }
    }

    /// Whether it ended because a file that backs its memory could not be read or could not grow.
    pub fn ended_by_bus_error(&self) -> bool {
        self.ended_by(Signal::BUS)
    }

    /// Whether it was killed, by a person or by the kernel when memory ran out.
    pub fn was_killed(&self) -> bool {
        self.ended_by(Signal::KILL) || self.ended_by(Signal::TERM)
    }

    fn ended_by(&self, signal: Signal) -> bool {
        self.exit_status().and_then(|status| status.signal()) == Some(signal.as_raw())
    }

    /// Its exit status, if it is our child and has ended.
    fn exit_status(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    /// Kills it. Does nothing if it has ended.
    pub fn kill(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// The last lines of QEMU's own log.
    pub fn stderr_tail(&self) -> String {
        let said = in_place(|| read_tail(&self.stderr, STDERR_TAIL)).unwrap_or_default();
        said.lines().filter(|line| !is_remark(line)).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        self.kill();
        in_place(|| self.reap());
    }
}

impl Process {
    /// Removes what is left of a killed process.
    #[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
    fn reap(&mut self) {
        if let Some(child) = self.child.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // It cannot ignore SIGKILL, so this is short. Without it a zombie remains.
            let _ = child.wait();
        }
        if let Some(group) = &self.group {
            group.remove();
        }
    }
}

/// Starts a process that waits between fork and exec until it is in its cgroup.
fn start_confined(
    command: Command,
    read_only: Option<CString>,
    confine: &Confine<'_>,
    gatekeeper: Gatekeeper,
) -> Result<(Child, Option<Group>), VmError> {
    let Confine { by, name, hardware } = confine;
    by.prepare();
    let spawning = spawner::spawn_with(command, read_only);
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
        // It failed before it reached the gate.
        (Ok(None), Err(error)) | (Err(error), Err(_)) => Err(failed(error)),
        (Ok(None) | Err(_), Ok(child)) => {
            drop(KillOnDrop(Some(child)));
            Err(failed(io::Error::other("it went past the gate to its group")))
        }
    }
}

struct KillOnDrop(Option<Child>);

impl Drop for KillOnDrop {
    #[expect(clippy::disallowed_methods, reason = "part of `spawn`, which async callers run `in_place`")]
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The error of a QEMU that could not be isolated, with the step that failed.
fn isolating(step: Option<String>) -> impl FnOnce(io::Error) -> VmError {
    VmError::io(match step {
        Some(step) => format!("isolate QEMU from its host: could not {step}"),
        None => "isolate QEMU from its host".to_owned(),
    })
}

fn prepare(command: &mut Command, spawn: &Spawn<'_>, gate: Option<Gate>, entry_child: Option<EntryChild>) {
    let inherited: Vec<RawFd> = spawn.inherited.iter().map(AsRawFd::as_raw_fd).collect();
    let (run_as, ephemeral, traced) = (spawn.run_as, spawn.ephemeral, spawn.read_only.is_some());
    let parent = rustix::process::getpid();
    let in_child = move || {
        if let Some(gate) = &gate {
            gate.pass()?;
        }
        rustix::process::setsid()?;
        if !ephemeral {
            // Yama lets only a parent read a process's memory, and by the time of a snapshot the parent may have
            // exited. Kernels without Yama do not know the request, which is fine.
            // SAFETY: this request only takes numbers.
            unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
        }
        // QEMU must not inherit descriptors that are open by mistake. Kernels before 5.11 do not support this.
        // SAFETY: this call takes numbers, and only marks descriptors to be closed by exec.
        unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int) };
        for &fd in &inherited {
            // SAFETY: the caller of `Process::spawn` holds these descriptors open until the fork is over, and the
            // child has its own copies.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
        }
        if let Some(child) = &entry_child {
            child.enter()?;
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
        if traced { ask_for_tracing() } else { Ok(()) }
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
