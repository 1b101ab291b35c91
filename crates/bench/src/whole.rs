//! The whole benchmark, in order.

use std::future::Future;
use std::sync::Arc;

use agentiso_core::Failure;
use agentiso_core::progress::Progress;

use agentiso_runtime::Installation;

use crate::aside::Aside;
use crate::report::Report;
use crate::{execs, full_cache, memory, neighbours, network, starts, transfer, travel};

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of measurements of each start.
    pub rounds: u32,
    /// Skips measurements that take minutes.
    pub short: bool,
    /// Measures the network alone.
    pub network: bool,
}

/// Measures everything. If `interruption` resolves first, its failure is returned. Either way, every machine that was
/// started is stopped.
pub async fn bench(
    installation: &Installation,
    options: Options,
    progress: &Arc<dyn Progress>,
    interruption: impl Future<Output = Failure>,
) -> Result<Report, Failure> {
    let aside = Aside::new(installation).await?;
    let measured = tokio::select! {
        measured = measure(installation, &aside, options, progress) => measured,
        interrupted = interruption => Err(interrupted),
    };
    let cleared = aside.clear().await;
    let report = measured?;
    cleared?;
    Ok(report)
}

async fn measure(
    installation: &Installation,
    aside: &Aside,
    options: Options,
    progress: &Arc<dyn Progress>,
) -> Result<Report, Failure> {
    let mut report = Report::new(installation, progress).await?;
    if options.network {
        report.extend(network::measure(installation, aside, options, progress).await?);
        return Ok(report);
    }
    report.extend(starts::measure(installation, options, progress).await?);
    report.extend(travel::measure(aside, options, progress).await?);
    report.extend(neighbours::measure(aside, progress).await?);
    report.extend(execs::measure(installation, options, progress).await?);
    report.extend(transfer::measure(installation, options, progress).await?);
    report.extend(network::measure(installation, aside, options, progress).await?);
    if !options.short {
        report.extend(full_cache::measure(aside, options, progress).await?);
        report.extend(memory::measure(installation, report.accel, progress).await?);
    }
    Ok(report)
}
