//! The speed of machine starts.

use std::sync::Arc;
use std::time::Instant;

use agentiso_core::Failure;
use agentiso_core::progress::Progress;

use crate::Options;
use crate::execs::run;
use crate::report::{Measurement, median, request};
use agentiso_runtime::BareRestore;
use agentiso_runtime::{Installation, Tier};

/// Cold boots are measured less often, because each takes seconds.
const COLD_ROUNDS: u32 = 5;
const DISK_ROUNDS: u32 = 200;
/// Number of rounds of concurrent starts.
pub(super) const MANY: u32 = 20;

pub(super) async fn measure(
    installation: &Installation,
    options: Options,
    progress: &Arc<dyn Progress>,
) -> Result<Vec<Measurement>, Failure> {
    // The first start creates the templates and is not counted.
    let (_, tier) = start_to_output(installation, false, progress).await?;
    let bare = BareRestore::prepare(installation, &request(installation, false)?, progress).await?;
    let (mut cold, mut template, mut restore) = (Vec::new(), Vec::new(), Vec::new());
    progress.step("Starting machines", Some(u64::from(options.rounds)));
    for round in 0..options.rounds {
        restore.push(ms(bare.once().await?));
        template.push(start_to_output(installation, false, progress).await?.0);
        if round < COLD_ROUNDS {
            cold.push(start_to_output(installation, true, progress).await?.0);
        }
        progress.advance(1);
    }
    let mut many = Vec::new();
    for _ in 0..options.rounds.div_ceil(3) {
        many.push(ms(bare.at_once(MANY).await?));
    }
    progress.done("");
    let tier = tier.as_str().replace('_', " ");
    let (c, t, r) = (median(&cold), median(&template), median(&restore));
    let (disk_us, disk_bytes) = disks(installation).await?;
    Ok(vec![
        Measurement::new("bare QEMU restore until the agent's first response", "ms", &restore),
        Measurement::new(format!("{MANY} bare QEMU restores at once"), "ms", &many),
        Measurement::one("  relative to one", "times", median(&many) / r),
        Measurement::new(format!("start until the first command's output ({tier})"), "ms", &template),
        Measurement::new("start until the first command's output (cold)", "ms", &cold),
        Measurement::one("speed-up of a template start over a cold boot", "times", c / t).at_least(5.0),
        Measurement::one("a template start relative to a bare restore", "times", t / r).at_most(4.0),
        Measurement::new("creating a copy-on-write disk", "µs", &disk_us).at_most(2000.0),
        Measurement::one("space used by a new disk", "KiB", disk_bytes as f64 / 1024.0).at_most(512.0),
    ])
}

/// Milliseconds from a start until the first command's output. The machine is removed afterwards.
async fn start_to_output(
    installation: &Installation,
    cold: bool,
    progress: &Arc<dyn Progress>,
) -> Result<(f64, Tier), Failure> {
    let request = request(installation, cold)?;
    let began = Instant::now();
    let running = installation.start(&request, progress).await?;
    run(&running.machine, &["/bin/echo", "hello"]).await?;
    let elapsed = ms(began.elapsed());
    let tier = running.tier;
    running.destroy().await;
    Ok((elapsed, tier))
}

/// Microseconds to create each of many disks, and the bytes that one of them takes.
async fn disks(installation: &Installation) -> Result<(Vec<f64>, u64), Failure> {
    let image = installation.images()?.get(&installation.config.defaults.image_name()?)?;
    let scratch = tempfile::tempdir_in(installation.paths.cache_dir())
        .map_err(|error| installation.io("create a scratch directory", error))?;
    let source = agentiso_core::ports::DiskSource::Raw(image.rootfs());
    let mut taken = Vec::new();
    let path = |number: u32| scratch.path().join(number.to_string());
    for number in 0..DISK_ROUNDS {
        let path = path(number);
        let began = Instant::now();
        installation.disks().create(&path, &source, image.meta.fs_bytes)?;
        taken.push(began.elapsed().as_secs_f64() * 1e6);
    }
    let bytes = installation.disks().own_bytes(&path(0))?;
    drop(scratch);
    installation.sweep_disks();
    Ok((taken, bytes))
}

pub(super) fn ms(duration: std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
