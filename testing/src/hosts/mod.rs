//! What every host of workspaces must do.

mod comparisons;
mod ends;
mod forks;
mod lab;
mod lifecycle;
mod memory;
mod network;
mod snapshots;

pub use comparisons::comparisons;
pub use ends::ends;
pub use forks::forks;
pub use lab::HostLab;
pub use lifecycle::lifecycle;
pub use memory::memory;
pub use network::network;
pub use snapshots::snapshots;
