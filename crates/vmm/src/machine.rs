//! One machine: a QEMU process, its monitor, its console and the link to its agent.
//!
//! ```text
//!   boot ────────────► answering ──stop──► power-off asked ──► process gone
//!   restore ─resumed─►     │                     │ deadline
//!                          │ QEMU ends           ▼
//!                          ▼                   killed
//!                       crashed: every call fails with the console's last lines
//! ```
//!
//! A machine that is dropped, whatever the reason, takes its process with it.

use std::fs::File;
use std::future::Future;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentiso_proto::{Inherit, RootDisk};
use serde_json::json;
use tokio::net::UnixStream;
use tokio::sync::broadcast;

use crate::console::Console;
use crate::disk_watch::{DiskWatch, is_full};
use crate::hardware::{Hardware, LinkKind};
use crate::link::{Guest, LinkError, Resync, SessionOptions};
use crate::qemu::{Boot, BootSource, CommandLine, Credentials, DiskFile, Memory, Process, Qemu, Spawn};
use crate::qmp::{Event, Qmp};
use crate::sockets::SocketDir;
use crate::transport::{Serial, Transport, Vsock};
use crate::{VmError, tsc_khz};

/// How long after the link breaks the process may take to be gone.
const DEATH_NOTICE: Duration = Duration::from_secs(2);
/// How long loading a device state may take.
const RESTORE_LIMIT: Duration = Duration::from_secs(20);

/// What is the same for all machines of this host.
#[derive(Clone, Debug)]
pub struct Host {
    /// The QEMU to use.
    pub qemu: Qemu,
    /// The user QEMU runs as, if not ours.
    pub run_as: Option<Credentials>,
    /// How long a kernel may take to boot.
    pub boot_limit: Duration,
}

/// A kernel and its initramfs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GuestKernel {
    /// The kernel.
    pub kernel: PathBuf,
    /// The initramfs with the agent.
    pub initrd: PathBuf,
    /// Tells this pair from any other.
    pub digest: String,
}

/// One particular machine to start.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// Its directory: sockets and logs go there.
    pub dir: &'a Path,
    /// Its shape.
    pub hardware: Hardware,
    /// Its disk.
    pub disk: DiskFile,
    /// Where its memory lives.
    pub memory: Memory,
    /// It ends with this process.
    pub ephemeral: bool,
    /// Adds a second serial port, named `spare`, for measuring what the transport carries.
    pub spare_port: bool,
}

/// A device state to restore.
#[derive(Clone, Debug)]
pub struct RestoreFrom<'a> {
    /// The state.
    pub device: &'a Path,
    /// What becomes of commands that ran when it was taken.
    pub inherit: Inherit,
    /// Whether bytes may have been in flight when it was taken.
    pub resync: Resync,
}

/// A running machine.
pub struct Machine {
    process: Process,
    qmp: Qmp,
    console: Console,
    disk: DiskWatch,
    dir: PathBuf,
    guest: Guest,
    spare_port: Option<UnixStream>,
    /// Holds the guest's address for as long as the machine runs.
    _transport: Box<dyn Transport>,
}

impl Machine {
    /// Boots a kernel and waits for the agent's first answer.
    pub async fn boot(host: &Host, launch: Launch<'_>, kernel: &GuestKernel) -> Result<Self, VmError> {
        let boot = Boot {
            kernel: kernel.kernel.clone(),
            initrd: kernel.initrd.clone(),
            tsc_khz: (launch.hardware.accel == crate::Accel::Tcg).then(tsc_khz),
        };
        let session = SessionOptions { resync: Resync::Clean, inherit: Inherit::Kill };
        let started = Started::spawn(host, &launch, BootSource::Kernel(boot), None)?;
        let machine = started.meet(session, "its boot", host.boot_limit).await?;
        machine.during("its boot", host.boot_limit, machine.guest.ready()).await?;
        Ok(machine)
    }

    /// Restores a machine and returns once it runs. The agent's session is open; what is asked of it first
    /// should make this machine a distinct one.
    pub async fn restore(host: &Host, launch: Launch<'_>, from: RestoreFrom<'_>) -> Result<Self, VmError> {
        let bad = |reason: String| VmError::BadTemplate { path: from.device.to_owned(), reason };
        let device = File::open(from.device).map_err(|error| bad(error.to_string()))?;
        let session = SessionOptions { resync: from.resync, inherit: from.inherit };
        let started = Started::spawn(host, &launch, BootSource::Incoming, Some(&device))?;
        let mut events = started.qmp.events();
        let set = started.qmp.send("migrate-set-capabilities", migration_capabilities());
        let uri = format!("fd:{}", device.as_raw_fd());
        let load = started.qmp.send("migrate-incoming", json!({ "uri": uri }));
        let resumed = async {
            set.answer().await?;
            load.answer().await?;
            wait_for(&mut events, "RESUME").await;
            Ok(())
        };
        let loaded = tokio::select! {
            done = tokio::time::timeout(RESTORE_LIMIT, resumed) => match done {
                Ok(Ok(())) => Ok(()),
                Ok(Err(VmError::Monitor(error))) => Err(bad(format!("{error} {}", started.process.stderr_tail()))),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(bad(format!("QEMU was not done after {} s", RESTORE_LIMIT.as_secs()))),
            },
            status = started.process.ended() => Err(match started.crash(status) {
                VmError::Crashed { status, stderr, .. } => bad(format!("{status} {}", stderr.trim_end())),
                other => other,
            }),
        };
        loaded?;
        tracing::debug!(pid = started.process.pid(), "restored");
        started.meet(session, "being restored", RESTORE_LIMIT).await
    }

    /// The agent.
    pub fn guest(&self) -> &Guest {
        &self.guest
    }

    /// The monitor.
    pub fn qmp(&self) -> &Qmp {
        &self.qmp
    }

    /// The host's end of the second serial port, once.
    pub fn take_spare_port(&mut self) -> Option<UnixStream> {
        self.spare_port.take()
    }

    /// QEMU's process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The last lines of the console.
    pub fn console_tail(&self) -> String {
        self.console.tail()
    }

    /// Does something with the agent, but no longer than `limit`, and turns a broken link into what broke it.
    pub async fn during<T>(
        &self,
        doing: &'static str,
        limit: Duration,
        work: impl Future<Output = Result<T, LinkError>>,
    ) -> Result<T, VmError> {
        tokio::select! {
            done = tokio::time::timeout(limit, work) => match done {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(error)) => Err(self.explain(error).await),
                Err(_) => Err(VmError::NoAnswer { doing, limit, console: self.console.tail() }),
            },
            crash = self.crashed() => Err(crash),
        }
    }

    /// Waits until the machine ends by itself, and says how.
    pub async fn crashed(&self) -> VmError {
        tokio::select! {
            status = self.process.ended() => crash(&self.process, &self.console, &self.dir, status),
            () = self.disk.full() => VmError::HostDiskFull { dir: self.dir.clone() },
        }
    }

    /// A link that closed usually means a process that ended: says so if that is the case.
    pub async fn explain(&self, error: LinkError) -> VmError {
        if matches!(error, LinkError::Closed(_))
            && let Ok(crash) = tokio::time::timeout(DEATH_NOTICE, self.crashed()).await
        {
            return crash;
        }
        error.into()
    }

    /// Tells the guest that its disk has this size: a clone still believes in the template's disk.
    pub async fn announce_disk_size(&self, bytes: u64) -> Result<(), VmError> {
        self.qmp.execute("block_resize", json!({ "device": "root", "size": bytes })).await?;
        Ok(())
    }

    /// Writes the device state to `file` while memory stays where it is, then ends the process. The machine must
    /// have been started on shared memory and be idle.
    pub async fn freeze_into(self, file: &Path) -> Result<(), VmError> {
        let mut state = File::create(file).map_err(VmError::io(format!("create {}", file.display())))?;
        let mut events = self.qmp.events();
        let (ours, theirs) = StdStream::pair().map_err(VmError::io("make a socket pair"))?;
        let receive =
            tokio::task::spawn_blocking(move || std::io::copy(&mut &ours, &mut state).map(|_| state));
        self.qmp.send("migrate-set-capabilities", migration_capabilities()).answer().await?;
        self.qmp.send_descriptor("state", OwnedFd::from(theirs)).answer().await?;
        self.qmp.execute("migrate", json!({ "uri": "fd:state" })).await?;
        let saved = tokio::select! {
            saved = tokio::time::timeout(RESTORE_LIMIT, wait_for_migration(&mut events)) => saved.unwrap_or_else(|_| {
                Err(VmError::NoAnswer { doing: "saving its state", limit: RESTORE_LIMIT, console: String::new() })
            }),
            crash = self.crashed() => Err(crash),
        };
        self.kill().await;
        let state = receive.await.map_err(std::io::Error::other).and_then(|done| done);
        // A state that could not be written is why it could not be saved, so that is said first.
        state.and_then(|file| file.sync_all()).map_err(VmError::io(format!("write {}", file.display())))?;
        saved
    }

    /// Asks the guest to power off cleanly; after `limit` the process is ended. Returns whether it was clean.
    pub async fn stop(self, limit: Duration) -> bool {
        let clean = async {
            // The answer may be lost with the machine; its end is what counts.
            let _ = self.guest.power_off().await;
            self.process.ended().await
        };
        let clean = tokio::select! {
            ended = tokio::time::timeout(limit, clean) => ended.is_ok(),
            () = self.disk.full() => false,
        };
        self.kill().await;
        clean
    }

    /// Ends the process at once and waits until it is gone.
    pub async fn kill(self) {
        self.process.kill();
        self.process.ended().await;
    }
}

/// The disk of every machine, as its agent mounts it; `enter` makes it the root.
pub fn root_disk(enter: bool) -> RootDisk {
    RootDisk { device: "/dev/vda".to_owned(), fstype: "ext4".to_owned(), read_only: false, enter }
}

/// A QEMU that runs, before anyone has spoken to its guest.
struct Started {
    process: Process,
    qmp: Qmp,
    console: Console,
    disk: DiskWatch,
    dir: PathBuf,
    transport: Box<dyn Transport>,
    spare_port: Option<UnixStream>,
}

impl Started {
    fn spawn(
        host: &Host,
        launch: &Launch<'_>,
        boot: BootSource,
        state: Option<&File>,
    ) -> Result<Self, VmError> {
        let sockets = SocketDir::open(launch.dir).map_err(VmError::io("open the machine's directory"))?;
        let monitor = Socket::new(&sockets, "monitor.sock")?;
        let console = Socket::new(&sockets, "console.sock")?;
        let transport = open_transport(launch.hardware.link, &sockets)?;
        let spare = if launch.spare_port { Some(Socket::new(&sockets, "spare.sock")?) } else { None };
        let command = CommandLine {
            qemu: &host.qemu,
            hardware: launch.hardware,
            memory: launch.memory.clone(),
            boot,
            disk: launch.disk.clone(),
            monitor_fd: monitor.listener.as_raw_fd(),
            console_fd: console.listener.as_raw_fd(),
            link: transport.arguments(),
            spare_fd: spare.as_ref().map(|socket| socket.listener.as_raw_fd()),
        };
        let mut inherited = vec![monitor.listener.as_fd(), console.listener.as_fd()];
        inherited.extend(transport.descriptors());
        inherited.extend(spare.as_ref().map(|socket| socket.listener.as_fd()));
        inherited.extend(state.map(AsFd::as_fd));
        let process = Process::spawn(Spawn {
            program: &host.qemu.path,
            arguments: command.arguments(),
            inherited,
            stderr: launch.dir.join("qemu.log"),
            run_as: host.run_as,
            ephemeral: launch.ephemeral,
        })?;
        tracing::debug!(pid = process.pid(), "QEMU started");
        let console = Console::record(&launch.dir.join("console.log"), console.stream()?)
            .map_err(VmError::io("open the console log"))?;
        let spare_port = spare.map(|socket| socket.stream()).transpose()?;
        let qmp = Qmp::new(monitor.stream()?);
        let (disk, dir) = (DiskWatch::over(qmp.events()), launch.dir.to_owned());
        Ok(Self { process, qmp, console, disk, dir, transport, spare_port })
    }

    fn crash(&self, status: String) -> VmError {
        crash(&self.process, &self.console, &self.dir, status)
    }

    /// Opens a session with the agent.
    async fn meet(
        self,
        session: SessionOptions,
        doing: &'static str,
        limit: Duration,
    ) -> Result<Machine, VmError> {
        let stream = tokio::select! {
            connected = tokio::time::timeout(limit, self.transport.connect()) => match connected {
                Ok(stream) => stream.map_err(VmError::io("connect to the guest"))?,
                Err(_) => return Err(VmError::NoAnswer { doing, limit, console: self.console.tail() }),
            },
            status = self.process.ended() => return Err(self.crash(status)),
            () = self.disk.full() => return Err(VmError::HostDiskFull { dir: self.dir }),
        };
        let guest = Guest::open(stream, session);
        let Self { process, qmp, console, disk, dir, transport, spare_port } = self;
        Ok(Machine { process, qmp, console, disk, dir, guest, spare_port, _transport: transport })
    }
}

/// Why a process that should run has ended.
fn crash(process: &Process, console: &Console, dir: &Path, status: String) -> VmError {
    // Guest memory in a file that cannot grow is answered with a signal, not with an error.
    if process.ended_by_bus_error() && is_full(dir) {
        return VmError::HostDiskFull { dir: dir.to_owned() };
    }
    VmError::Crashed { status, stderr: process.stderr_tail(), console: console.tail() }
}

fn open_transport(kind: LinkKind, sockets: &SocketDir) -> Result<Box<dyn Transport>, VmError> {
    match kind {
        LinkKind::Serial => Ok(Box::new(Serial::new(sockets).map_err(VmError::io("create agent.sock"))?)),
        LinkKind::Vsock => Ok(Box::new(Vsock::new().map_err(VmError::io("claim a vsock context id"))?)),
    }
}

struct Socket<'a> {
    listener: UnixListener,
    sockets: &'a SocketDir,
    name: &'static str,
}

impl<'a> Socket<'a> {
    fn new(sockets: &'a SocketDir, name: &'static str) -> Result<Self, VmError> {
        let listener = sockets.listen(name).map_err(VmError::io(format!("create {name}")))?;
        Ok(Self { listener, sockets, name })
    }

    /// Connects to our own listener: the kernel holds the connection until QEMU accepts it, so there is no race
    /// and nothing to poll.
    fn stream(&self) -> Result<UnixStream, VmError> {
        let connect = || {
            let stream = self.sockets.connect(self.name)?;
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream)
        };
        connect().map_err(VmError::io(format!("connect to {}", self.name)))
    }
}

fn migration_capabilities() -> serde_json::Value {
    json!({ "capabilities": [
        { "capability": "events", "state": true },
        { "capability": "x-ignore-shared", "state": true },
    ] })
}

async fn wait_for(events: &mut broadcast::Receiver<Event>, name: &str) {
    // An error means the monitor closed: the process is ending, and whoever watches it will say so.
    while let Ok(event) = events.recv().await {
        if event.name == name {
            return;
        }
    }
    std::future::pending().await
}

async fn wait_for_migration(events: &mut broadcast::Receiver<Event>) -> Result<(), VmError> {
    loop {
        // An error means the monitor closed: the process is ending, and whoever watches it will say so.
        let Ok(event) = events.recv().await else { std::future::pending().await };
        match (event.name.as_str(), event.data["status"].as_str()) {
            ("MIGRATION", Some("completed")) => return Ok(()),
            ("MIGRATION", Some("failed")) => {
                let message = "saving the state failed".to_owned();
                return Err(crate::QmpError::Refused { command: "migrate".to_owned(), message }.into());
            }
            _ => {}
        }
    }
}
