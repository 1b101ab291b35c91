//! The configuration file: what it may say, how it is read, and the commented one that `init` writes.

mod edit;
mod error;
mod load;
mod model;
mod reference;

pub(crate) use edit::with_keys;
pub use error::ConfigError;
pub use load::{load, parse};
pub use model::{
    Accel, Cgroup, Config, Daemon, Defaults, DiskBackend, Disks, Holding, ImageAccess, Isolation, Link, Pool,
    QemuIsolation, RateLimit, Sessions, Templates, Vm,
};
