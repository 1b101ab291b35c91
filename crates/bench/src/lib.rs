//! Measuring this installation on this host.
//!
//! What is compared is measured in the same run, in turns, and a median is taken: hosts are shared and noisy.

mod aside;
mod execs;
mod full_cache;
mod memory;
mod neighbours;
mod report;
mod starts;
mod transfer;
mod travel;
mod whole;

pub use report::{Bound, Measurement, Report};
pub use whole::{Options, bench};
