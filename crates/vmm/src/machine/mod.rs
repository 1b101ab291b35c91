//! One machine: a QEMU process, its monitor, its console and the link to its agent.
//!
//! ```text
//!   boot ────────────► answering ──stop──► power-off requested ──► process ended
//!   standby ─restored─►    │ ▲                   │ deadline
//!   adopted ──────────►    │ └─── save ──┐       ▼
//!                          │    (pauses) ┘     killed
//!                          │ QEMU ends
//!                          ▼
//!                       crashed: every call fails with the console's last lines
//! ```
//!
//! Dropping a machine kills its process, unless it was released.

mod backing;
mod card;
mod devices;
mod freeze;
mod launch;
mod record;
mod running;
mod save;
mod standby;
mod started;

pub use card::Plug;
pub use launch::{GuestKernel, Host, Launch, root_disk};
pub use record::MachineRecord;
pub use running::{Machine, Standstill};
pub use save::{DiskFreeze, Prepared, SaveFailure, SaveRequest, SavedState, TakeMemory, TakenMemory};
pub use standby::{DeviceState, Fill, RestoreFrom, Standby};
