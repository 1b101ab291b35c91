//! `agentiso jobs WS start`.

use std::io::Write;

use agentiso_core::action::JobStart;
use agentiso_core::{Code, Failure};

use super::shell_line::shell_line;
use crate::args::StartJob;
use crate::commands::Daemon;
use crate::output::Output;

pub async fn start(
    daemon: &Daemon,
    workspace: String,
    flags: StartJob,
    output: Output,
) -> Result<u8, Failure> {
    let env = flags.env.iter().filter_map(|text| match text.split_once('=') {
        Some((name, value)) => Some((name.to_owned(), value.to_owned())),
        None => Some((text.clone(), std::env::var(text).ok()?)),
    });
    let env: std::collections::BTreeMap<_, _> = env.collect();
    if env.contains_key("") {
        return Err(Failure::new(Code::InvalidArgument, "--env wants NAME=VALUE or NAME")
            .with_remedy("for example --env EDITOR=vi"));
    }
    let wish = JobStart {
        workspace_id: workspace,
        command: shell_line(&flags.words),
        workdir: flags.workdir,
        env,
        user: flags.user,
        stdin: false,
        timeout_secs: flags.timeout,
    };
    let started = daemon.ask("Still starting the job", &wish).await?;
    output.result(&started, |out| {
        writeln!(out, "Started job {}.", started.job_id)?;
        if out.is_terminal() {
            writeln!(out, "Try: agentiso jobs {} logs {} --follow", wish.workspace_id, started.job_id)?;
        }
        Ok(())
    })?;
    Ok(0)
}
