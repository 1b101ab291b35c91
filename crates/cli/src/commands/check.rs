//! `agentiso check`: what agentiso needs, found or not, and how to get it.

use std::io::Write;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_runtime::check::{Standing, check as look};

use super::NoFlags;
use crate::output::Output;

/// Shows everything that was found. The exit code is 1 if machines cannot run.
pub async fn check(paths: &Paths, _: NoFlags, output: Output) -> Result<u8, Failure> {
    let report = look(paths).await;
    output.result(&report, |out| {
        let paint = out.paint();
        let width = report.findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
        for finding in &report.findings {
            let mark = match finding.standing {
                Standing::Ok => paint.good("ok     "),
                Standing::Warning => paint.warning("warning"),
                Standing::Missing => paint.bad("missing"),
            };
            writeln!(out, "{mark}  {:width$}  {}", finding.name, finding.detail)?;
            if let Some(fix) = &finding.fix {
                writeln!(out, "{:9}{:width$}  {} {fix}", "", "", paint.faint("try:"))?;
            }
        }
        Ok(())
    })?;
    Ok(u8::from(!report.ok))
}
