//! Memory snapshot and restore of a machine with a full page cache.

use std::sync::Arc;
use std::time::Instant;

use agentiso_core::progress::Progress;
use agentiso_core::{Failure, Resources};

use crate::Options;
use crate::aside::Aside;
use crate::report::Measurement;
use crate::starts::ms;

/// Fills most of the memory of a 512 MiB machine with cached file pages.
const FILL: &str =
    "find /usr -xdev -type f -exec cat {} + > /dev/null; yes agentiso | head -c 300M > /root/full; sync";
const MEMORY_MB: u32 = 512;
/// Bounds for a host with two CPUs.
const ANSWER_MS: f64 = 3000.0;
const PAUSE_MS: f64 = 100.0;

pub(super) async fn measure(
    aside: &Aside,
    options: Options,
    progress: &Arc<dyn Progress>,
) -> Result<Vec<Measurement>, Failure> {
    let (mut answer, mut pause, mut written, mut restore) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let rounds = options.rounds.div_ceil(2);
    let resources = Resources { memory_mb: MEMORY_MB, ..aside.resources() };
    progress.step("Taking memory snapshots with a full page cache", Some(u64::from(rounds)));
    for _ in 0..rounds {
        // A new machine each time: a second snapshot of the same one writes only changes.
        aside.create_as("full", resources, false).await?;
        aside.run("full", &["/bin/sh", "-c", FILL]).await?;
        let began = Instant::now();
        let taken = aside.snapshot("full", "filled", true).await?;
        answer.push(ms(began.elapsed()));
        pause.push(ms(taken.pause));
        written.push(taken.memory.map_or(0, |memory| memory.bytes) as f64 / f64::from(1 << 20));
        let began = Instant::now();
        aside.restore("full", "filled").await?;
        restore.push(ms(began.elapsed()));
        aside.remove("full").await?;
        progress.advance(1);
    }
    progress.done("");
    Ok(vec![
        Measurement::new("memory snapshot, page cache full: written", "MiB", &written),
        Measurement::new("  time until the call returns", "ms", &answer).at_most(ANSWER_MS),
        Measurement::new("  downtime", "ms", &pause).at_most(PAUSE_MS),
        Measurement::new("  restore with memory", "ms", &restore),
    ])
}
