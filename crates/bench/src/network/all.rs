//! All measurements of the network, in order.

use std::sync::Arc;

use agentiso_core::Failure;
use agentiso_core::progress::Progress;
use agentiso_net::plan::Pool;
use agentiso_runtime::Installation;

use super::{dns, process, starts, throughput};
use crate::Options;
use crate::aside::Aside;
use crate::report::Measurement;

/// Measures the network.
pub(crate) async fn measure(
    installation: &Installation,
    aside: &Aside,
    options: Options,
    progress: &Arc<dyn Progress>,
) -> Result<Vec<Measurement>, Failure> {
    let pool = Pool::parse(&installation.config.network.pool)?;
    let mut all = process::measure(installation, pool, progress).await?;
    all.extend(dns::measure(pool).await?);
    all.extend(starts::measure(aside, options, progress).await?);
    all.extend(throughput::measure(aside, pool, progress).await?);
    Ok(all)
}
