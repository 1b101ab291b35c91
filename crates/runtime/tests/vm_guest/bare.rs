//! A machine without the runtime: its disk is a file, its agent a socket.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use agentiso_core::WorkspaceId;
use agentiso_proto::{Configure, Inherit, RootDisk};
use agentiso_runtime::MachineDir;
use agentiso_testing::TestHome;
use agentiso_vmm::link::{Guest, Resync, SessionOptions};
use agentiso_vmm::qemu::{Boot, BootSource, CommandLine, DiskFile, Memory, Process, Spawn};
use agentiso_vmm::{Hardware, LinkKind, User, tsc_khz};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::machine::{image, installation};

const MEMORY_MB: u32 = 256;
const DISK_BYTES: u64 = 1 << 30;

/// A machine that boots.
pub struct BareMachine {
    pub process: Process,
    sockets: TempDir,
    _listeners: [UnixListener; 3],
    dir: MachineDir,
    _home: TestHome,
}

impl BareMachine {
    /// Starts QEMU with a raw copy of an image.
    pub async fn start() -> Self {
        let home = TestHome::new();
        let installation = installation(&home);
        let host = installation.host().unwrap();
        let kernel = installation.guest_kernel().await.unwrap();
        let accel = installation.acceleration(&host, &kernel).await.accel;
        let image = installation.images().unwrap().get(&image()).unwrap();
        let base = installation.sized_base(&image, DISK_BYTES).await.unwrap();
        let id = WorkspaceId::from_uuid(Uuid::now_v7());
        let user = host.user().unwrap();
        let dir = MachineDir::create(&installation.paths.machines_dir(), id, user.clone()).unwrap();
        let disk = disk_in(dir.path());
        let copied = Command::new("cp").arg("--sparse=always").args([&base, &disk]).status().unwrap();
        assert!(copied.success());
        std::fs::set_permissions(&disk, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        if let Some((uid, gid)) = dir.user().map(User::owner) {
            std::os::unix::fs::chown(&disk, Some(uid), Some(gid)).unwrap();
        }

        // The path of the checkout may be too long for a socket.
        let sockets = tempfile::tempdir().unwrap();
        let listen = |name| UnixListener::bind(sockets.path().join(name)).unwrap();
        let listeners = [listen("monitor.sock"), listen("console.sock"), listen("agent.sock")];
        let boot = Boot { kernel: kernel.kernel, initrd: kernel.initrd, tsc_khz: Some(tsc_khz()) };
        let command = CommandLine {
            qemu: &host.qemu,
            hardware: Hardware { accel, link: LinkKind::Serial, vcpus: 1, memory_mb: MEMORY_MB },
            memory: Memory::Anonymous,
            boot: BootSource::Kernel(boot),
            disk: DiskFile::File { path: disk, format: "raw", below: Vec::new(), own: None },
            monitor_fd: listeners[0].as_raw_fd(),
            console_fd: listeners[1].as_raw_fd(),
            link: vec![
                ("-chardev", format!("socket,id=agent,fd={},server=on,wait=off", listeners[2].as_raw_fd())),
                ("-device", "virtio-serial-device".to_owned()),
                ("-device", "virtserialport,chardev=agent,name=agentiso".to_owned()),
            ],
            spare_fd: None,
        };
        // It starts once the console has been connected.
        drop(StdStream::connect(sockets.path().join("console.sock")).unwrap());
        let process = Process::spawn(Spawn {
            program: &host.qemu.path,
            arguments: command.arguments(),
            inherited: listeners.iter().map(AsFd::as_fd).collect(),
            stderr: dir.path().join("qemu.log"),
            run_as: user.as_ref().map(User::credentials),
            isolate: None,
            read_only: None,
            confine: None,
            ephemeral: true,
        })
        .unwrap();
        Self { process, sockets, _listeners: listeners, dir, _home: home }
    }

    /// Connects to the agent. A connection is served after the previous one is closed.
    pub async fn connect(&self) -> UnixStream {
        UnixStream::connect(self.sockets.path().join("agent.sock")).await.unwrap()
    }

    /// Connects to the machine's console. Earlier output is not repeated.
    pub async fn console(&self) -> UnixStream {
        UnixStream::connect(self.sockets.path().join("console.sock")).await.unwrap()
    }

    /// Starts a session with the agent.
    pub async fn session(&self, inherit: Inherit) -> Session {
        Session::open(self.connect().await, inherit).await
    }

    /// Starts the first session and enters the machine's root.
    pub async fn settle_in(&self) -> Session {
        let session = self.session(Inherit::Kill).await;
        let root = RootDisk {
            device: "/dev/vda".to_owned(),
            fstype: "ext4".to_owned(),
            read_only: false,
            enter: true,
        };
        session.configure(Configure { root: Some(root), ..Configure::default() }).await.unwrap();
        session
    }

    /// The disk file.
    pub fn disk(&self) -> PathBuf {
        disk_in(self.dir.path())
    }
}

/// A session over a connection that can be cut.
pub struct Session {
    guest: Guest,
    wire: JoinHandle<()>,
}

impl Session {
    pub async fn open(mut agent: UnixStream, inherit: Inherit) -> Self {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let wire = tokio::spawn(async move {
            // However it ends, both sides are closed.
            let _ = tokio::io::copy_bidirectional(&mut theirs, &mut agent).await;
        });
        let guest = Guest::open(ours, SessionOptions { resync: Resync::Unknown, inherit });
        guest.ready().await.unwrap();
        Self { guest, wire }
    }

    /// Cuts the connection without a goodbye, as if the host had died.
    pub async fn cut(self) {
        self.wire.abort();
        assert!(self.wire.await.is_err_and(|error| error.is_cancelled()), "the agent disconnected");
    }
}

impl std::ops::Deref for Session {
    type Target = Guest;

    fn deref(&self) -> &Guest {
        &self.guest
    }
}

fn disk_in(dir: &Path) -> PathBuf {
    dir.join("disk.raw")
}
