//! Taking a running machine's memory and disk at one instant.
//!
//! ```text
//!   prepare (running) ─► stop ─► device state ─────┐
//!                           └──► pages not copied ─┼─► disk ─► cont
//!   any failure after stop: ───────────────────────┴────────► cont, nothing switched or everything
//! ```
//!
//! Memory that goes to an image is copied there while the machine still runs. In the pause only those pages are read
//! that changed since.

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

/// What to take of memory, processor and devices.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is rarely moved")]
pub enum TakeMemory {
    /// Nothing.
    Nothing,
    /// Everything, into memory.
    Pages,
    /// Everything, into an image.
    Image(ImageWriter),
}

/// What was taken of memory.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it is rarely moved")]
pub enum TakenMemory {
    /// Nothing.
    Nothing,
    /// The machine's own pages.
    Pages(Pages),
    /// The machine's own pages, in an image that has to be finished.
    Image(CopiedMemory),
}

/// What to take.
pub struct SaveRequest {
    /// Memory, processor and devices.
    pub memory: TakeMemory,
    /// The disk.
    pub disk: Option<DiskFreeze>,
}

/// What was taken.
#[derive(Debug)]
pub struct SavedState {
    /// The state of processor and devices, if memory was asked for.
    pub device: Vec<u8>,
    /// Its memory.
    pub memory: TakenMemory,
    /// How long the machine stood still.
    pub pause: Duration,
    /// Whether it writes to the new disk from now on.
    pub switched: bool,
    /// What is known of its agent's place in the stream of frames.
    pub resync: Resync,
}

/// A capture that failed.
#[derive(Debug)]
pub struct SaveFailure {
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
    pub async fn prepare(&self, capture: SaveRequest) -> Result<Prepared, VmError> {
        let memory = self.prepare_memory(capture.memory).await?;
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
    pub async fn take(&self, prepared: Prepared) -> Result<SavedState, SaveFailure> {
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
            Ok((device, memory, pause)) => Ok(SavedState { device, memory, pause, switched, resync }),
            Err(error) => {
                // It must not stand still for ever; if it cannot be woken it has ended, which the error says.
                let _ = self.qmp.execute("cont", json!({})).await;
                Err(SaveFailure { error, switched })
            }
        }
    }

    async fn take_in_pause(
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
        // One that could not be stopped says nothing about going on.
        let pause = if taken.is_ok() { pause_length(&mut events).await } else { Duration::ZERO };
        let (device, memory) = taken?;
        frozen?;
        if let Some(copy) = held {
            copying(move || copy.finish()).await?;
        }
        Ok((device, memory, pause))
    }

    /// Takes back a disk that was added and is not used. One that QEMU does not let go of is closed when it ends.
    async fn forget_node(&self, disk: &Path) {
        let _ = self.qmp.execute("blockdev-del", json!({ "node-name": node_name(disk) })).await;
    }

    /// Stops the machine and takes its state; the guest's pages are copied while QEMU writes the rest.
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

    /// Finds the guest's memory, copies it or makes room for it, and gives QEMU a place for the rest.
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

/// Where the pages come from once the machine stands still, and where they go.
enum MemorySource {
    Pages(GuestRam, Pages),
    Image(KeepingUp),
}

/// The same, with nothing going on any more.
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

/// Copies what changes until the machine is stopped. Ends by itself when it is dropped.
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

/// Does what takes long on a thread of its own.
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
