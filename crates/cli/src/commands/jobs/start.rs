//! `agentiso jobs start`.

use std::io::Write;

use agentiso_core::action::JobStart;
use agentiso_core::{Code, Failure};

use super::shell_line::shell_line;
use crate::args::{Conditions, StartJob};
use crate::commands::Daemon;
use crate::commands::attend::variable;
use crate::output::Output;

pub async fn start(daemon: &Daemon, flags: StartJob, output: Output) -> Result<u8, Failure> {
    let Conditions { env, workdir, user, timeout } = flags.conditions;
    let env = env.iter().filter_map(|text| variable(text).transpose()).map(|variable| {
        let (name, value) = variable?;
        let value = value.into_string().map_err(|_| {
            Failure::new(Code::InvalidArgument, format!("the value of the variable {name} is not UTF-8"))
        })?;
        Ok((name, value))
    });
    let env = env.collect::<Result<_, Failure>>()?;
    let request = JobStart {
        workspace_id: flags.workspace,
        command: shell_line(&flags.words),
        workdir,
        env,
        user,
        stdin: false,
        timeout_secs: timeout,
    };
    let started = daemon.ask("Still starting the job", &request).await?;
    output.result(&started, |out| {
        writeln!(out, "Started job {}.", started.job_id)?;
        if out.is_terminal() {
            writeln!(out, "Try: agentiso jobs logs {} {} --follow", request.workspace_id, started.job_id)?;
        }
        Ok(())
    })?;
    Ok(0)
}
