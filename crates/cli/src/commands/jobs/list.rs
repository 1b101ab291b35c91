//! `agentiso jobs ls`.

use std::io::Write;

use agentiso_core::Failure;
use agentiso_core::action::{Job, JobList};

use crate::args::Names;
use crate::commands::Daemon;
use crate::output::Output;
use crate::ui::{Table, age_since, bytes};

const COLUMNS: [&str; 5] = ["ID", "STATE", "AGE", "OUTPUT", "COMMAND"];

pub async fn list(daemon: &Daemon, workspace: String, only: Names, output: Output) -> Result<u8, Failure> {
    let listed = daemon.ask("Still looking", &JobList { workspace_id: workspace }).await?;
    output.result(&listed, |out| {
        if only.names {
            return listed.jobs.iter().try_for_each(|job| writeln!(out, "{}", job.job_id));
        }
        let mut table = [0, 2, 3].into_iter().fold(Table::new(COLUMNS), Table::align_right);
        listed.jobs.iter().for_each(|job| table.row(row(job)));
        table.write(out)
    })?;
    Ok(0)
}

fn row(job: &Job) -> [String; 5] {
    let state = match (job.running, job.exit_code) {
        (true, _) => "running".to_owned(),
        (false, Some(code)) => format!("exit {code}"),
        (false, None) => "ended".to_owned(),
    };
    [
        job.job_id.to_string(),
        state,
        age_since(&job.started_at),
        bytes(job.stdout_bytes + job.stderr_bytes),
        job.command.clone(),
    ]
}
