//! A QEMU that waits for a state to restore.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentiso_blocking::{in_place, off_thread};
use agentiso_proto::Inherit;
use serde_json::json;
use tokio::sync::broadcast;

use super::started::Started;
use super::{Host, Launch, Machine};
use crate::VmError;
use crate::link::{Resync, SessionOptions};
use crate::memory::{GuestRam, MemoryFiles, MemoryImage, Pages};
use crate::qemu::BootSource;
use crate::qmp::{Event, Pending, QmpError};

/// The state of CPU and devices.
#[derive(Clone, Debug)]
pub enum DeviceState {
    /// In a file.
    File(PathBuf),
    /// In memory.
    Bytes(Arc<Vec<u8>>),
}

/// Pages that differ from the base.
#[derive(Clone, Debug)]
pub enum Fill {
    /// None.
    Base,
    /// Pages of another machine on the same base.
    Taken(Arc<Pages>),
    /// The pages of an image on the same base.
    Image(MemoryFiles, Arc<MemoryImage>),
}

/// A state to restore.
#[derive(Clone, Debug)]
pub struct RestoreFrom {
    /// CPU and devices.
    pub device: DeviceState,
    /// Memory.
    pub fill: Fill,
    /// What happens to commands that were running.
    pub inherit: Inherit,
    /// Whether bytes may have been in flight.
    pub resync: Resync,
}

impl RestoreFrom {
    /// A template: no commands are running, and the agent is at a frame boundary.
    pub fn template(device: PathBuf) -> Self {
        let device = DeviceState::File(device);
        Self { device, fill: Fill::Base, inherit: Inherit::Kill, resync: Resync::Clean }
    }
}

/// A QEMU with its devices and base memory that waits for a state.
pub struct Standby {
    started: Started,
    ready: Option<Pending>,
}

impl Standby {
    /// Starts it.
    pub fn spawn(host: &Host, launch: &Launch<'_>) -> Result<Self, VmError> {
        let started = in_place(|| Started::spawn(host, launch, BootSource::Incoming))?;
        let ready = started.qmp.send("migrate-set-capabilities", capabilities());
        Ok(Self { started, ready: Some(ready) })
    }

    /// Waits until it has its devices and its memory.
    pub async fn ready(&mut self) -> Result<(), VmError> {
        let Some(ready) = self.ready.take() else { return Ok(()) };
        tokio::select! {
            answer = ready.answer_within(self.started.patience) => Ok(answer.map(drop)?),
            status = self.started.process.ended() => Err(self.started.crash(status).await),
        }
    }

    /// Restores a state and returns once the machine runs and the agent's session is open. The first request should set
    /// its identity.
    pub async fn restore(self, from: RestoreFrom) -> Result<Machine, VmError> {
        let Self { started, ready } = self;
        let limit = started.patience;
        let device = from.device.clone();
        let bad = |reason: String| VmError::BadTemplate { path: device.name(), reason };
        let state = in_place(|| device.open()).map_err(|error| bad(error.to_string()))?;
        let mut events = started.qmp.events();
        let resumed = async {
            if !matches!(from.fill, Fill::Base) {
                // Its memory is mapped once it answers.
                if let Some(ready) = ready {
                    ready.answer_within(limit).await?;
                }
                fill(&started, from.fill).await?;
            }
            started.qmp.send_descriptor("state", state).answer_within(limit).await?;
            let load = started.qmp.send("migrate-incoming", json!({ "uri": "fd:state" }));
            load.answer_within(limit).await?;
            wait_for(&mut events, "RESUME").await;
            Ok(())
        };
        let resumed = async {
            match resumed.await {
                // The process is ending; its exit status says why.
                Err(VmError::Monitor(QmpError::Closed { .. })) => std::future::pending().await,
                other => other,
            }
        };
        let loaded = tokio::select! {
            done = tokio::time::timeout(limit, resumed) => match done {
                Ok(Ok(())) => Ok(()),
                Ok(Err(VmError::Monitor(error))) => Err(bad(format!("{error} {}", started.process.stderr_tail()))),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(bad(format!("QEMU was not done after {} s", limit.as_secs()))),
            },
            status = started.process.ended() => Err(match started.crash(status).await {
                // A killed QEMU does not mean that the state was bad.
                crash if started.process.was_killed() => crash,
                VmError::Crashed { status, stderr, .. } => bad(format!("{status} {}", stderr.trim_end())),
                other => other,
            }),
        };
        loaded?;
        tracing::debug!(pid = started.process.pid(), "restored");
        let session = SessionOptions { resync: from.resync, inherit: from.inherit };
        started.meet(session, "being restored").await
    }
}

impl Machine {
    /// Starts a QEMU and restores a state into it.
    pub async fn restore(host: &Host, launch: Launch<'_>, from: RestoreFrom) -> Result<Self, VmError> {
        Standby::spawn(host, &launch)?.restore(from).await
    }
}

impl DeviceState {
    /// A new descriptor each time, because readers of one descriptor share its position.
    #[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
    fn open(&self) -> std::io::Result<OwnedFd> {
        match self {
            Self::File(path) => Ok(File::open(path)?.into()),
            Self::Bytes(bytes) => {
                let file = rustix::fs::memfd_create("device-state", rustix::fs::MemfdFlags::CLOEXEC)?;
                let mut file = File::from(file);
                file.write_all(bytes)?;
                file.rewind()?;
                Ok(file.into())
            }
        }
    }

    fn name(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Bytes(_) => Path::new("of the running machine").to_owned(),
        }
    }
}

/// Fills the memory of a guest that has not run yet.
async fn fill(started: &Started, fill: Fill) -> Result<(), VmError> {
    let (pid, memory, bytes) =
        (started.process.pid(), started.memory.clone(), started.hardware.memory_bytes());
    let filled = off_thread(move || {
        let ram = GuestRam::locate(pid, &memory, bytes)?;
        match fill {
            Fill::Base => Ok(()),
            Fill::Taken(pages) => ram.put(&pages),
            Fill::Image(files, image) => files.put(&image, &ram),
        }
    });
    filled.await.map_err(VmError::io("fill the memory of the restored machine"))
}

fn capabilities() -> serde_json::Value {
    json!({ "capabilities": [
        { "capability": "events", "state": true },
        { "capability": "x-ignore-shared", "state": true },
    ] })
}

async fn wait_for(events: &mut broadcast::Receiver<Event>, name: &str) {
    // An error means that the monitor closed: the process is ending, which is reported elsewhere.
    while let Ok(event) = events.recv().await {
        if event.name == name {
            return;
        }
    }
    std::future::pending().await
}
