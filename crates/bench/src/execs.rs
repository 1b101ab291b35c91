//! The speed of commands in a running machine, and whether repeated commands leak memory or descriptors.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure};
use agentiso_vmm::Machine;

use crate::Options;
use crate::report::{Measurement, request};
use crate::starts::ms;
use agentiso_runtime::Installation;
use agentiso_runtime::guest::{Exec, Exit, ProcessEvent, Status};

const WARM_UP: usize = 50;
const SAMPLES: usize = 300;
const MANY: u64 = 10_000;
const STEP: u64 = 100;
const LIMIT: Duration = Duration::from_secs(600);

pub(super) async fn measure(
    installation: &Installation,
    options: Options,
    progress: &Arc<dyn Progress>,
) -> Result<Vec<Measurement>, Failure> {
    let running = installation.start(&request(installation, false)?, progress).await?;
    let machine = &running.machine;
    for _ in 0..WARM_UP {
        run(machine, &["/bin/true"]).await?;
    }
    let (mut trips, mut beyond) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        let began = Instant::now();
        let (exit, _) = run(machine, &["/bin/true"]).await?;
        let trip = ms(began.elapsed());
        trips.push(trip);
        beyond.push(trip - exit.usage.wall_us as f64 / 1e3);
    }
    let mut measured = vec![
        Measurement::new("warm exec of true, round trip", "ms", &trips),
        Measurement::new("warm exec of true, without its time in the guest", "ms", &beyond).at_most(3.0),
    ];
    if !options.short {
        measured.extend(growth(machine, progress).await?);
    }
    running.destroy().await;
    Ok(measured)
}

async fn growth(machine: &Machine, progress: &Arc<dyn Progress>) -> Result<Vec<Measurement>, Failure> {
    let before = status(machine).await?;
    progress.step("Running 10,000 commands", Some(MANY));
    for _ in 0..MANY / STEP {
        for _ in 0..STEP {
            run(machine, &["/bin/true"]).await?;
        }
        progress.advance(STEP);
    }
    progress.done("");
    let after = status(machine).await?;
    let grown = |name: &str, unit, before: u64, after: u64| {
        Measurement::one(
            format!("after 10,000 commands: growth of {name}"),
            unit,
            after as f64 - before as f64,
        )
    };
    Ok(vec![
        grown("agent memory", "KiB", before.rss_kib, after.rss_kib).at_most(64.0),
        grown("descriptors", "", before.open_fds.into(), after.open_fds.into()).at_most(0.0),
        grown("threads", "", before.threads.into(), after.threads.into()).at_most(0.0),
        grown("zombies", "", before.zombies.into(), after.zombies.into()).at_most(0.0),
    ])
}

async fn status(machine: &Machine) -> Result<Status, Failure> {
    Ok(machine.during("reporting its status", LIMIT, machine.guest().status()).await?)
}

/// Runs a command and returns its output.
pub(super) async fn run(machine: &Machine, argv: &[&str]) -> Result<(Exit, Vec<u8>), Failure> {
    let argv = argv.iter().map(|word| word.as_bytes().to_vec()).collect();
    let exec = Exec { argv, ..Exec::default() };
    let ended = machine.during("running a command", LIMIT, async {
        let mut process = machine.guest().exec(exec).await?;
        let mut printed = Vec::new();
        while let Some(event) = process.next().await? {
            match event {
                ProcessEvent::Stdout(bytes) => printed.extend_from_slice(&bytes),
                ProcessEvent::Exited(exit) => return Ok(Some((exit, printed))),
                ProcessEvent::Started { .. }
                | ProcessEvent::Stderr(_)
                | ProcessEvent::InputRead(_)
                | ProcessEvent::Detached { .. } => {}
            }
        }
        Ok(None)
    });
    ended
        .await?
        .ok_or_else(|| Failure::new(Code::ProtocolViolation, "a command ended without an exit status"))
}
