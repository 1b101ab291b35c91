//! How fast a machine is frozen and taken back whose memory is full of files it has read and written.

use std::sync::Arc;
use std::time::Instant;

use agentiso_core::progress::Progress;
use agentiso_core::{Failure, Resources};

use crate::Options;
use crate::aside::Aside;
use crate::report::Measurement;
use crate::starts::ms;

/// Fills most of the memory of a machine of 512 MiB with pages of files.
const FILL: &str =
    "find /usr -xdev -type f -exec cat {} + > /dev/null; yes agentiso | head -c 300M > /root/full; sync";
const MEMORY_MB: u32 = 512;
/// Goals of a host with two processors.
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
    progress.step("Freezing machines with a full page cache", Some(u64::from(rounds)));
    for _ in 0..rounds {
        // Each time another machine: a second snapshot of the same one writes only what changed.
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
        Measurement::new("  to its answer", "ms", &answer).at_most(ANSWER_MS),
        Measurement::new("  the machine stands still", "ms", &pause).at_most(PAUSE_MS),
        Measurement::new("  restore with memory", "ms", &restore),
    ])
}
