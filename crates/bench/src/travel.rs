//! The speed of snapshots, restores and forks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_core::Failure;
use agentiso_core::progress::Progress;

use crate::Options;
use crate::aside::{Aside, silent};
use crate::report::{Measurement, median};
use crate::starts::{MANY, ms};
use agentiso_runtime::workspaces::PoolShape;

/// The time limit of a command.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// Snapshots of the long chain.
const LONG_CHAIN: u32 = 200;

pub(super) async fn measure(
    aside: &Aside,
    options: Options,
    progress: &Arc<dyn Progress>,
) -> Result<Vec<Measurement>, Failure> {
    let mut all = forks_and_restores(aside, options, progress).await?;
    all.extend(pool(aside, options, progress).await?);
    if !options.short {
        all.extend(long_chain(aside, progress).await?);
    }
    Ok(all)
}

/// Everything that is compared with a plain start is measured alternately with it.
async fn forks_and_restores(
    aside: &Aside,
    options: Options,
    progress: &Arc<dyn Progress>,
) -> Result<Vec<Measurement>, Failure> {
    // The first start creates the template and is not counted.
    aside.create("fresh", false).await?;
    aside.create("large", false).await?;
    aside.run("large", &write_to_memory(60)).await?;
    aside.create("work", false).await?;
    let mut taken = Samples::default();
    progress.step("Taking snapshots, restoring and forking", Some(u64::from(options.rounds)));
    for round in 0..options.rounds {
        let began = Instant::now();
        aside.create("plain", false).await?;
        taken.start.push(ms(began.elapsed()));
        aside.remove("plain").await?;

        let (whole, pause) = fork(aside, "fresh", 1).await?;
        taken.small.push(whole);
        taken.small_pause.push(pause);
        let (whole, pause) = fork(aside, "large", 1).await?;
        taken.large.push(whole);
        taken.large_pause.push(pause);

        aside.snapshot("work", &format!("before-{round}"), true).await?;
        aside.run("work", &write_to_memory(10)).await?;
        let memory = aside.snapshot("work", &format!("after-{round}"), true).await?;
        let written = memory.memory.map_or(0, |written| written.bytes);
        taken.written.push(written as f64 / f64::from(1 << 20));
        taken.memory_pause.push(ms(memory.pause));
        let disk = aside.snapshot("work", &format!("disk-{round}"), false).await?;
        taken.disk_pause.push(ms(disk.pause));

        let began = Instant::now();
        aside.restore("work", &format!("after-{round}")).await?;
        taken.restore.push(ms(began.elapsed()));
        // Background work that every command leaves behind.
        aside.workspaces.maintain(&silent()).await?;
        progress.advance(1);
    }
    let rounds = options.rounds.div_ceil(3);
    for _ in 0..rounds {
        taken.many.push(fork(aside, "fresh", MANY).await?.0);
    }
    progress.done("");
    Ok(taken.report())
}

#[derive(Default)]
struct Samples {
    start: Vec<f64>,
    small: Vec<f64>,
    small_pause: Vec<f64>,
    large: Vec<f64>,
    large_pause: Vec<f64>,
    many: Vec<f64>,
    written: Vec<f64>,
    memory_pause: Vec<f64>,
    disk_pause: Vec<f64>,
    restore: Vec<f64>,
}

impl Samples {
    fn report(&self) -> Vec<Measurement> {
        let start = median(&self.start);
        let ratio = |name: &str, samples: &[f64], limit: f64| {
            Measurement::one(name, "times", median(samples) / start).at_most(limit)
        };
        vec![
            Measurement::new("256 MiB: create, warm template, until the call returns", "ms", &self.start),
            Measurement::new("fork of a running machine, few dirty pages", "ms", &self.small),
            ratio("  relative to a create", &self.small, 1.2),
            Measurement::new("  downtime of the source", "ms", &self.small_pause).at_most(8.0),
            Measurement::new("fork of a running machine, 60 MiB dirty", "ms", &self.large),
            ratio("  relative to a create", &self.large, 2.2),
            Measurement::new("  downtime of the source", "ms", &self.large_pause).at_most(start),
            Measurement::new(format!("{MANY} forks in one call"), "ms", &self.many),
            Measurement::one("  relative to one fork", "times", median(&self.many) / median(&self.small))
                .at_most(6.0),
            Measurement::new("memory snapshot, 10 MiB dirty: written", "MiB", &self.written).at_most(14.0),
            Measurement::new("  downtime", "ms", &self.memory_pause),
            Measurement::new("disk snapshot: downtime", "ms", &self.disk_pause).at_most(10.0),
            Measurement::new("restore with memory", "ms", &self.restore),
            ratio("  relative to a create", &self.restore, 1.5),
        ]
    }
}

/// The duration of forks and the downtime of their source, in milliseconds.
async fn fork(aside: &Aside, source: &str, count: u32) -> Result<(f64, f64), Failure> {
    let began = Instant::now();
    let outcome = aside.fork(source, "child", count).await?;
    let whole = ms(began.elapsed());
    for fork in &outcome.forks {
        aside.remove(fork.name.as_str()).await?;
    }
    Ok((whole, ms(outcome.pause)))
}

async fn pool(
    aside: &Aside,
    options: Options,
    progress: &Arc<dyn Progress>,
) -> Result<Vec<Measurement>, Failure> {
    let image = aside.workspaces.installation().config.defaults.image_name()?;
    let shape = PoolShape { image, resources: aside.resources() };
    let (mut from_pool, mut from_template) = (Vec::new(), Vec::new());
    progress.step("Taking machines from the pool", Some(u64::from(options.rounds)));
    for _ in 0..options.rounds {
        aside.workspaces.add_to_pool(&shape, &silent()).await?;
        for (pool, samples) in [(true, &mut from_pool), (false, &mut from_template)] {
            let began = Instant::now();
            let workspace = aside.create("first", pool).await?;
            aside.run("first", &["/bin/echo", "hello"]).await?;
            samples.push(ms(began.elapsed()));
            debug_assert_eq!(workspace.from_pool, pool);
            aside.remove("first").await?;
        }
        progress.advance(1);
    }
    progress.done("");
    let times = median(&from_template) / median(&from_pool);
    Ok(vec![
        Measurement::new("create until the first command's output (pool)", "ms", &from_pool),
        Measurement::new("create until the first command's output (warm template)", "ms", &from_template),
        Measurement::one("  speed-up by the pool", "times", times).at_least(8.0),
    ])
}

/// Takes many disk snapshots with a few writes in between, and compares the last ones with the first ones.
async fn long_chain(aside: &Aside, progress: &Arc<dyn Progress>) -> Result<Vec<Measurement>, Failure> {
    let write = |number: u32| format!("head -c 262144 /dev/urandom > /root/file-{number}; sync");
    let read = ["/bin/sh", "-c", "echo 3 > /proc/sys/vm/drop_caches; cat /usr/bin/python3* > /dev/null"];
    aside.create("chain", false).await?;
    let (mut early, mut late, mut early_read, mut late_read) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let disks = aside.workspaces.installation().paths.disks_dir();
    let mut sizes = Vec::new();
    progress.step("Taking a chain of snapshots", Some(u64::from(LONG_CHAIN)));
    for number in 1..=LONG_CHAIN {
        aside.run("chain", &["/bin/sh", "-c", &write(number)]).await?;
        let began = Instant::now();
        aside.snapshot("chain", &format!("s{number}"), false).await?;
        let took = ms(began.elapsed());
        sizes.push(bytes_in(&disks));
        let edge = 10;
        if number <= edge || number > LONG_CHAIN - edge {
            let (times, reads) =
                if number <= edge { (&mut early, &mut early_read) } else { (&mut late, &mut late_read) };
            times.push(took);
            let began = Instant::now();
            aside.run("chain", &read).await?;
            reads.push(ms(began.elapsed()));
        }
        aside.workspaces.maintain(&silent()).await?;
        progress.advance(1);
    }
    progress.done("");
    let grown = |range: std::ops::Range<usize>| {
        (sizes[range.end] as f64 - sizes[range.start] as f64) / range.len() as f64 / 1024.0
    };
    let last = LONG_CHAIN as usize - 1;
    Ok(vec![
        Measurement::new("snapshots 1 to 10 of a chain", "ms", &early),
        Measurement::new(format!("snapshots {} to {LONG_CHAIN}", LONG_CHAIN - 9), "ms", &late),
        Measurement::one("  relative to the first", "times", median(&late) / median(&early)).at_most(1.5),
        Measurement::one("space of each of the first 10", "KiB", grown(0..9)),
        Measurement::one(
            "space of each of the last 10, merged copies included",
            "KiB",
            grown(last - 9..last),
        ),
        Measurement::one(
            "reading after the last relative to after the first",
            "times",
            median(&late_read) / median(&early_read),
        )
        .at_most(1.5),
    ])
}

/// Writes this many MiB of incompressible data to memory.
fn write_to_memory(mib: u32) -> [&'static str; 3] {
    match mib {
        10 => ["/bin/sh", "-c", "head -c 10485760 /dev/urandom > /dev/shm/ten"],
        _ => ["/bin/sh", "-c", "head -c 62914560 /dev/urandom > /dev/shm/sixty"],
    }
}

fn bytes_in(dir: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.blocks() * 512).sum()
}
