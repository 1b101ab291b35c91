//! Leaving a machine to itself and coming back to it.

use std::path::Path;
use std::time::Duration;

use agentiso_proto::Inherit;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::UnixStream;

use super::Machine;
use crate::VmError;
use crate::console::Console;
use crate::disk_watch::DiskWatch;
use crate::hardware::Hardware;
use crate::link::{Guest, Resync, SessionOptions};
use crate::qemu::{Memory, Process};
use crate::qmp::Qmp;
use crate::sockets::SocketDir;
use crate::transport::{Address, reach};

/// How long a machine that runs may take to let us in.
const ADOPTION_LIMIT: Duration = Duration::from_secs(10);

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
}

impl MachineRecord {
    /// Whether its process is still there.
    pub fn is_alive(&self) -> bool {
        matches!(crate::qemu::start_time(self.pid), Ok(Some(started)) if started == self.started)
    }
}

impl Machine {
    /// What to remember of it.
    pub fn record(&self) -> Result<MachineRecord, VmError> {
        let started = self.process.started().map_err(VmError::io("look at the QEMU process"))?;
        let (hardware, memory, address) = (self.hardware, self.memory.clone(), self.address);
        Ok(MachineRecord { pid: self.process.pid(), started, hardware, memory, address })
    }

    /// Lets it run on by itself. It must not have been started as an ephemeral one.
    pub fn release(self) {
        self.process.release();
    }

    /// Comes back to a machine that was released, by whatever process. `None` if it has ended.
    ///
    /// If its last owner died in the middle of something, the machine is made to run again.
    pub async fn adopt(dir: &Path, record: &MachineRecord) -> Result<Option<Self>, VmError> {
        let doing = || VmError::io("come back to the running machine");
        let adopted = Process::adopt(record.pid, record.started, dir.join("qemu.log")).map_err(doing())?;
        let Some(process) = adopted else { return Ok(None) };
        let process = Guarded(Some(process));
        let sockets = SocketDir::open(dir).map_err(doing())?;
        let connect = |name| {
            let stream = sockets.connect(name)?;
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream)
        };
        let qmp = Qmp::new(connect("monitor.sock").map_err(doing())?);
        let disk = DiskWatch::over(qmp.events());
        let console = connect("console.sock")
            .and_then(|stream| Console::record(&dir.join("console.log"), stream))
            .map_err(doing())?;
        let status = qmp.execute("query-status", json!({})).await?;
        if status["status"] == "paused" {
            qmp.execute("cont", json!({})).await?;
        }
        let stream = tokio::time::timeout(ADOPTION_LIMIT, reach(record.address, &sockets)).await;
        let stream = stream.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())).map_err(doing())?;
        let guest = Guest::open(stream, SessionOptions { resync: Resync::Unknown, inherit: Inherit::Keep });
        let MachineRecord { hardware, memory, address, .. } = record.clone();
        let (dir, spare_port) = (dir.to_owned(), None);
        let Some(process) = process.take() else { return Ok(None) };
        Ok(Some(Self { process, qmp, console, disk, dir, hardware, memory, guest, address, spare_port }))
    }
}

/// A process that somebody else started: not ours to end when we fail to reach it.
struct Guarded(Option<Process>);

impl Guarded {
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
