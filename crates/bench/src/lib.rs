//! Benchmarks of this installation on this host.
//!
//! Hosts are shared and noisy, so figures that are compared are measured alternately in the same run, and their medians
//! are used.

mod aside;
mod execs;
mod full_cache;
mod memory;
mod neighbours;
mod network;
mod report;
mod starts;
mod transfer;
mod travel;
mod whole;

pub use report::{Bound, Measurement, Report};
pub use whole::{Options, bench};
