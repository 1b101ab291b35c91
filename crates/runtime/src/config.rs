//! The configuration file: what it may say, how it is read, and the commented one that `init` writes.

mod error;
mod load;
mod model;
mod reference;

pub use error::ConfigError;
pub use load::{load, parse};
pub use model::{
    Accel, Cgroup, Config, Daemon, Defaults, DiskBackend, Holding, Link, Pool, RateLimit, Sessions,
    Templates, Vm,
};
