//! `agentiso daemon`.

use std::io::Write;
use std::time::Duration;

use agentiso_config::paths::Paths;
use agentiso_core::action::ServerStatus;
use agentiso_core::{Code, Failure};
use agentiso_runtime::process_end;
use serde_json::json;

use super::status::describe;
use crate::args::DaemonVerb;
use crate::daemon::{self, client, client_if_running, log_file, running_pid, socket_file};
use crate::output::Output;

/// How long a daemon may take to end, machines and all.
const PATIENCE: Duration = Duration::from_secs(60);

/// Does something with the daemon.
pub async fn daemon(here: &Paths, verb: DaemonVerb, output: Output) -> Result<u8, Failure> {
    match verb {
        DaemonVerb::Run(flags) => daemon::run(here, flags.detached, flags.metrics_port).await,
        DaemonVerb::Start => start(here, output).await,
        DaemonVerb::Stop { machines } => {
            let stopped = stop(here, machines).await?;
            output.result(&json!({ "stopped": stopped }), |out| match stopped {
                true => writeln!(out, "Stopped the daemon."),
                false => writeln!(out, "No daemon is running."),
            })?;
            Ok(0)
        }
        DaemonVerb::Restart => {
            stop(here, false).await?;
            start(here, output).await
        }
        DaemonVerb::Status => status(here, output).await,
    }
}

async fn start(here: &Paths, output: Output) -> Result<u8, Failure> {
    client(here).await?;
    let pid = running_pid(&here.home);
    let socket = socket_file(&here.run_dir);
    output.result(&json!({ "running": true, "pid": pid, "socket": socket }), |out| match pid {
        Some(pid) => writeln!(out, "The daemon is running (process {pid})."),
        None => writeln!(out, "The daemon is running."),
    })?;
    Ok(0)
}

/// Ends the daemon and waits until it has; says whether there was one.
async fn stop(here: &Paths, machines: bool) -> Result<bool, Failure> {
    let pid = running_pid(&here.home);
    let Some(client) = client_if_running(here).await? else { return Ok(false) };
    client.shut_down(machines).await?;
    if let Some(pid) = pid
        && tokio::time::timeout(PATIENCE, process_end(pid)).await.is_err()
    {
        let message = format!("the daemon did not exit within {} s", PATIENCE.as_secs());
        return Err(Failure::new(Code::Timeout, message).with_remedy(format!("kill it: kill {pid}")));
    }
    Ok(true)
}

async fn status(here: &Paths, output: Output) -> Result<u8, Failure> {
    let log = log_file(&here.home);
    let Some(client) = client_if_running(here).await? else {
        output.result(&json!({ "running": false, "log": log }), |out| {
            writeln!(out, "No daemon is running for {}.", here.home.display())
        })?;
        return Ok(1);
    };
    let state = client.act(&ServerStatus {}).await?;
    let mut object = json!(state);
    object["running"] = json!(true);
    object["socket"] = json!(socket_file(&here.run_dir));
    object["log"] = json!(log);
    output.result(&object, |out| {
        describe(out, &state)?;
        writeln!(out, "log         {}", log.display())
    })?;
    Ok(0)
}
