//! Leaving a machine to itself and coming back to it.

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

/// How long a QEMU that does not let us in may take to be gone.
const DEATH_NOTICE: Duration = Duration::from_secs(5);

/// How long the kernel may take to end a process that was killed. Longer only if the process waits for a disk that does
/// not answer.
const KILLED: Duration = Duration::from_secs(30);

/// How long an agent that waits at a frame boundary may take to answer.
const QUICK_ANSWER: Duration = Duration::from_millis(300);

/// All that is needed to find a running machine again.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MachineRecord {
    /// QEMU's process id.
    pub pid: u32,
    /// When that process started, in the kernel's ticks since the host's boot.
    pub started: u64,
    /// Its shape.
    pub hardware: Hardware,
    /// What its memory is based on.
    pub memory: Memory,
    /// Where its agent is.
    address: Address,
    /// The user and the group its QEMU runs as, if not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<(u32, u32)>,
    /// The group that limits it.
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

    /// The limits it has, if it has any.
    pub fn limits(&self) -> Option<Limits> {
        self.group().map(|group| group.limits())
    }

    /// Whether the kernel killed it because it needed more memory than its limit.
    pub fn ran_out_of_memory(&self) -> bool {
        self.group().is_some_and(|group| group.ran_out_of_memory())
    }

    /// Removes the group of a machine that has ended.
    pub fn remove_group(&self) {
        if let Some(group) = self.group() {
            in_place(|| group.remove());
        }
    }

    /// Ends the process without asking QEMU or the guest anything, and waits until it is gone. Says whether it was
    /// there.
    pub async fn kill(&self) -> Result<bool, VmError> {
        let adopted = Process::adopt(self.pid, self.started, PathBuf::new(), None);
        let Some(process) = adopted.map_err(VmError::io("look at the QEMU process"))? else {
            return Ok(false);
        };
        process.kill();
        let ended = tokio::time::timeout(KILLED, process.ended()).await;
        // Its exit status and its group belong to whoever started it.
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
    /// What to remember of it.
    pub fn record(&self) -> Result<MachineRecord, VmError> {
        let started = self.process.started().map_err(VmError::io("look at the QEMU process"))?;
        let (hardware, memory, address) = (self.hardware, self.memory.clone(), self.address);
        let group = self.process.group().map(|group| group.path().to_owned());
        let user = self.user.map(|user| (user.uid, user.gid));
        Ok(MachineRecord { pid: self.process.pid(), started, hardware, memory, address, user, group })
    }

    /// Lets it run on by itself. It must not have been started as an ephemeral one.
    pub fn release(self) {
        self.process.release();
    }

    /// Comes back to a machine that was released, by whatever process. `None` if it has ended.
    ///
    /// If its last owner died in the middle of something, the machine is made to run again. To let us in it may take
    /// as long as to boot, which is the `patience`: a guest can be as busy as that.
    pub async fn adopt(
        dir: &Path,
        record: &MachineRecord,
        patience: Duration,
    ) -> Result<Option<Self>, VmError> {
        let doing = || VmError::io("come back to the running machine");
        let adopted = Process::adopt(record.pid, record.started, dir.join("qemu.log"), record.group());
        let adopted = adopted.map_err(doing())?;
        let Some(process) = adopted else { return Ok(None) };
        let process = Guarded(Some(process));
        match Self::come_back(dir, record, patience).await {
            Ok(reached) => Ok(process.take().map(|process| reached.with(process, dir, record, patience))),
            // A QEMU that is about to end has closed its sockets before it is gone.
            Err(error) => match tokio::time::timeout(DEATH_NOTICE, process.ended()).await {
                Ok(()) => Ok(None),
                Err(_) => Err(error),
            },
        }
    }

    async fn come_back(dir: &Path, record: &MachineRecord, patience: Duration) -> Result<Reached, VmError> {
        let doing = || VmError::io("come back to the running machine");
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
        // One that stands still because the host was full tries again; should there still be no room, it says so.
        if status["status"] == "paused" || status["status"] == "io-error" {
            qmp.execute("cont", json!({})).await?;
        }
        let guest = meet_again(record.address, &sockets, patience).await.map_err(doing())?;
        Ok(Reached { qmp, disk, console, guest })
    }
}

/// What connects us with a machine that somebody else started.
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
/// Nearly always it was not, and then there is nothing to skip. Only if it does not answer is it led to a boundary. Over
/// vsock there is nothing to skip ever: a connection begins with its first byte.
async fn meet_again(address: Address, sockets: &SocketDir, patience: Duration) -> std::io::Result<Guest> {
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

/// A process that somebody else started: not ours to end when we fail to reach it.
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
