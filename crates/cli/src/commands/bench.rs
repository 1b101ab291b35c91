//! `agentiso bench`: what this host can do.

use std::io::Write;

use agentiso_bench::Options;
use agentiso_core::Failure;
use agentiso_runtime::Installation;

use crate::args;
use crate::output::Output;
use crate::ui::Table;

/// Measures and shows a table.
pub async fn bench(installation: &Installation, flags: args::Bench, output: Output) -> Result<u8, Failure> {
    let options = Options { rounds: flags.rounds, short: flags.short, network: flags.network };
    let progress = output.progress();
    let report = agentiso_bench::bench(installation, options, &progress, super::interruption()?).await?;
    drop(progress);
    output.result(&report, |out| {
        let size = report.resources;
        writeln!(
            out,
            "{}, QEMU {}, kernel {}, image {}, {} vcpus, {} MiB",
            report.accel, report.qemu, report.kernel, report.image, size.vcpus, size.memory_mb
        )?;
        let mut table =
            Table::new(["WHAT", "MEDIAN", "UNIT", "N", "BOUND", ""]).align_right(1).align_right(3);
        for measured in &report.measurements {
            let (bound, kept) = match &measured.bound {
                Some(bound) => (bound.text.clone(), if bound.kept { "kept" } else { "MISSED" }),
                None => (String::new(), ""),
            };
            table.row([
                measured.name.clone(),
                format!("{:.1}", measured.value),
                measured.unit.to_owned(),
                measured.samples.to_string(),
                bound,
                kept.to_owned(),
            ]);
        }
        table.write(out)
    })?;
    Ok(0)
}
