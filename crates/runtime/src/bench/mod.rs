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

use std::future::Future;
use std::sync::Arc;

use agentiso_core::Failure;
use agentiso_core::progress::Progress;

use self::aside::Aside;
pub use self::report::{Bound, Measurement, Report};

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
    /// Measures everything, unless something comes between. Either way nothing that was started goes on.
    pub async fn bench(
        &self,
        options: Options,
        progress: &Arc<dyn Progress>,
        interruption: impl Future<Output = Failure>,
    ) -> Result<Report, Failure> {
        let aside = Aside::new(self).await?;
        let measured = tokio::select! {
            measured = self.measure(&aside, options, progress) => measured,
            interrupted = interruption => Err(interrupted),
        };
        let cleared = aside.clear().await;
        let report = measured?;
        cleared?;
        Ok(report)
    }

    async fn measure(
        &self,
        aside: &Aside,
        options: Options,
        progress: &Arc<dyn Progress>,
    ) -> Result<Report, Failure> {
        let mut report = Report::new(self, progress).await?;
        report.extend(starts::measure(self, options, progress).await?);
        report.extend(travel::measure(aside, options, progress).await?);
        report.extend(neighbours::measure(aside, progress).await?);
        report.extend(execs::measure(self, options, progress).await?);
        report.extend(transfer::measure(self, options, progress).await?);
        if !options.short {
            report.extend(full_cache::measure(aside, options, progress).await?);
            report.extend(memory::measure(self, report.accel, progress).await?);
        }
        Ok(report)
    }
}
