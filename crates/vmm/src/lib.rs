//! QEMU machines: finding QEMU, starting it, talking to it, and cloning machines from memory images.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod confine;
mod console;
mod disk_watch;
mod error;
mod hardware;
mod isolation;
pub mod link;
mod machine;
pub mod memory;
mod probe;
pub mod qemu;
mod qmp;
mod sockets;
pub mod template;
mod transport;
mod tsc;
mod users;

pub use confine::{ConfineError, Confinement, Group, IoLimits, LimitSettings, Limits, Trial};
pub use console::Console;
pub use error::VmError;
pub use hardware::{Accel, Hardware, LinkKind};
pub use isolation::{Access, Isolation, NotIsolated, Shown};
pub use machine::{
    DeviceState, DiskFreeze, Fill, GuestKernel, Host, Launch, Machine, MachineRecord, Plug, Prepared,
    RestoreFrom, SaveFailure, SaveRequest, SavedState, Standby, Standstill, TakeMemory, TakenMemory,
    root_disk,
};
pub use probe::{Acceleration, LinkChoice, choose_link, last_known, missing_device, probe};
pub use qmp::{Event, Qmp, QmpError};
pub use tsc::tsc_khz;
pub use users::{REGISTRY, User, Users, ids_exist, make_base};
