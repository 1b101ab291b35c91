//! Measuring this installation on this host.
//!
//! What is compared is measured in the same run, in turns, and a median is taken: hosts are shared and noisy.

mod aside;
mod execs;
mod memory;
mod report;
mod starts;
mod transfer;
mod travel;

use std::sync::Arc;

use agentiso_core::Failure;
use agentiso_core::progress::Progress;

pub use report::{Bound, Measurement, Report};

use crate::Installation;

/// How thorough to be.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How often each start is measured.
    pub rounds: u32,
    /// Leaves out what takes minutes.
    pub short: bool,
}

impl Installation {
    /// Measures everything.
    pub async fn bench(&self, options: Options, progress: &Arc<dyn Progress>) -> Result<Report, Failure> {
        let mut report = Report::new(self, progress).await?;
        report.extend(starts::measure(self, options, progress).await?);
        report.extend(travel::measure(self, options, progress).await?);
        report.extend(execs::measure(self, options, progress).await?);
        report.extend(transfer::measure(self, options, progress).await?);
        if !options.short {
            report.extend(memory::measure(self, progress).await?);
        }
        Ok(report)
    }
}
