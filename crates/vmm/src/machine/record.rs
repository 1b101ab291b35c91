//! Disconnecting from a machine and reconnecting to it, possibly from another process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentiso_blocking::in_place;
use agentiso_proto::Inherit;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::UnixStream;

use super::Machine;
use crate::VmError;
use crate::confine::{Group, Limits};
use crate::console::Console;
use crate::disk_watch::DiskWatch;
use crate::hardware::Hardware;
use crate::link::{Guest, Resync, SessionOptions};
use crate::qemu::{Credentials, Memory, Process, ShortLog, start_time};
use crate::qmp::Qmp;
use crate::sockets::SocketDir;
use crate::transport::{Address, reach};

/// How long a QEMU that refuses connections may take to end.
const DEATH_NOTICE: Duration = Duration::from_secs(5);

/// How long the kernel may take to end a killed process. Only exceeded if the process waits for a disk that does not
/// respond.
const KILLED: Duration = Duration::from_secs(30);

/// How long an agent at a frame boundary may take to answer.
const QUICK_ANSWER: Duration = Duration::from_millis(300);

/// Everything needed to reconnect to a running machine. Stored in the database.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MachineRecord {
    /// QEMU's process id.
    pub pid: u32,
    /// When that process started, in clock ticks since boot.
    pub started: u64,
    /// Its hardware.
    pub hardware: Hardware,
    /// Its memory and base.
    pub memory: Memory,
    /// The address of its agent.
    address: Address,
    /// The user and group its QEMU runs as, if not those of agentiso.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<(u32, u32)>,
    /// Its cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<PathBuf>,
}

impl MachineRecord {
    /// Whether its process still runs. If that cannot be determined it is assumed to: a machine that is wrongly noted
    /// as stopped could be started a second time on the same disk.
    pub fn is_alive(&self) -> bool {
        match start_time(self.pid) {
            Ok(started) => started == Some(self.started),
            Err(error) => {
                tracing::warn!(%error, pid = self.pid, "could not determine whether this QEMU still runs");
                true
            }
        }
    }

    /// Its limits, if it has a cgroup.
    pub fn limits(&self) -> Option<Limits> {
        self.group().map(|group| group.limits())
    }

    /// Whether the kernel killed it for exceeding its memory limit.
    pub fn ran_out_of_memory(&self) -> bool {
        self.group().is_some_and(|group| group.ran_out_of_memory())
    }

    /// Removes the cgroup of a machine that has ended.
    pub fn remove_group(&self) {
        if let Some(group) = self.group() {
            in_place(|| group.remove());
        }
    }

    /// Kills the process without involving QEMU or the guest, and waits until it has ended. Returns whether it was
    /// running.
    pub async fn kill(&self) -> Result<bool, VmError> {
        let adopted = Process::adopt(self.pid, self.started, PathBuf::new(), None);
        let Some(process) = adopted.map_err(VmError::io("look at the QEMU process"))? else {
            return Ok(false);
        };
        process.kill();
        let ended = tokio::time::timeout(KILLED, process.ended()).await;
        // Its exit status and cgroup belong to the process that started it.
        process.release();
        match ended {
            Ok(_) => Ok(true),
            Err(_) => Err(VmError::Io {
                doing: format!("end QEMU (process {})", self.pid),
                cause: std::io::Error::other("it was killed, and the kernel has not ended it yet"),
            }),
        }
    }

    fn group(&self) -> Option<Group> {
        self.group.clone().map(Group::at)
    }
}

impl Machine {
    /// What to store, to reconnect later.
    pub fn record(&self) -> Result<MachineRecord, VmError> {
        let started = self.process.started().map_err(VmError::io("look at the QEMU process"))?;
        let (hardware, memory, address) = (self.hardware, self.memory.clone(), self.address);
        let group = self.process.group().map(|group| group.path().to_owned());
        let user = self.user.map(|user| (user.uid, user.gid));
        Ok(MachineRecord { pid: self.process.pid(), started, hardware, memory, address, user, group })
    }

    /// Disconnects and lets it run. It must not be ephemeral.
    pub fn release(self) {
        self.process.release();
    }

    /// Reconnects to a machine that this or another process released. `None` if it has ended.
    ///
    /// If its last owner died while the machine was paused, it is resumed. A busy guest may take as long to answer as to
    /// boot, which is the `patience`.
    pub async fn adopt(
        dir: &Path,
        record: &MachineRecord,
        patience: Duration,
    ) -> Result<Option<Self>, VmError> {
        let doing = || VmError::io("reconnect to the running machine");
        let adopted = Process::adopt(record.pid, record.started, dir.join("qemu.log"), record.group());
        let adopted = adopted.map_err(doing())?;
        let Some(process) = adopted else { return Ok(None) };
        let process = Guarded(Some(process));
        match Self::reconnect(dir, record, patience).await {
            Ok(reached) => Ok(process.take().map(|process| reached.with(process, dir, record, patience))),
            // A QEMU that is exiting closes its sockets first.
            Err(error) => match tokio::time::timeout(DEATH_NOTICE, process.ended()).await {
                Ok(()) => Ok(None),
                Err(_) => Err(error),
            },
        }
    }

    async fn reconnect(dir: &Path, record: &MachineRecord, patience: Duration) -> Result<Reached, VmError> {
        let doing = || VmError::io("reconnect to the running machine");
        let (sockets, monitor, console) = in_place(|| {
            let sockets = SocketDir::open(dir)?;
            let connect = |name| {
                let stream = sockets.connect(name)?;
                stream.set_nonblocking(true)?;
                UnixStream::from_std(stream)
            };
            let (monitor, console) = (connect("monitor.sock")?, connect("console.sock")?);
            Ok((sockets, monitor, Console::record(&dir.join("console.log"), console)?))
        })
        .map_err(doing())?;
        let qmp = Qmp::new(monitor);
        let disk = DiskWatch::over(qmp.events());
        let status = qmp.execute("query-status", json!({})).await?;
        // A machine that was paused because the disk was full tries again, and reports if it still is.
        if status["status"] == "paused" || status["status"] == "io-error" {
            qmp.execute("cont", json!({})).await?;
        }
        let guest = open_session(record.address, &sockets, patience).await.map_err(doing())?;
        Ok(Reached { qmp, disk, console, guest })
    }
}

/// The connections to an adopted machine.
struct Reached {
    qmp: Qmp,
    disk: DiskWatch,
    console: Console,
    guest: Guest,
}

impl Reached {
    fn with(self, process: Process, dir: &Path, record: &MachineRecord, patience: Duration) -> Machine {
        let Self { qmp, disk, console, guest } = self;
        let MachineRecord { hardware, memory, address, user, .. } = record.clone();
        let user = user.map(|(uid, gid)| Credentials { uid, gid, kvm_gid: None });
        let (dir, spare_port, _key) = (dir.to_owned(), None, None);
        let _log = ShortLog::keep(dir.join("qemu.log"));
        Machine {
            process,
            qmp,
            console,
            disk,
            dir,
            hardware,
            memory,
            user,
            guest,
            address,
            spare_port,
            patience,
            _key,
            _log,
        }
    }
}

/// Opens a session with an agent that may have been left in the middle of a frame.
///
/// That is rare, so it is first assumed to be at a frame boundary. If it does not answer, padding is sent to resynchronise.
/// Over vsock that is never necessary, because each connection starts with a new stream.
async fn open_session(address: Address, sockets: &SocketDir, patience: Duration) -> std::io::Result<Guest> {
    let options = |resync| SessionOptions { resync, inherit: Inherit::Keep };
    let connect = || async {
        let reached = tokio::time::timeout(patience, reach(address, sockets)).await;
        reached.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
    };
    let guest = Guest::open(connect().await?, options(Resync::Clean));
    if matches!(address, Address::Vsock(_)) {
        return Ok(guest);
    }
    match tokio::time::timeout(QUICK_ANSWER, guest.ready()).await {
        Ok(Ok(_)) => Ok(guest),
        _ => {
            drop(guest);
            Ok(Guest::open(connect().await?, options(Resync::Unknown)))
        }
    }
}

/// A process of another owner, which must not be killed if connecting to it fails.
struct Guarded(Option<Process>);

impl Guarded {
    async fn ended(&self) {
        if let Some(process) = &self.0 {
            process.ended().await;
        }
    }

    fn take(mut self) -> Option<Process> {
        self.0.take()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            process.release();
        }
    }
}
