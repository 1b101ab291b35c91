//! Starting a program: what happens between fork and exec.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, setsid};

use super::restrict::Restrictions;
use crate::command::Command;
use crate::kernel::process::{become_descriptor, check, exit_now, fork};
use crate::kernel::seccomp::renames;
use crate::wire::{Failure, Report, send};

const SHELL: &str = "/bin/sh";
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";
/// The length of a report of the child: the stage and the error.
const REPORT: usize = 5;

/// What the child was doing when it failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    SetUp = 0,
    WorkingDirectory = 1,
    Program = 2,
}

/// A program with everything that `execve` takes.
struct Program {
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    cwd: CString,
}

/// How a program is started besides what its command says.
pub(super) struct Surroundings<'a> {
    /// The working directory.
    pub cwd: PathBuf,
    /// Variables with other values than in the command.
    pub variables: Vec<(&'static str, PathBuf)>,
    /// What the program applies to itself; it then also ends with this process.
    pub restrictions: Option<&'a Restrictions>,
    /// The channel to the one who supervises its renames.
    pub renames_to: Option<&'a OwnedFd>,
}

/// Starts the program of a command. When this returns, it runs.
pub(super) fn start(
    command: &Command,
    stdio: [OwnedFd; 3],
    around: &Surroundings<'_>,
) -> Result<Pid, Failure> {
    let program = Program::plan(command, around).map_err(|_| Failure::Invalid("a zero byte".to_owned()))?;
    let set_up =
        |error: Errno| Failure::SetUp { step: "start the command".to_owned(), error: error.raw_os_error() };
    let (report, reporter) = pipe_with(PipeFlags::CLOEXEC).map_err(set_up)?;
    // SAFETY: the helper and everything it forks have one thread.
    let Some(pid) = unsafe { fork() }.map_err(set_up)? else {
        drop(report);
        let (stage, error) = program.become_it(command, &stdio, around);
        let mut message = vec![stage as u8];
        message.extend(error.raw_os_error().to_le_bytes());
        // If the pipe is gone, so is whoever would read it.
        let _ = rustix::io::write(&reporter, &message);
        exit_now(127);
    };
    drop((reporter, stdio));
    match read_report(&report).map_err(set_up)? {
        None => Ok(pid),
        Some((stage, error)) => {
            // It has reported and exits.
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
            Err(match stage {
                Stage::SetUp => Failure::SetUp { step: "start the command".to_owned(), error },
                Stage::WorkingDirectory => Failure::WorkingDirectory { error },
                Stage::Program => Failure::Program { error },
            })
        }
    }
}

/// `None` if the pipe was closed by exec.
fn read_report(report: &OwnedFd) -> Result<Option<(Stage, i32)>, Errno> {
    let mut message = [0; REPORT];
    let length = loop {
        match rustix::io::read(report, &mut message) {
            Err(Errno::INTR) => {}
            length => break length?,
        }
    };
    if length < REPORT {
        return Ok(None);
    }
    let [stage, error @ ..] = message;
    let stage = match stage {
        0 => Stage::SetUp,
        1 => Stage::WorkingDirectory,
        _ => Stage::Program,
    };
    Ok(Some((stage, i32::from_le_bytes(error))))
}

impl Program {
    fn plan(command: &Command, around: &Surroundings<'_>) -> Result<Self, std::ffi::NulError> {
        let text = |text: &OsStr| CString::new(text.as_bytes());
        let changed = |name: &OsStr| around.variables.iter().any(|(changed, _)| *changed == name);
        let mut environment = Vec::new();
        for (name, value) in command.env.iter().filter(|(name, _)| !changed(name)) {
            environment.push(CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())?);
        }
        for (name, value) in &around.variables {
            environment.push(CString::new([name.as_bytes(), b"=", value.as_os_str().as_bytes()].concat())?);
        }
        let name = command.argv.first().map(|name| name.as_bytes()).unwrap_or_default();
        let path = command.env.get("PATH").map_or(DEFAULT_PATH, OsStr::as_bytes);
        Ok(Self {
            candidates: candidates(name, path).into_iter().map(CString::new).collect::<Result<_, _>>()?,
            arguments: command.argv.iter().map(|argument| text(argument)).collect::<Result<_, _>>()?,
            environment,
            cwd: text(around.cwd.as_os_str())?,
        })
    }

    /// Executes the program; what it returns is why it could not.
    fn become_it(
        &self,
        command: &Command,
        stdio: &[OwnedFd; 3],
        around: &Surroundings<'_>,
    ) -> (Stage, Errno) {
        if let Err(error) = prepare(command, stdio, around.restrictions) {
            return (Stage::SetUp, error);
        }
        if let Err(error) = rustix::process::chdir(&self.cwd) {
            return (Stage::WorkingDirectory, error);
        }
        if let Some(Err(error)) = around.restrictions.map(Restrictions::apply_to_command) {
            return (Stage::SetUp, error);
        }
        if let Some(Err(error)) = around.renames_to.map(supervise_renames) {
            return (Stage::SetUp, error);
        }
        (Stage::Program, self.execute())
    }

    /// Tries each place where the program may be, as a shell does.
    fn execute(&self) -> Errno {
        let mut worst = Errno::NOENT;
        for candidate in &self.candidates {
            match execve(candidate, &self.arguments, &self.environment) {
                Errno::NOENT | Errno::NOTDIR => {}
                Errno::ACCESS => worst = Errno::ACCESS,
                // A script without an interpreter line.
                Errno::NOEXEC => return self.execute_script(candidate),
                error => return error,
            }
        }
        worst
    }

    fn execute_script(&self, script: &CString) -> Errno {
        let Ok(shell) = CString::new(SHELL) else { return Errno::NOEXEC };
        let mut arguments = vec![shell.clone(), script.clone()];
        arguments.extend(self.arguments.iter().skip(1).cloned());
        execve(&shell, &arguments, &self.environment)
    }
}

/// Paths at which a program may be.
fn candidates(name: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    if name.contains(&b'/') {
        return vec![name.to_owned()];
    }
    let join = |dir: &[u8]| Path::new(OsStr::from_bytes(dir)).join(OsStr::from_bytes(name));
    // An empty entry would mean the working directory, where a command of the same name may lie in wait.
    let dirs = path.split(|byte| *byte == b':').filter(|dir| !dir.is_empty());
    dirs.map(|dir| join(dir).into_os_string().as_bytes().to_owned()).collect()
}

/// Makes this process what a program expects: a session of its own, its standard streams and nothing else that is open, all
/// signals as usual.
fn prepare(
    command: &Command,
    stdio: &[OwnedFd; 3],
    restrictions: Option<&Restrictions>,
) -> Result<(), Errno> {
    setsid()?;
    if restrictions.is_some() {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    for (fd, number) in stdio.iter().zip(0..) {
        become_descriptor(fd, number)?;
    }
    close_on_exec_from(3)?;
    if command.terminal {
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
    }
    usual_signals();
    Ok(())
}

/// Has the caller asked about renames from here on.
fn supervise_renames(caller: &OwnedFd) -> Result<(), Errno> {
    let sent = match renames().apply_with_listener() {
        Ok(listener) => {
            let root = open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            send(caller, &Report::Supervised, &[listener.as_fd(), root.as_fd()])
        }
        Err(error) => send(caller, &Report::NotSupervised { error: error.raw_os_error() }, &[]),
    };
    // The caller has gone.
    sent.map_err(|_| Errno::PIPE)
}

fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    const CLOEXEC: u32 = 1 << 2;
    // SAFETY: this call takes numbers, and changes only what happens when a program is executed.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, CLOEXEC) }).map(drop)
}

fn usual_signals() {
    for number in 1..=libc::SIGRTMAX() {
        // SAFETY: the default action runs no code of ours. It cannot be set for SIGKILL and SIGSTOP, which have no other.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    // SAFETY: an empty set is a valid value for the mask.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

fn execve(program: &CString, arguments: &[CString], environment: &[CString]) -> Errno {
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: the lists end with a null pointer and live until the call returns.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    crate::kernel::process::last_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_searched_in_the_path_and_never_in_the_working_directory() {
        let found = candidates(b"ls", b"/a::/b:");
        assert_eq!(found, [b"/a/ls".to_vec(), b"/b/ls".to_vec()]);
        assert_eq!(candidates(b"./ls", b"/a"), [b"./ls".to_vec()]);
    }
}
