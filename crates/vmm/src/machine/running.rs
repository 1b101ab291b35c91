//! A running machine.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use agentiso_blocking::in_place;
use agentiso_proto::Inherit;
use serde_json::json;
use tokio::net::UnixStream;

use super::started::{Started, crash};
use super::{GuestKernel, Host, Launch};
use crate::console::Console;
use crate::disk_watch::DiskWatch;
use crate::hardware::Hardware;
use crate::link::{Guest, LinkError, Resync, SessionOptions};
use crate::qemu::{Boot, BootSource, Credentials, Memory, Process, ShortLog};
use crate::qmp::Qmp;
use crate::transport::{Address, KeyOffer};
use crate::{VmError, tsc_khz};

/// How long the process may take to end after the link broke.
const DEATH_NOTICE: Duration = Duration::from_secs(2);

/// How long QEMU may take to report that it resumed.
const RESUME_NOTICE: Duration = Duration::from_secs(10);

/// How long growing a file system may take.
const GROWTH_LIMIT: Duration = Duration::from_secs(60);

/// How often it is checked whether the guest has noticed the new size.
const GROWTH_LOOK: Duration = Duration::from_millis(5);

/// A running machine.
pub struct Machine {
    pub(super) process: Process,
    pub(super) qmp: Qmp,
    pub(super) console: Console,
    pub(super) disk: DiskWatch,
    pub(super) dir: PathBuf,
    pub(super) hardware: Hardware,
    pub(super) memory: Memory,
    pub(super) user: Option<Credentials>,
    pub(super) guest: Guest,
    pub(super) address: Address,
    pub(super) spare_port: Option<UnixStream>,
    /// How long each step of its start may take.
    pub(super) patience: Duration,
    /// Absent after reconnecting.
    pub(super) _key: Option<KeyOffer>,
    pub(super) _log: ShortLog,
}

/// Tells whether a machine is paused because the host's disk is full, independently of the [`Machine`].
#[derive(Clone, Debug)]
pub struct Standstill {
    disk: DiskWatch,
    dir: PathBuf,
}

impl Standstill {
    /// Whether it is paused.
    pub fn is_there(&self) -> bool {
        self.disk.is_full()
    }

    /// Waits until it is paused.
    pub async fn comes(&self) -> VmError {
        self.disk.full().await;
        VmError::HostDiskFull { dir: self.dir.clone() }
    }
}

impl Machine {
    /// A machine with an open session.
    pub(super) fn new(started: Started, guest: Guest) -> Self {
        let Started { process, qmp, console, disk, dir, hardware, memory, user, .. } = started;
        let Started { transport, spare_port, patience, .. } = started;
        let (address, _key) = (transport.address(), transport.key_offer());
        let _log = ShortLog::keep(dir.join("qemu.log"));
        Self {
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

    /// Boots a kernel and waits for the agent's first answer.
    pub async fn boot(host: &Host, launch: Launch<'_>, kernel: &GuestKernel) -> Result<Self, VmError> {
        let boot = Boot {
            kernel: kernel.kernel.clone(),
            initrd: kernel.initrd.clone(),
            tsc_khz: (launch.hardware.accel == crate::Accel::Tcg).then(tsc_khz),
        };
        let session = SessionOptions { resync: Resync::Clean, inherit: Inherit::Kill };
        let started = in_place(|| Started::spawn(host, &launch, BootSource::Kernel(boot)))?;
        let machine = started.meet(session, "its boot").await?;
        machine.at_start("its boot", machine.guest.ready()).await?;
        Ok(machine)
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

    /// Runs a request to the agent with a time limit. If the link breaks, the error says why the machine ended.
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
                Err(_) => Err(VmError::NoAnswer { doing, limit, reason: None, console: self.console.tail() }),
            },
            crash = self.crashed() => Err(crash),
        }
    }

    /// Runs a request that is part of its start, with the limit of a boot: on a slow host every step is slow.
    pub async fn at_start<T>(
        &self,
        doing: &'static str,
        work: impl Future<Output = Result<T, LinkError>>,
    ) -> Result<T, VmError> {
        self.during(doing, self.patience, work).await
    }

    /// Tells whether the machine is paused because the host's disk is full.
    pub fn standstill(&self) -> Standstill {
        Standstill { disk: self.disk.clone(), dir: self.dir.clone() }
    }

    /// Resumes a machine that is paused because the host's disk was full.
    pub async fn try_again(&self) -> Result<(), VmError> {
        let before = self.disk.resumed();
        if self.disk.is_full() {
            self.qmp.execute("cont", json!({})).await?;
            // If the disk is still full it is paused again at once, which the watch reports. QEMU reports the resumption
            // before it answers, unless the machine was resumed by somebody else meanwhile.
            let _ = tokio::time::timeout(RESUME_NOTICE, self.disk.resumed_since(before)).await;
        }
        Ok(())
    }

    /// Waits until the machine ends by itself, and returns why.
    pub async fn crashed(&self) -> VmError {
        tokio::select! {
            status = self.process.ended() => crash(&self.process, &self.console, &self.dir, status).await,
            () = self.disk.full() => VmError::HostDiskFull { dir: self.dir.clone() },
        }
    }

    /// Explains a link error: a closed link usually means that the process has ended.
    pub async fn explain(&self, error: LinkError) -> VmError {
        if matches!(error, LinkError::Closed(_))
            && let Ok(crash) = tokio::time::timeout(DEATH_NOTICE, self.crashed()).await
        {
            return crash;
        }
        tracing::debug!(%error, console = self.console.tail(), "the machine runs, but its link failed");
        error.into()
    }

    /// Announces the size of its disk to the guest: a clone still assumes the size of the template's disk.
    pub async fn announce_disk_size(&self, bytes: u64) -> Result<(), VmError> {
        self.qmp.execute("block_resize", json!({ "device": "root", "size": bytes })).await?;
        Ok(())
    }

    /// Grows the disk to this size, and the file system with it. With `more` it waits until the file system is larger than
    /// before; otherwise it may have been grown already.
    pub async fn grow_disk(&self, bytes: u64, more: bool) -> Result<(), VmError> {
        let doing = "growing its file system";
        let before = self.during(doing, GROWTH_LIMIT, self.guest.status()).await?.root_bytes;
        self.announce_disk_size(bytes).await?;
        let grown = async {
            loop {
                self.guest.grow().await?;
                // The kernel notices the new size with a delay.
                if !more || self.guest.status().await?.root_bytes > before {
                    return Ok(());
                }
                tokio::time::sleep(GROWTH_LOOK).await;
            }
        };
        self.during(doing, GROWTH_LIMIT, grown).await
    }

    /// Asks the guest to power off; after `limit` the process is killed. Returns whether it was a clean shutdown.
    pub async fn stop(self, limit: Duration) -> bool {
        let clean = async {
            // The answer may be lost because the machine ends.
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

    /// Kills the process and waits until it has ended.
    pub async fn kill(self) {
        self.process.kill();
        self.process.ended().await;
    }
}
