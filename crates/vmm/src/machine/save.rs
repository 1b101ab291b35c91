//! Saving a running machine's memory and disk at one instant.
//!
//! ```text
//!   prepare (running) ─► stop ─► device state ─────┐
//!                           └──► pages not copied ─┼─► disk ─► cont
//!   failure after stop: ───────────────────────────┴────────► cont, with the old disk or the new one
//! ```
//!
//! Memory that goes to an image is copied while the machine runs. During the pause only pages are read that changed
//! since.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentiso_core::ports::{DiskCopy, DiskError};
use serde_json::json;
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

use super::Machine;
use super::devices::DevicePlace;
use crate::VmError;
use crate::link::Resync;
use crate::memory::{CopiedMemory, GuestRam, ImageWriter, MemoryCopy, Pages};
use crate::qemu::node_name;
use crate::qmp::{Event, Qmp};

/// How long saving may take.
const SAVE_LIMIT: Duration = Duration::from_secs(60);

/// How the disk is frozen during the pause.
pub enum DiskFreeze {
    /// The machine switches to a new disk whose backing file is the current one.
    Switch {
        /// The current disk.
        from: PathBuf,
        /// The new disk.
        to: PathBuf,
        /// Its format, as QEMU calls it.
        format: &'static str,
    },
    /// The disk is copied.
    Copy(Box<dyn DiskCopy>),
}

/// Whether and where to save memory, CPU and device state.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is rarely moved")]
pub enum TakeMemory {
    /// Do not save it.
    Nothing,
    /// Save it in memory.
    Pages,
    /// Save it to an image.
    Image(ImageWriter),
}

/// The saved memory.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is rarely moved")]
pub enum TakenMemory {
    /// It was not saved.
    Nothing,
    /// The machine's private pages.
    Pages(Pages),
    /// The machine's private pages, in an image that has to be finished.
    Image(CopiedMemory),
}

/// What to save.
pub struct SaveRequest {
    /// Memory, CPU and devices.
    pub memory: TakeMemory,
    /// The disk.
    pub disk: Option<DiskFreeze>,
}

/// The saved state.
#[derive(Debug)]
pub struct SavedState {
    /// The state of CPU and devices; empty if memory was not saved.
    pub device: Vec<u8>,
    /// Its memory.
    pub memory: TakenMemory,
    /// How long the machine was paused.
    pub pause: Duration,
    /// Whether it writes to the new disk now.
    pub switched: bool,
    /// Whether its agent was at a frame boundary.
    pub resync: Resync,
}

/// Saving failed.
#[derive(Debug)]
pub struct SaveFailure {
    /// Why.
    pub error: VmError,
    /// Whether it writes to the new disk in spite of that.
    pub switched: bool,
}

/// A save whose preparations, which need no pause, are done.
pub struct Prepared {
    memory: Option<MemoryTaker>,
    disk: Option<DiskFreeze>,
}

impl Machine {
    /// Prepares a save while the machine runs.
    pub async fn prepare(&self, request: SaveRequest) -> Result<Prepared, VmError> {
        let memory = self.prepare_memory(request.memory).await?;
        if let Some(DiskFreeze::Switch { to, format, .. }) = &request.disk {
            self.qmp.execute("blockdev-add", overlay_node(to, format)).await?;
        }
        Ok(Prepared { memory, disk: request.disk })
    }

    /// Cancels a prepared save.
    pub async fn give_up(&self, prepared: Prepared) {
        if let Some(DiskFreeze::Switch { to, .. }) = &prepared.disk {
            self.forget_node(to).await;
        }
    }

    /// Saves everything in one pause. The machine is resumed in any case, unless this process dies during the pause; then
    /// [`Machine::adopt`] resumes it.
    pub async fn take(&self, prepared: Prepared) -> Result<SavedState, SaveFailure> {
        let mut switched = false;
        let resync = if self.guest.is_quiet() { Resync::Clean } else { Resync::Unknown };
        let work = self.save_in_pause(prepared, &mut switched);
        let done = tokio::select! {
            done = tokio::time::timeout(SAVE_LIMIT, work) => done.unwrap_or_else(|_| {
                Err(VmError::NoAnswer { doing: "being saved", limit: SAVE_LIMIT, reason: None, console: String::new() })
            }),
            crash = self.crashed() => Err(crash),
        };
        match done {
            Ok((device, memory, pause)) => Ok(SavedState { device, memory, pause, switched, resync }),
            Err(error) => {
                // It must not stay paused. If it cannot be resumed it has ended, which the error says.
                let _ = self.qmp.execute("cont", json!({})).await;
                Err(SaveFailure { error, switched })
            }
        }
    }

    async fn save_in_pause(
        &self,
        prepared: Prepared,
        switched: &mut bool,
    ) -> Result<(Vec<u8>, TakenMemory, Duration), VmError> {
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
        // A machine that could not be stopped sends no events.
        let pause = if taken.is_ok() { pause_length(&mut events).await } else { Duration::ZERO };
        let (device, memory) = taken?;
        frozen?;
        if let Some(copy) = held {
            copying(move || copy.finish()).await?;
        }
        Ok((device, memory, pause))
    }

    /// Removes a disk that was added and is not used. If QEMU refuses, it stays open until QEMU ends.
    async fn forget_node(&self, disk: &Path) {
        let _ = self.qmp.execute("blockdev-del", json!({ "node-name": node_name(disk) })).await;
    }

    /// Stops the machine and saves its state. The guest's pages are copied while QEMU writes the device state.
    async fn take_all(&self, taker: Option<MemoryTaker>) -> Result<(Vec<u8>, TakenMemory), VmError> {
        let reading = || VmError::io("read the memory of the machine");
        let Some(MemoryTaker { source, state }) = taker else {
            self.qmp.execute("stop", json!({})).await?;
            return Ok((Vec::new(), TakenMemory::Nothing));
        };
        let source = source.caught_up().await.map_err(reading())?;
        let stop = self.qmp.send("stop", json!({}));
        let save = self.save_devices();
        stop.answer().await?;
        let taken = in_background(move || source.take());
        let saved = save.answer().await;
        let taken = taken.await;
        saved?;
        let taken = taken.map_err(reading())?;
        Ok((state.read()?, taken))
    }

    /// Locates the guest's memory, copies it or allocates space for it, and gives QEMU a place for the device state.
    async fn prepare_memory(&self, wanted: TakeMemory) -> Result<Option<MemoryTaker>, VmError> {
        let (pid, memory, bytes) = (self.process.pid(), self.memory.clone(), self.hardware.memory_bytes());
        let located = move || GuestRam::locate(pid, &memory, bytes);
        let prepare = async {
            match wanted {
                TakeMemory::Nothing => Ok(None),
                TakeMemory::Pages => {
                    in_background(move || {
                        let ram = located()?;
                        let room = ram.prepare()?;
                        Ok(Some(MemorySource::Pages(ram, room)))
                    })
                    .await
                }
                TakeMemory::Image(writer) => {
                    let copy = in_background(move || MemoryCopy::start(located()?, writer)).await?;
                    Ok(Some(MemorySource::Image(KeepingUp::start(copy))))
                }
            }
        };
        let source = tokio::select! {
            source = prepare => source.map_err(VmError::io("copy the machine's memory"))?,
            crash = self.crashed() => return Err(crash),
        };
        match source {
            None => Ok(None),
            Some(source) => Ok(Some(MemoryTaker { source, state: self.prepare_devices().await? })),
        }
    }
}

struct MemoryTaker {
    source: MemorySource,
    state: DevicePlace,
}

/// The source and target of the pages during the pause.
enum MemorySource {
    Pages(GuestRam, Pages),
    Image(KeepingUp),
}

/// The same, after copying in the background has ended.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is rarely moved")]
enum StillSource {
    Pages(GuestRam, Pages),
    Image(MemoryCopy),
}

impl MemorySource {
    async fn caught_up(self) -> std::io::Result<StillSource> {
        match self {
            Self::Pages(ram, room) => Ok(StillSource::Pages(ram, room)),
            Self::Image(keeping_up) => keeping_up.finish().await.map(StillSource::Image),
        }
    }
}

impl StillSource {
    fn take(self) -> std::io::Result<TakenMemory> {
        match self {
            Self::Pages(ram, room) => ram.take_own(room).map(TakenMemory::Pages),
            Self::Image(copy) => copy.take_rest().map(TakenMemory::Image),
        }
    }
}

/// Copies changed pages in the background until the machine is stopped. Ends when dropped.
struct KeepingUp {
    enough: Arc<AtomicBool>,
    copying: Option<JoinHandle<std::io::Result<MemoryCopy>>>,
}

impl KeepingUp {
    fn start(mut copy: MemoryCopy) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&enough);
        let copying = tokio::task::spawn_blocking(move || {
            copy.keep_up(&told)?;
            Ok(copy)
        });
        Self { enough, copying: Some(copying) }
    }

    async fn finish(mut self) -> std::io::Result<MemoryCopy> {
        self.enough.store(true, Ordering::Release);
        match self.copying.take() {
            Some(copying) => copying.await.map_err(std::io::Error::other)?,
            None => Err(std::io::Error::other("the copy was finished already")),
        }
    }
}

impl Drop for KeepingUp {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Release);
    }
}

/// Runs blocking work on a blocking thread.
async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
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

/// Runs a step of copying a disk on a blocking thread.
async fn copying<T: Send + 'static>(
    step: impl FnOnce() -> Result<T, DiskError> + Send + 'static,
) -> Result<T, VmError> {
    let done = tokio::task::spawn_blocking(step).await;
    Ok(done.map_err(|error| VmError::io("copy the disk")(std::io::Error::other(error)))??)
}

/// The length of the pause, by QEMU's clock.
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
