//! Starting the router: a process that outlives the daemon.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use agentiso_blocking::in_place;
use agentiso_core::{Code, Failure};
use agentiso_net::bridge::Bridge;
use agentiso_net::control::{ControlSocket, run_router};
use agentiso_net::dns::Nameservers;
use agentiso_net::plan::Pool;
use agentiso_net::{Backend, HostUplink, Router, Settings};
use agentiso_vmm::qemu::Credentials;

/// The hidden command that is the router.
const COMMAND: &str = "network-router";
/// The host's resolvers.
const RESOLVERS: &str = "/etc/resolv.conf";
/// Where the programs are that the bridge needs.
const PROGRAMS: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// A log of a router that is longer is begun anew.
const LONG_LOG: u64 = 8 << 20;

/// Starts routers.
pub trait RouterLauncher: Send + Sync {
    /// Starts a router that serves this socket. It has to outlive the caller.
    fn launch(&self, socket: ControlSocket, kind: RouterKind, pool: &Pool) -> io::Result<()>;
}

/// Which back end a router has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RouterKind {
    /// A router in user space.
    User,
    /// A bridge in a network namespace.
    Bridge,
}

impl RouterKind {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Bridge => "bridge",
        }
    }
}

/// Starts the router as a process of its own: this program, with a hidden command.
#[derive(Clone, Debug)]
pub struct RouterProcess {
    /// The program.
    pub program: PathBuf,
    /// Where it writes what it has to say.
    pub log: PathBuf,
    /// Whom it runs as; as ourselves if absent.
    pub user: Option<Credentials>,
}

impl RouterLauncher for RouterProcess {
    fn launch(&self, socket: ControlSocket, kind: RouterKind, pool: &Pool) -> io::Result<()> {
        in_place(|| self.spawn(socket, kind, pool))
    }
}

impl RouterProcess {
    #[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
    fn spawn(&self, socket: ControlSocket, kind: RouterKind, pool: &Pool) -> io::Result<()> {
        let (listener, lock) = socket.into_descriptors();
        let inherited = [listener.as_raw_fd(), lock.as_raw_fd()];
        let mut command = Command::new(&self.program);
        command
            .args([COMMAND, kind.name(), &pool.range().to_string()])
            .args(inherited.map(|fd| fd.to_string()));
        command.env_clear().env("PATH", PROGRAMS).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(self.open_log()?);
        // The bridge needs root.
        if let Some(user) = self.user.as_ref().filter(|_| kind == RouterKind::User) {
            command.uid(user.uid).gid(user.gid);
        }
        // SAFETY: only system calls that are safe between fork and exec, on descriptors that are open in the child too.
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                inherited.iter().try_for_each(|&fd| keep_open(fd))
            });
        }
        let mut child = command.spawn()?;
        // It is on its own from here on; if it ends before us, nothing of it stays.
        std::thread::spawn(move || child.wait());
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
    fn open_log(&self) -> io::Result<File> {
        let is_long = std::fs::metadata(&self.log).is_ok_and(|metadata| metadata.len() > LONG_LOG);
        let mut options = OpenOptions::new();
        options.create(true).mode(0o600);
        if is_long {
            options.write(true).truncate(true)
        } else {
            options.append(true)
        };
        options.open(&self.log)
    }
}

/// Lets a descriptor survive exec.
fn keep_open(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: the parent has it open while the child is prepared.
    let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
    Ok(rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())?)
}

/// Whether arguments (without the program's name) are those of a router.
pub fn is_router(arguments: &[String]) -> bool {
    arguments.first().is_some_and(|command| command == COMMAND)
}

/// Runs the router in this process, with the arguments that [`RouterProcess`] gives.
pub fn run_router_process(arguments: &[String]) -> Result<(), Failure> {
    match arguments {
        [_, kind, pool, listener, lock] => serve(kind, pool, listener, lock),
        _ => Err(not_by_hand()),
    }
}

fn not_by_hand() -> Failure {
    Failure::new(Code::InvalidArgument, "this command is started by the daemon only")
}

fn serve(kind: &str, pool: &str, listener: &str, lock: &str) -> Result<(), Failure> {
    let pool = Pool::parse(pool)?;
    let failed = |error: io::Error| Failure::new(Code::of_io(&error), format!("the router ended: {error}"));
    let socket = ControlSocket::from_descriptors(inherited(listener)?, inherited(lock)?).map_err(failed)?;
    // Other processes of the same user must not read the memory of a process that sees the traffic of every workspace.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|error| failed(error.into()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(failed)?.block_on(async {
        let settings = Settings { pool, nameservers: Nameservers::Host(Path::new(RESOLVERS).to_owned()) };
        let backend = if kind == RouterKind::Bridge.name() {
            Backend::from(tokio::task::block_in_place(|| Bridge::new(settings))?)
        } else {
            Backend::from(Router::new(settings, Arc::new(HostUplink)))
        };
        run_router(socket, backend).await.map_err(failed)
    })
}

/// A descriptor that the daemon left open for us.
fn inherited(number: &str) -> Result<OwnedFd, Failure> {
    let number: RawFd = number.parse().ok().filter(|&number| number > 2).ok_or_else(not_by_hand)?;
    rustix::io::fcntl_getfd(
        // SAFETY: only used to ask whether it is open.
        unsafe { std::os::fd::BorrowedFd::borrow_raw(number) },
    )
    .map_err(|_| not_by_hand())?;
    // SAFETY: it is open, it was opened for us, and nothing else in this process knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
