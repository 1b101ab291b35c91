//! A started QEMU, before there is a session with its guest.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;

use super::{Host, Launch, Machine};
use crate::VmError;
use crate::console::Console;
use crate::disk_watch::{DiskWatch, is_full};
use crate::hardware::{Hardware, LinkKind};
use crate::isolation::Files;
use crate::link::{Guest, LinkError, SessionOptions};
use crate::qemu::{BootSource, CommandLine, Confine, Credentials, Isolate, Memory, Process, Spawn};
use crate::qmp::Qmp;
use crate::sockets::SocketDir;
use crate::transport::{Address, Serial, Transport, Vsock};
use crate::users::User;

/// The delay before a lost connection is opened again.
const BEFORE_ANOTHER: Duration = Duration::from_millis(2);

/// A running QEMU without a session.
pub(super) struct Started {
    pub process: Process,
    pub qmp: Qmp,
    pub console: Console,
    pub disk: DiskWatch,
    pub dir: PathBuf,
    pub hardware: Hardware,
    pub memory: Memory,
    pub user: Option<Credentials>,
    pub transport: Box<dyn Transport>,
    pub spare_port: Option<UnixStream>,
    pub patience: Duration,
}

impl Started {
    pub fn spawn(host: &Host, launch: &Launch<'_>, boot: BootSource) -> Result<Self, VmError> {
        let sockets = SocketDir::open(launch.dir).map_err(VmError::io("open the machine's directory"))?;
        let monitor = Socket::new(&sockets, "monitor.sock")?;
        let console = Socket::new(&sockets, "console.sock")?;
        let console_stream = console.stream()?;
        let transport = open_transport(launch.hardware.link, &sockets)?;
        let spare = if launch.spare_port { Some(Socket::new(&sockets, "spare.sock")?) } else { None };
        let (hardware, user) = (launch.hardware, launch.user.as_ref().map(User::credentials));
        let files = Files { hardware, boot: &boot, memory: &launch.memory, disk: &launch.disk }.shown();
        if let Some(users) = &host.users {
            let shared = launch.bases().try_for_each(|base| users.share(base));
            shared.map_err(VmError::io("let the machine read what it stands on"))?;
        }
        let isolate = host.isolation.as_deref().map(|by| Isolate { by, files });
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
        let process = Process::spawn(Spawn {
            program: &host.qemu.path,
            arguments: command.arguments(),
            inherited,
            stderr: launch.dir.join("qemu.log"),
            run_as: user,
            isolate,
            read_only: launch.memory.base().filter(|_| !host.qemu.opens_memory_read_only()),
            ephemeral: launch.ephemeral,
            confine: host.confinement.as_deref().map(|by| Confine {
                by,
                name: launch.group_name(),
                hardware: launch.hardware,
            }),
        })?;
        if let Some(user) = &launch.user {
            user.belongs_to(process.pid()).map_err(VmError::io("note the machine's user id"))?;
        }
        tracing::debug!(pid = process.pid(), "QEMU started");
        let console = Console::record(&launch.dir.join("console.log"), console_stream)
            .map_err(VmError::io("open the console log"))?;
        let spare_port = spare.map(|socket| socket.stream()).transpose()?;
        let qmp = Qmp::new(monitor.stream()?);
        let (disk, dir) = (DiskWatch::over(qmp.events()), launch.dir.to_owned());
        let (memory, patience) = (launch.memory.clone(), host.boot_limit);
        Ok(Self { process, qmp, console, disk, dir, hardware, memory, user, transport, spare_port, patience })
    }

    pub async fn crash(&self, status: String) -> VmError {
        crash(&self.process, &self.console, &self.dir, status).await
    }

    /// Opens a session with the agent.
    pub async fn meet(self, session: SessionOptions, doing: &'static str) -> Result<Machine, VmError> {
        let limit = self.patience;
        let guest = tokio::select! {
            met = tokio::time::timeout(limit, greet(&*self.transport, session)) => match met {
                Ok(guest) => guest.map_err(VmError::io("connect to the guest"))?,
                Err(_) => {
                    let (reason, console) = (self.transport.refusal(), self.console.tail());
                    return Err(VmError::NoAnswer { doing, limit, reason, console });
                }
            },
            status = self.process.ended() => return Err(self.crash(status).await),
            () = self.disk.full() => return Err(VmError::HostDiskFull { dir: self.dir }),
        };
        Ok(Machine::new(self, guest))
    }
}

/// Opens a session.
///
/// The vsock device of a restored machine resets all connections once the guest runs, including one that was opened just
/// before. The agent answers only after its old connection was reset, so a connection that is reset before the answer is
/// opened again, and one that was answered is stable. No request has been sent by then.
async fn greet(transport: &dyn Transport, session: SessionOptions) -> io::Result<Guest> {
    loop {
        let guest = Guest::open(transport.connect().await?, session);
        if transport.address() == Address::Serial {
            return Ok(guest);
        }
        match guest.ready().await {
            Err(LinkError::Closed(_)) => tokio::time::sleep(BEFORE_ANOTHER).await,
            // Any other error is reported to the first request.
            Ok(_) | Err(_) => return Ok(guest),
        }
    }
}

/// Explains why a process has ended.
pub(super) async fn crash(process: &Process, console: &Console, dir: &Path, status: String) -> VmError {
    // If the file of the guest's memory cannot grow, QEMU gets SIGBUS.
    if process.ended_by_bus_error() && is_full(dir) {
        return VmError::HostDiskFull { dir: dir.to_owned() };
    }
    if let Some(group) = process.group().filter(|group| group.ran_out_of_memory()) {
        return VmError::OutOfMemory { limit_bytes: group.limits().memory_bytes.unwrap_or_default() };
    }
    VmError::Crashed { status, stderr: process.stderr_tail(), console: console.last_lines().await }
}

fn open_transport(kind: LinkKind, sockets: &SocketDir) -> Result<Box<dyn Transport>, VmError> {
    match kind {
        LinkKind::Serial => Ok(Box::new(Serial::new(sockets).map_err(VmError::io("create agent.sock"))?)),
        LinkKind::Vsock => Ok(Box::new(Vsock::new(sockets).map_err(VmError::NoVsock)?)),
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

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use agentiso_proto::{HELLO_LEN, Hello, Inherit};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;
    use crate::link::Resync;
    use crate::transport::{Connecting, KeyOffer, Stream};

    /// A guest that answers the third who comes.
    struct Flighty {
        came: AtomicUsize,
        address: Address,
    }

    impl Transport for Flighty {
        fn arguments(&self) -> Vec<(&'static str, String)> {
            Vec::new()
        }

        fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
            Vec::new()
        }

        fn address(&self) -> Address {
            self.address
        }

        fn connect(&self) -> Connecting<'_> {
            Box::pin(async {
                let (ours, theirs) = tokio::io::duplex(1024);
                if self.came.fetch_add(1, Ordering::Relaxed) == 2 {
                    tokio::spawn(answer(theirs));
                }
                Ok(Box::new(ours) as Box<dyn Stream>)
            })
        }

        fn key_offer(self: Box<Self>) -> Option<KeyOffer> {
            None
        }
    }

    async fn answer(mut host: DuplexStream) {
        let mut hello = [0; HELLO_LEN];
        host.read_exact(&mut hello).await.unwrap();
        let nonce = hello[32..].try_into().unwrap();
        host.write_all(&Hello::new(nonce, Inherit::Held).answer().encode()).await.unwrap();
        // Until the host hangs up.
        let _ = host.read_u8().await;
    }

    async fn met(address: Address) -> (Guest, usize) {
        let guest = Flighty { came: AtomicUsize::new(0), address };
        let session = SessionOptions { resync: Resync::Clean, inherit: Inherit::Held };
        let met = greet(&guest, session).await.unwrap();
        (met, guest.came.into_inner())
    }

    #[tokio::test]
    async fn a_socket_that_is_reset_before_the_agent_has_answered_is_opened_again() {
        let (guest, came) = met(Address::Vsock(5)).await;
        assert_eq!(came, 3);
        guest.ready().await.unwrap();
    }

    #[tokio::test]
    async fn a_port_is_opened_once_and_nobody_waits_for_its_answer() {
        let (guest, came) = met(Address::Serial).await;
        assert_eq!(came, 1);
        assert!(matches!(guest.ready().await, Err(LinkError::Closed(_))));
    }
}
