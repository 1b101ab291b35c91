//! The configuration file (its keys, how it is read, the commented file that `init` writes) and the directories of an
//! installation with their permissions.

mod edit;
mod error;
mod load;
mod model;
pub mod modes;
mod network;
pub mod paths;
mod presets;
mod reference;

pub use edit::with_keys;
pub use error::ConfigError;
pub use load::{load, parse};
pub use model::{
    Accel, Cgroup, Config, Daemon, Defaults, DiskBackend, Disks, Holding, ImageAccess, Isolation, Link, Pool,
    QemuIsolation, RateLimit, Sessions, Templates, Vm,
};
pub use network::{Backend as NetworkBackend, Network};
pub use presets::{Preset, Presets};
