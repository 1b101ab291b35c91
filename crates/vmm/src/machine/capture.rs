//! Taking a running machine's memory and disk at one instant.
//!
//! ```text
//!   prepare (running) ─► stop ─► device state ─┐
//!                           └──► own pages ────┼─► disk ─► cont
//!   any failure after stop: ───────────────────┴────────► cont, nothing switched or everything
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentiso_core::ports::{DiskCopy, DiskError};
use serde_json::json;
use tokio::sync::broadcast;

use super::Machine;
use super::devices::DevicePlace;
use crate::VmError;
use crate::link::Resync;
use crate::memory::{GuestRam, Pages};
use crate::qemu::node_name;
use crate::qmp::{Event, Qmp};

/// How long taking a machine's state may take.
const CAPTURE_LIMIT: Duration = Duration::from_secs(60);

/// How the disk is frozen while the machine stands still.
pub enum DiskFreeze {
    /// The machine goes on with a new disk that stands on the present one.
    Switch {
        /// The disk it has now.
        from: PathBuf,
        /// The new one.
        to: PathBuf,
        /// Its format, as QEMU calls it.
        format: &'static str,
    },
    /// Somebody copies the disk while nobody writes to it.
    Copy(Box<dyn DiskCopy>),
}

/// What to take.
pub struct Capture {
    /// Memory, processor and devices.
    pub memory: bool,
    /// The disk.
    pub disk: Option<DiskFreeze>,
}

/// What was taken.
#[derive(Debug)]
pub struct Captured {
    /// The state of processor and devices, if memory was asked for.
    pub device: Vec<u8>,
    /// The machine's own pages, if memory was asked for.
    pub pages: Pages,
    /// How long the machine stood still.
    pub pause: Duration,
    /// Whether it writes to the new disk from now on.
    pub switched: bool,
    /// What is known of its agent's place in the stream of frames.
    pub resync: Resync,
}

/// A capture that failed.
#[derive(Debug)]
pub struct CaptureFailure {
    /// Why.
    pub error: VmError,
    /// Whether it writes to the new disk nevertheless.
    pub switched: bool,
}

/// A capture for which everything is ready that can be before the machine stands still.
pub struct Prepared {
    memory: Option<MemoryTaker>,
    disk: Option<DiskFreeze>,
}

impl Machine {
    /// Gets ready to take what is asked for, while the machine runs.
    pub async fn prepare(&self, capture: Capture) -> Result<Prepared, VmError> {
        let memory = if capture.memory { Some(self.prepare_memory().await?) } else { None };
        if let Some(DiskFreeze::Switch { to, format, .. }) = &capture.disk {
            self.qmp.execute("blockdev-add", overlay_node(to, format)).await?;
        }
        Ok(Prepared { memory, disk: capture.disk })
    }

    /// Undoes a preparation.
    pub async fn give_up(&self, prepared: Prepared) {
        if let Some(DiskFreeze::Switch { to, .. }) = &prepared.disk {
            self.forget_node(to).await;
        }
    }

    /// Takes everything in one pause. The machine runs again afterwards, whatever happens; only the end of this
    /// process in the middle leaves it paused, and [`Machine::adopt`] wakes it then.
    pub async fn take(&self, prepared: Prepared) -> Result<Captured, CaptureFailure> {
        let mut switched = false;
        let resync = if self.guest.is_quiet() { Resync::Clean } else { Resync::Unknown };
        let work = self.take_in_pause(prepared, &mut switched);
        let done = tokio::select! {
            done = tokio::time::timeout(CAPTURE_LIMIT, work) => done.unwrap_or_else(|_| {
                Err(VmError::NoAnswer { doing: "being captured", limit: CAPTURE_LIMIT, reason: None, console: String::new() })
            }),
            crash = self.crashed() => Err(crash),
        };
        match done {
            Ok((device, pages, pause)) => Ok(Captured { device, pages, pause, switched, resync }),
            Err(error) => {
                // It must not stand still for ever; if it cannot be woken it has ended, which the error says.
                let _ = self.qmp.execute("cont", json!({})).await;
                Err(CaptureFailure { error, switched })
            }
        }
    }

    async fn take_in_pause(
        &self,
        prepared: Prepared,
        switched: &mut bool,
    ) -> Result<(Vec<u8>, Pages, Duration), VmError> {
        let mut events = self.qmp.events();
        let taken = self.take_all(prepared.memory).await;
        let mut held = None;
        let frozen = match (&taken, prepared.disk) {
            (Ok(_), Some(DiskFreeze::Switch { from, to, .. })) => {
                let nodes = json!({ "node": node_name(&from), "overlay": node_name(&to) });
                let done = self.qmp.execute("blockdev-snapshot", nodes).await;
                *switched = done.is_ok();
                if done.is_err() {
                    self.forget_node(&to).await;
                }
                done.map(drop).map_err(VmError::from)
            }
            (Err(_), Some(DiskFreeze::Switch { to, .. })) => {
                self.forget_node(&to).await;
                Ok(())
            }
            (Ok(_), Some(DiskFreeze::Copy(mut copy))) => {
                let holding = copying(move || copy.hold().map(|()| copy)).await;
                holding.map(|copy| held = Some(copy))
            }
            _ => Ok(()),
        };
        self.qmp.execute("cont", json!({})).await?;
        let pause = pause_length(&mut events).await;
        let (device, pages) = taken?;
        frozen?;
        if let Some(copy) = held {
            copying(move || copy.finish()).await?;
        }
        Ok((device, pages, pause))
    }

    /// Takes back a disk that was added and is not used. One that QEMU does not let go of is closed when it ends.
    async fn forget_node(&self, disk: &Path) {
        let _ = self.qmp.execute("blockdev-del", json!({ "node-name": node_name(disk) })).await;
    }

    /// Stops the machine and takes its state; the guest's pages are copied while QEMU writes the rest.
    async fn take_all(&self, taker: Option<MemoryTaker>) -> Result<(Vec<u8>, Pages), VmError> {
        let stop = self.qmp.send("stop", json!({}));
        let Some(taker) = taker else {
            stop.answer().await?;
            return Ok((Vec::new(), Pages::default()));
        };
        let save = self.save_devices();
        stop.answer().await?;
        let (ram, prepared) = (taker.ram, taker.prepared);
        let pages = tokio::task::spawn_blocking(move || ram.take(prepared));
        let saved = save.answer().await;
        let pages = pages.await.map_err(std::io::Error::other).and_then(|taken| taken);
        saved?;
        let pages = pages.map_err(VmError::io("read the memory of the machine"))?;
        Ok((taker.state.read()?, pages))
    }

    /// Finds the guest's memory, makes room for it, and gives QEMU a place for the rest.
    async fn prepare_memory(&self) -> Result<MemoryTaker, VmError> {
        let doing = || VmError::io("prepare for taking the machine's memory");
        let (pid, memory, bytes) = (self.process.pid(), self.memory.clone(), self.hardware.memory_bytes());
        let prepared = tokio::task::spawn_blocking(move || {
            let ram = GuestRam::locate(pid, &memory, bytes)?;
            let prepared = ram.prepare()?;
            Ok((ram, prepared))
        });
        let (ram, prepared) =
            prepared.await.map_err(std::io::Error::other).and_then(|done| done).map_err(doing())?;
        Ok(MemoryTaker { ram, prepared, state: self.prepare_devices().await? })
    }
}

struct MemoryTaker {
    ram: GuestRam,
    prepared: Pages,
    state: DevicePlace,
}

fn overlay_node(path: &Path, format: &str) -> serde_json::Value {
    json!({
        "driver": format,
        "node-name": node_name(path),
        "backing": null,
        "discard": "unmap",
        "cache": { "direct": false, "no-flush": true },
        "file": {
            "driver": "file",
            "filename": path,
            "discard": "unmap",
            "cache": { "direct": false, "no-flush": true },
        },
    })
}

/// Does a step of copying a disk, which waits for the disk.
async fn copying<T: Send + 'static>(
    step: impl FnOnce() -> Result<T, DiskError> + Send + 'static,
) -> Result<T, VmError> {
    let done = tokio::task::spawn_blocking(step).await;
    Ok(done.map_err(|error| VmError::io("copy the disk")(std::io::Error::other(error)))??)
}

/// The time between the machine's stop and its going on, by QEMU's own clock.
async fn pause_length(events: &mut broadcast::Receiver<Event>) -> Duration {
    let mut stopped = None;
    let listen = async {
        while let Ok(event) = events.recv().await {
            match (event.name.as_str(), stopped) {
                ("STOP", _) => stopped = Some(event.at),
                ("RESUME", Some(stopped)) => return event.at.saturating_sub(stopped),
                _ => {}
            }
        }
        Duration::ZERO
    };
    tokio::time::timeout(Qmp::LIMIT, listen).await.unwrap_or_default()
}
