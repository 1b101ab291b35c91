//! The speed of file transfers between host and guest, relative to the raw transport to and from the same kind of file:
//! for an emulated guest, writing a file costs more than receiving it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure};
use agentiso_vmm::Machine;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::Options;
use crate::execs::run;
use crate::report::{Measurement, median, request};
use agentiso_runtime::Installation;
use agentiso_runtime::guest::WriteOptions;

const MIB: u64 = 1 << 20;
const FILE: u64 = 256 * MIB;
const LARGE: u64 = 4096 * MIB;
const ROUNDS: usize = 3;
const PIECE: usize = 256 * 1024;
const PATH: &str = "/var/tmp/agentiso-bench";
/// Finds the port by its name: its number depends on the order in which the guest found its devices.
const FIND_PORT: &str = "port=/dev/$(basename $(dirname $(grep -l spare /sys/class/virtio-ports/*/name)));";
const LIMIT: Duration = Duration::from_secs(900);

pub(super) async fn measure(
    installation: &Installation,
    options: Options,
    progress: &Arc<dyn Progress>,
) -> Result<Vec<Measurement>, Failure> {
    let mut running = installation.start_with_spare_port(&request(installation, true)?, progress).await?;
    let missing = || Failure::new(Code::Internal, "the machine has no second serial port");
    let mut port = running.machine.take_spare_port().ok_or_else(missing)?;
    let machine = &running.machine;
    let mut rates: [Vec<f64>; 4] = Default::default();
    progress.step("Transferring 256 MiB files", Some(ROUNDS as u64 * 4));
    for _ in 0..ROUNDS {
        let figures = [
            raw_push(machine, &mut port).await?,
            push(machine, FILE).await?,
            raw_pull(machine, &mut port).await?,
            pull(machine, FILE).await?,
        ];
        for (rates, figure) in rates.iter_mut().zip(figures) {
            rates.push(figure);
            progress.advance(1);
        }
    }
    progress.done("");
    let [raw_push, push_rates, raw_pull, pull_rates] = &rates;
    let share = |ours: &[f64], raw: &[f64]| median(ours) / median(raw) * 100.0;
    let mut measured = vec![
        Measurement::new("raw transport into a 256 MiB file", "MiB/s", raw_push),
        Measurement::new("pushing a 256 MiB file", "MiB/s", push_rates),
        Measurement::one("pushing relative to the raw transport", "%", share(push_rates, raw_push))
            .at_least(70.0),
        Measurement::new("raw transport out of a 256 MiB file", "MiB/s", raw_pull),
        Measurement::new("pulling a 256 MiB file", "MiB/s", pull_rates),
        Measurement::one("pulling relative to the raw transport", "%", share(pull_rates, raw_pull))
            .at_least(70.0),
    ];
    if !options.short {
        measured.extend(large(machine, progress).await?);
    }
    running.destroy().await;
    Ok(measured)
}

/// Transfers a file that is larger than all memory involved, both ways.
async fn large(machine: &Machine, progress: &Arc<dyn Progress>) -> Result<Vec<Measurement>, Failure> {
    let status = || machine.during("reporting its status", LIMIT, machine.guest().status());
    let (host_before, guest_before) = (own_rss_kib(), status().await?.rss_kib);
    progress.step("Transferring a 4 GiB file both ways", None);
    push(machine, LARGE).await?;
    pull(machine, LARGE).await?;
    progress.done("");
    let (host_after, guest_after) = (own_rss_kib(), status().await?.rss_kib);
    let grown = |before: u64, after: u64| after as f64 - before as f64;
    Ok(vec![
        Measurement::one(
            "a 4 GiB file both ways: growth of host memory",
            "KiB",
            grown(host_before, host_after),
        )
        .at_most(16.0 * 1024.0),
        Measurement::one(
            "a 4 GiB file both ways: growth of agent memory",
            "KiB",
            grown(guest_before, guest_after),
        )
        .at_most(4.0 * 1024.0),
    ])
}

/// MiB per second into a file in the guest.
async fn push(machine: &Machine, bytes: u64) -> Result<f64, Failure> {
    let piece = vec![0x5a; PIECE];
    let began = Instant::now();
    let written = machine.during("receiving a file", LIMIT, async {
        let mut file = machine.guest().write_file(PATH.as_bytes(), WriteOptions::default()).await?;
        for _ in 0..bytes / PIECE as u64 {
            file.write(&piece).await?;
        }
        file.finish().await
    });
    let written = written.await?;
    complete(written, bytes)?;
    Ok(rate(bytes, began))
}

/// MiB per second out of the file that was pushed.
async fn pull(machine: &Machine, bytes: u64) -> Result<f64, Failure> {
    let began = Instant::now();
    let read = machine.during("sending a file", LIMIT, async {
        let mut file = machine.guest().read_file(PATH.as_bytes(), 0, None).await?;
        let mut read = 0;
        while let Some(piece) = file.next().await? {
            read += piece.len() as u64;
        }
        Ok(read)
    });
    complete(read.await?, bytes)?;
    Ok(rate(bytes, began))
}

/// MiB per second into a file in the guest without agentiso in between.
async fn raw_push(machine: &Machine, port: &mut UnixStream) -> Result<f64, Failure> {
    let piece = vec![0x5a; PIECE];
    let count = FILE >> 17;
    let take = format!(
        "{FIND_PORT} dd if=$port of={PATH} bs=128k iflag=fullblock count={count} && stat -c %s {PATH}"
    );
    let began = Instant::now();
    let give = async {
        for _ in 0..FILE / PIECE as u64 {
            port.write_all(&piece).await?;
        }
        Ok(())
    };
    let size = both(give, machine, &take).await?;
    let elapsed = rate(FILE, began);
    complete(size.parse().unwrap_or(0), FILE)?;
    Ok(elapsed)
}

/// MiB per second out of that file without agentiso in between.
async fn raw_pull(machine: &Machine, port: &mut UnixStream) -> Result<f64, Failure> {
    let give = format!("{FIND_PORT} dd if={PATH} of=$port bs=128k count={}", FILE >> 17);
    let began = Instant::now();
    let take = async {
        let mut buffer = vec![0; PIECE];
        let mut left = FILE;
        while left > 0 {
            match port.read(&mut buffer).await? as u64 {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                read => left = left.saturating_sub(read),
            }
        }
        Ok(())
    };
    both(take, machine, &give).await?;
    Ok(rate(FILE, began))
}

async fn both(
    ours: impl Future<Output = std::io::Result<()>>,
    machine: &Machine,
    theirs: &str,
) -> Result<String, Failure> {
    let command = ["/bin/sh", "-c", theirs];
    let ours = async {
        ours.await.map_err(|error| Failure::new(Code::Io, format!("the raw transport failed: {error}")))
    };
    let (_, (_, printed)) = tokio::try_join!(ours, run(machine, &command))?;
    Ok(String::from_utf8_lossy(&printed).trim().to_owned())
}

fn complete(moved: u64, bytes: u64) -> Result<(), Failure> {
    if moved == bytes {
        return Ok(());
    }
    Err(Failure::new(Code::ProtocolViolation, format!("{moved} bytes arrived instead of {bytes}")))
}

fn rate(bytes: u64, began: Instant) -> f64 {
    (bytes / MIB) as f64 / began.elapsed().as_secs_f64()
}

fn own_rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
