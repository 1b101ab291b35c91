//! Starting sandboxes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Stdio as Streams};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use crate::cgroup::Group;
use crate::command::Command;
use crate::enforcement::Enforcement;
use crate::error::JailError;
use crate::helper::HELPER_NAME;
use crate::running::Running;
use crate::session::Session;
use crate::spec::Spec;
use crate::stdio::Stdio;
use crate::wire::{Failure, Mode, Report, Start, receive, send};

/// Starts sandboxes.
#[derive(Debug)]
pub struct Launcher {
    helper: PathBuf,
    network: Option<NetworkNamespace>,
}

/// A network namespace that a sandbox enters.
#[derive(Debug)]
pub struct NetworkNamespace {
    /// The network namespace.
    pub network: OwnedFd,
    /// The user namespace that owns it, if the caller has no rights over it otherwise.
    pub user: Option<OwnedFd>,
}

/// The init of a sandbox and the caller's end of its channel. When it is dropped, everything in the sandbox ends.
#[derive(Debug)]
pub(crate) struct Sandbox {
    channel: OwnedFd,
    init: Init,
    group: Option<Arc<Group>>,
}

/// The processes that are this process's children.
#[derive(Debug)]
struct Init {
    helper: Child,
    /// Pid 1 of the pid namespace. Without one the helper itself is the init.
    pid_1: Option<OwnedFd>,
}

impl Default for Launcher {
    fn default() -> Self {
        Self::new()
    }
}

impl Launcher {
    /// This program is the helper: its `main` must call [`crate::run_helper_if_requested`] first.
    pub fn new() -> Self {
        Self::with_helper("/proc/self/exe")
    }

    /// Another program is the helper.
    pub fn with_helper(program: impl Into<PathBuf>) -> Self {
        Self { helper: program.into(), network: None }
    }

    /// Sandboxes with [`crate::Network::Namespace`] enter this network.
    #[must_use]
    pub fn in_network(mut self, network: NetworkNamespace) -> Self {
        self.network = Some(network);
        self
    }

    /// Runs one command in a sandbox of its own. When this returns, the program runs.
    pub fn run(&self, spec: &Spec, command: &Command, stdio: Stdio) -> Result<Running, JailError> {
        command.check(false)?;
        let (sandbox, enforcement) = self.start(spec, Some((command, &stdio)))?;
        // Readers of the caller's pipes see their end when the command's processes have ended.
        drop(stdio);
        let channel = duplicate(&sandbox.channel)?;
        let group = sandbox.group();
        Running::started(channel, Arc::new(enforcement), group, Some(sandbox), command)
    }

    /// Makes a sandbox that stays, in which commands are started.
    pub fn open(&self, spec: &Spec) -> Result<Session, JailError> {
        let (sandbox, enforcement) = self.start(spec, None)?;
        Ok(Session::new(sandbox, enforcement))
    }

    /// What would be enforced for a sandbox. Makes one and ends it.
    pub fn probe(&self, spec: &Spec) -> Result<Enforcement, JailError> {
        self.start(spec, None).map(|(_, enforcement)| enforcement)
    }

    fn start(
        &self,
        spec: &Spec,
        command: Option<(&Command, &Stdio)>,
    ) -> Result<(Sandbox, Enforcement), JailError> {
        spec.check()?;
        spec.check_network(self.network.is_some())?;
        let group = Group::make(&spec.limits).map(Arc::new);
        let modes: &[Mode] = if rustix::process::geteuid().is_root() {
            &[Mode::Namespaces, Mode::NoUserNamespace, Mode::Plain]
        } else {
            &[Mode::Namespaces, Mode::Plain]
        };
        let mut refused = None;
        for &mode in modes {
            let start = Start {
                spec: spec.clone(),
                mode,
                refused: refused.take(),
                command: command.map(|(command, _)| command.clone()),
                has_network: self.network.is_some(),
                has_network_user: self.network.as_ref().is_some_and(|network| network.user.is_some()),
                grouped: group.as_ref().map(|group| group.limits()).unwrap_or_default(),
                join: group.as_ref().map(|group| group.files_to_join()).unwrap_or_default(),
            };
            let mut sandbox = self.spawn(&start, command.map(|(_, stdio)| stdio), group.clone())?;
            match sandbox.wait_until_ready(mode)? {
                Ok(enforcement) => return Ok((sandbox, enforcement)),
                Err(Failure::ModeRefused { step, error }) if mode != Mode::Plain => {
                    refused = Some(format!("could not {step}: {}", io::Error::from_raw_os_error(error)));
                }
                Err(failure) => return Err(explain(failure, command.map(|(command, _)| command))),
            }
        }
        Err(JailError::Lost)
    }

    /// Starts the helper and tells it what to do.
    fn spawn(
        &self,
        start: &Start,
        stdio: Option<&Stdio>,
        group: Option<Arc<Group>>,
    ) -> Result<Sandbox, JailError> {
        let (channel, theirs) = channel_pair()?;
        // Nothing is inherited but the channel. The helper closes what others have left open.
        let helper = std::process::Command::new(&self.helper)
            .arg0(HELPER_NAME)
            .env_clear()
            .stdin(theirs)
            .stdout(Streams::null())
            .stderr(Streams::null())
            .spawn()
            .map_err(|cause| JailError::Helper { doing: "start the sandbox's helper", cause })?;
        let sandbox = Sandbox { channel, init: Init { helper, pid_1: None }, group };
        let mut fds: Vec<BorrowedFd<'_>> = Vec::new();
        if let Some(Stdio { stdin, stdout, stderr }) = stdio {
            fds.extend([stdin.as_fd(), stdout.as_fd(), stderr.as_fd()]);
        }
        if let Some(NetworkNamespace { network, user }) = &self.network {
            fds.push(network.as_fd());
            fds.extend(user.as_ref().map(AsFd::as_fd));
        }
        match send(&sandbox.channel, start, &fds) {
            Ok(()) => Ok(sandbox),
            Err(cause) if cause.raw_os_error() == Some(libc::E2BIG) => {
                Err(JailError::Invalid("the command is too large".to_owned()))
            }
            Err(cause) => Err(JailError::Helper { doing: "tell the sandbox's helper what to do", cause }),
        }
    }
}

impl Sandbox {
    pub fn channel(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    pub fn group(&self) -> Option<Arc<Group>> {
        self.group.clone()
    }

    fn wait_until_ready(&mut self, mode: Mode) -> Result<Result<Enforcement, Failure>, JailError> {
        loop {
            match receive::<Report>(&self.channel) {
                Ok(Some((Report::Cloned { pid }, _))) => {
                    if let Some(pid) = Pid::from_raw(pid)
                        && mode != Mode::Plain
                    {
                        self.init.pid_1 = Some(watch(pid)?);
                    }
                }
                Ok(Some((Report::Ready(enforcement), _))) => return Ok(Ok(enforcement)),
                Ok(Some((Report::Failed(failure), _))) => return Ok(Err(failure)),
                Ok(_) => return Err(JailError::Lost),
                Err(cause) => return Err(JailError::Helper { doing: "read from the sandbox", cause }),
            }
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if let Some(pid_1) = &self.init.pid_1 {
            // It may have ended, and somebody else in this program may have waited for it.
            let _ = pidfd_send_signal(pid_1, Signal::KILL);
            while let Err(Errno::INTR) = waitid(WaitId::PidFd(pid_1.as_fd()), WaitIdOptions::EXITED).map(drop)
            {
            }
        } else {
            // Without a pid namespace its init kills what it started when it sees that the channel is closed.
            let _ = rustix::net::shutdown(&self.channel, rustix::net::Shutdown::Both);
        }
        // The helper ends by itself.
        let _ = self.init.helper.wait();
    }
}

/// A channel between this process and a sandbox.
pub(crate) fn channel_pair() -> Result<(OwnedFd, OwnedFd), JailError> {
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| JailError::Helper { doing: "make a channel", cause: error.into() })
}

/// The error of a failure that a sandbox reports.
pub(crate) fn explain(failure: Failure, command: Option<&Command>) -> JailError {
    let program = || {
        let name = command.and_then(|command| command.argv.first());
        name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let error = io::Error::from_raw_os_error;
    match failure {
        Failure::ModeRefused { step, error: number } | Failure::SetUp { step, error: number } => {
            JailError::SetUp { step, cause: error(number) }
        }
        Failure::Unavailable(enforced) => JailError::Unavailable(enforced),
        Failure::Invalid(why) => JailError::Invalid(why),
        Failure::WorkingDirectory { error: number } => {
            let cwd = command.map(|command| command.cwd.clone()).unwrap_or_default();
            JailError::WorkingDirectory { cwd, cause: error(number) }
        }
        Failure::Program { error: libc::ENOENT } => JailError::ProgramNotFound { program: program() },
        Failure::Program { error: number } => {
            JailError::NotExecutable { program: program(), cause: error(number) }
        }
    }
}

/// A descriptor of a process that cannot come to mean another one.
fn watch(pid: Pid) -> Result<OwnedFd, JailError> {
    pidfd_open(pid, PidfdFlags::empty())
        .map_err(|error| JailError::Helper { doing: "watch the sandbox's init", cause: error.into() })
}

fn duplicate(fd: &OwnedFd) -> Result<OwnedFd, JailError> {
    fd.try_clone().map_err(|cause| JailError::Helper { doing: "make a channel", cause })
}
