//! A machine that runs.

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

/// How long after the link breaks the process may take to be gone.
const DEATH_NOTICE: Duration = Duration::from_secs(2);

/// How long after it goes on QEMU may take to say so.
const RESUME_NOTICE: Duration = Duration::from_secs(1);

/// How long growing a disk may take. The guest writes more the larger it becomes.
const GROWTH_LIMIT: Duration = Duration::from_secs(60);

/// How often it is looked whether the guest has noticed.
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
    /// How long what belongs to its start may take.
    pub(super) patience: Duration,
    /// Not there for who came back to the machine.
    pub(super) _key: Option<KeyOffer>,
    pub(super) _log: ShortLog,
}

/// Whether a machine stands still because the host's disk is full, for those who do not hold the machine.
#[derive(Clone, Debug)]
pub struct Standstill {
    disk: DiskWatch,
    dir: PathBuf,
}

impl Standstill {
    /// Whether it does.
    pub fn is_there(&self) -> bool {
        self.disk.is_full()
    }

    /// Waits until it does.
    pub async fn comes(&self) -> VmError {
        self.disk.full().await;
        VmError::HostDiskFull { dir: self.dir.clone() }
    }
}

impl Machine {
    /// A machine whose agent has been met.
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
                Err(_) => Err(VmError::NoAnswer { doing, limit, reason: None, console: self.console.tail() }),
            },
            crash = self.crashed() => Err(crash),
        }
    }

    /// Does something that belongs to its start: a host that is slow to boot a machine is slow in all of that.
    pub async fn at_start<T>(
        &self,
        doing: &'static str,
        work: impl Future<Output = Result<T, LinkError>>,
    ) -> Result<T, VmError> {
        self.during(doing, self.patience, work).await
    }

    /// What tells whether the machine stands still because the host's disk is full.
    pub fn standstill(&self) -> Standstill {
        Standstill { disk: self.disk.clone(), dir: self.dir.clone() }
    }

    /// Lets a machine that stands still because the host's disk was full try again.
    pub async fn try_again(&self) -> Result<(), VmError> {
        if self.disk.is_full() {
            self.qmp.execute("cont", json!({})).await?;
            // Should there still be no room it stands still again at once, which is not missed by those who look.
            let _ = tokio::time::timeout(RESUME_NOTICE, self.disk.going()).await;
        }
        Ok(())
    }

    /// Waits until the machine ends by itself, and says how.
    pub async fn crashed(&self) -> VmError {
        tokio::select! {
            status = self.process.ended() => crash(&self.process, &self.console, &self.dir, status).await,
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
        tracing::debug!(%error, console = self.console.tail(), "the machine runs, but its link failed");
        error.into()
    }

    /// Tells the guest that its disk has this size: a clone still believes in the template's disk.
    pub async fn announce_disk_size(&self, bytes: u64) -> Result<(), VmError> {
        self.qmp.execute("block_resize", json!({ "device": "root", "size": bytes })).await?;
        Ok(())
    }

    /// Grows the disk to this size, and the file system with it. With `more` the file system must become larger than it
    /// was; otherwise it may have been grown before.
    pub async fn grow_disk(&self, bytes: u64, more: bool) -> Result<(), VmError> {
        let doing = "growing its file system";
        let before = self.during(doing, GROWTH_LIMIT, self.guest.status()).await?.root_bytes;
        self.announce_disk_size(bytes).await?;
        let grown = async {
            loop {
                self.guest.grow().await?;
                // The kernel looks at its disk some time after it was told to.
                if !more || self.guest.status().await?.root_bytes > before {
                    return Ok(());
                }
                tokio::time::sleep(GROWTH_LOOK).await;
            }
        };
        self.during(doing, GROWTH_LIMIT, grown).await
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
