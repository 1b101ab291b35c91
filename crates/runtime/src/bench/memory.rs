//! What an idle machine costs.

use std::sync::Arc;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure};

use super::execs::run;
use super::report::{Measurement, request};
use crate::Installation;

const MACHINES: u64 = 20;

pub(super) async fn measure(
    installation: &Installation,
    progress: &Arc<dyn Progress>,
) -> Result<Vec<Measurement>, Failure> {
    let before = available_kib()?;
    progress.step("Keeping twenty machines", Some(MACHINES));
    let mut machines = Vec::new();
    for _ in 0..MACHINES {
        let running = installation.start(&request(installation, false)?, progress).await?;
        run(&running.machine, &["/bin/true"]).await?;
        machines.push(running);
        progress.advance(1);
    }
    progress.done("");
    let taken = before.saturating_sub(available_kib()?);
    for running in machines {
        running.destroy().await;
    }
    let each = taken as f64 / 1024.0 / MACHINES as f64;
    Ok(vec![Measurement::one("host memory of each of 20 idle machines", "MiB", each).at_most(24.0)])
}

fn available_kib() -> Result<u64, Failure> {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| Failure::new(Code::Io, "could not read /proc/meminfo"))
}
